"""Runs that are killed or interrupted and then continued: the same weights and metrics as without interruption, outputs
cut back to the checkpoint, damaged checkpoints passed over, and what is refused."""

import fcntl
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

from nodes import background, free_ports, node_tables
from troupe_command import BINARY, TINY, main, metrics, timeless, troupe, write

STEPS = 300
TEXT = TINY.replace("steps = 20", f"steps = {STEPS}") + '[evaluate]\nevery = 50\n[checkpoint]\nevery = 20\n'


def folders(out):
    return sorted(path for path in pathlib.Path(out, "checkpoints").glob("step-*"))


def start(out, *options, file="run.toml"):
    return subprocess.Popen([BINARY, "run", file, "--out", out, *options], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_checkpoint(process, out, step=0):
    """Returns when a checkpoint of a later step is complete."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if any(int(path.name[5:]) > step for path in folders(out)):
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)
    process.kill()
    raise AssertionError(f"no checkpoint within 60 s: {process.communicate()}")


def killed(out, *options, file="run.toml"):
    """Leaves a run that was killed after a checkpoint."""
    process = start(out, *options, file=file)
    wait_for_checkpoint(process, out)
    process.kill()
    process.communicate()
    assert not pathlib.Path(out, "model.safetensors").exists(), "the run ended too early for this test"


def uninterrupted():
    write("run.toml", TEXT)
    troupe("run", "run.toml", "--out", "whole", "--csv", "whole.csv")


def expect_same(out):
    for name in ("model.safetensors", "model_best.safetensors"):
        assert pathlib.Path(out, name).read_bytes() == pathlib.Path("whole", name).read_bytes(), name
    assert timeless(out) == timeless("whole")
    assert len(pathlib.Path(out, "epochs.csv").read_text().splitlines()) == \
        len(pathlib.Path("whole", "epochs.csv").read_text().splitlines())


def test_a_run_that_is_killed_repeatedly_ends_in_the_same_bytes():
    uninterrupted()
    killed("out", "--csv", "out.csv")
    process = subprocess.Popen([BINARY, "run", "--resume", "out"], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for_checkpoint(process, "out", int(folders("out")[-1].name[5:]))
    process.kill()
    process.communicate()
    troupe("run", "--resume", "out")
    expect_same("out")
    assert any(line["event"] == "resume" for line in metrics("out"))
    accuracies = [[line.split(",")[1] for line in pathlib.Path(f"{name}.csv").read_text().splitlines()]
                  for name in ("out", "whole")]
    assert accuracies[0] == accuracies[1], accuracies


def test_an_interrupted_run_prints_the_command_that_continues_it():
    uninterrupted()
    process = start("out")
    wait_for_checkpoint(process, "out")
    process.send_signal(signal.SIGTERM)
    printed, _ = process.communicate(timeout=30)
    assert process.returncode == 143, process.returncode
    last = printed.splitlines()[-1]
    assert last == "continue with: troupe run --resume out", last
    assert metrics("out")[-1]["step"] == int(folders("out")[-1].name[5:]), "it writes a checkpoint at its last step"
    troupe(*last.split()[3:])
    expect_same("out")


def test_the_time_limit_ends_a_run_that_can_be_continued():
    write("run.toml", TEXT.replace(f"steps = {STEPS}", "epochs = 1000"))
    done = troupe("run", "run.toml", "--out", "out", "--set", "run.max_seconds=2")
    last = done.stdout.splitlines()[-1]
    assert last == "continue with: troupe run --resume out --set run.max_seconds=4", last
    troupe(*last.split()[3:])
    end = metrics("out")[-1]  # its time is that of its step, at which workers may have waited for an evaluation
    assert end["status"] == "max_seconds" and end["seconds"] > 3, end


def test_several_nodes_continue_what_one_began_and_the_reverse():
    uninterrupted()
    nodes = '[[node]]\nname = "a"\nworkers = 1\n[[node]]\nname = "b"\nworkers = 1\n'
    write("nodes.toml", TEXT.replace("count = 2\n", "") + nodes)
    killed("out")
    troupe("run", "nodes.toml", "--resume", "out")
    expect_same("out")
    assert "[[node]]" in pathlib.Path("out", "topology.toml").read_text()


def test_a_second_node_keeps_copies_from_which_the_run_continues_without_the_first():
    uninterrupted()
    nodes = '[[node]]\nname = "a"\nworkers = 1\n[[node]]\nname = "b"\nworkers = 1\n'
    write("copied.toml", TEXT.replace("count = 2\n", "").replace("every = 20", "every = 20\ncopies = 2") + nodes)
    process = start("out", "--csv", "out.csv", file="copied.toml")
    wait_for_checkpoint(process, "out/copy")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert [path.name for path in folders("out")] == [path.name for path in folders("out/copy")], (folders("out"), folders("out/copy"))
    shutil.move("out/copy", "elsewhere")
    shutil.rmtree("out")
    pathlib.Path("out.csv").unlink()
    troupe("run", "--resume", "elsewhere")
    expect_same("elsewhere")
    assert [path.name for path in folders("elsewhere")] == [path.name for path in folders("elsewhere/copy")]
    lines = [len(pathlib.Path(file).read_text().splitlines()) for file in ("elsewhere/csv/out.csv", "whole.csv")]
    assert lines[0] == lines[1], lines


def test_copies_are_not_replaced_by_accident():
    nodes = '[[node]]\nname = "a"\nworkers = 1\n[[node]]\nname = "b"\nworkers = 1\n'
    text = TEXT.replace("count = 2\n", "").replace("every = 20", "every = 20\ncopies = 2")
    write("copied.toml", text + nodes)
    troupe("run", "copied.toml", "--out", "out")
    before = {path: path.read_bytes() for path in pathlib.Path("out").rglob("*") if path.is_file()}
    pathlib.Path("out/model.safetensors").unlink()
    shutil.rmtree("out/checkpoints")
    said = troupe("run", "copied.toml", "--out", "out", status=2).stderr
    assert "out/copy: the folder contains a run without model.safetensors, but with checkpoints" in said, said
    said = troupe("run", "--resume", "out", status=2).stderr
    assert "the folder has no checkpoints; continue from the copies with --resume out/copy" in said, said
    ports = free_ports(2)
    write("hand.toml", text + node_tables([1, 1], ports, ["a", "b"]))
    with background("node", "hand.toml", "--name", "a", "--out", "fresh", name="a"):
        said = troupe("node", "hand.toml", "--name", "b", "--resume", "out/copy", status=2).stderr
        assert "node a begins a new run" in said, said
    write("other.toml", text.replace("lr = 0.05", "lr = 0.06") + node_tables([1, 1], ports, ["a", "b"]))
    said = troupe("node", "other.toml", "--name", "b", "--resume", "out/copy", status=2).stderr
    assert "optimizer.lr was 0.05 and is 0.06" in said, said
    for path, content in before.items():
        if path.exists() and path.name != ".troupe-run":  # it names the process that has opened the folder last
            assert path.read_bytes() == content, path
    troupe("run", "copied.toml", "--out", "out", "--overwrite")


def wait_until_unlocked(out):
    """Returns when no process writes into the folder any more."""
    folder = os.open(out, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    os.close(folder)


def test_a_run_of_several_nodes_is_continued_on_other_ports():
    nodes = '[[node]]\nname = "a"\nworkers = 1\n[[node]]\nname = "b"\nworkers = 1\n'
    write("run.toml", TEXT)
    troupe("run", "run.toml", "--out", "whole")
    write("nodes.toml", TEXT.replace("count = 2\n", "") + nodes)
    killed("out", file="nodes.toml")
    wait_until_unlocked("out")
    used = [int(port) for port in re.findall(r'^(?:address|listen) = ".*:(\d+)"$',
                                             pathlib.Path("out", "topology.toml").read_text(), re.MULTILINE)]
    assert used == [0, 0], "the file keeps the ports of the topology file, not those that were chosen"
    troupe("run", "--resume", "out")
    expect_same("out")


def test_a_damaged_checkpoint_is_named_and_passed_over():
    uninterrupted()
    killed("out")
    while len(folders("out")) < 2:  # it was killed before the second one
        troupe("run", "--resume", "out", "--set", "run.steps=100")
    newest = folders("out")[-1]
    weights = newest / "worker-0.safetensors"
    content = bytearray(weights.read_bytes())
    content[len(content) // 2] ^= 4
    weights.write_bytes(content)
    done = troupe("run", "--resume", "out", "--set", f"run.steps={STEPS}")
    assert f"{newest}: this checkpoint cannot be used: worker-0.safetensors" in done.stderr, done.stderr
    assert pathlib.Path("out", "model.safetensors").read_bytes() == \
        pathlib.Path("whole", "model.safetensors").read_bytes()


def test_a_complete_run_is_not_repeated_but_can_be_extended():
    write("run.toml", TEXT)
    troupe("run", "run.toml", "--out", "whole")
    troupe("run", "run.toml", "--out", "out", "--set", "run.steps=200")
    before = {path: path.stat().st_mtime_ns for path in pathlib.Path("out").rglob("*")}
    done = troupe("run", "--resume", "out")
    assert "the run is complete after 200 steps" in done.stderr, done.stderr
    assert {path: path.stat().st_mtime_ns for path in pathlib.Path("out").rglob("*")} == before
    troupe("run", "run.toml", "--resume", "out")
    assert pathlib.Path("out", "model.safetensors").read_bytes() == \
        pathlib.Path("whole", "model.safetensors").read_bytes()


def test_other_settings_are_refused_by_name():
    write("run.toml", TEXT)
    killed("out")
    said = troupe("run", "run.toml", "--resume", "out", "--set", "optimizer.lr=0.1", status=2).stderr
    assert "optimizer.lr was 0.05 and is 0.1" in said, said
    write("more.toml", TEXT.replace("count = 2", "count = 3"))
    said = troupe("run", "more.toml", "--resume", "out", status=2).stderr
    assert "workers.count was 2 and is 3" in said, said
    said = troupe("run", "--resume", "out", "--overwrite", status=2).stderr
    assert "--overwrite" in said, said
    said = troupe("run", "--resume", "out", "--out", "other", status=2).stderr
    assert "--out" in said, said
    said = troupe("run", "--resume", "out", "--set", "run.steps=1", status=2).stderr
    assert "has made" in said, said
    said = troupe("run", "run.toml", "--out", "out", status=2).stderr
    assert "--resume" in said and "--overwrite" in said, said


def test_another_machine_is_a_warning():
    write("run.toml", TEXT)
    killed("out")
    environment = dict(os.environ, ATEN_CPU_CAPABILITY="default")
    done = subprocess.run([BINARY, "run", "--resume", "out"], capture_output=True, text=True, timeout=120,
                          env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert "warning: the checkpoint was written elsewhere (CPU capability is" in done.stderr, done.stderr
    assert "arithmetic is" in done.stderr and "kernel selection is" in done.stderr, done.stderr


def as_written(value):
    return json.dumps(value, indent=1, ensure_ascii=False)


def test_a_checkpoint_of_an_earlier_build_is_read():
    write("run.toml", TEXT)
    killed("out")
    for file in pathlib.Path("out/checkpoints").glob("*/manifest.json"):
        manifest = json.loads(file.read_text())["manifest"]
        for name in ("arithmetic", "kernel selection"):
            assert manifest["fingerprint"].pop(name), manifest["fingerprint"]
        digest = hashlib.sha256(as_written(manifest).encode()).hexdigest()
        file.write_text(as_written({"sha256": digest, "manifest": manifest}) + "\n")
    done = troupe("run", "--resume", "out")
    assert "warning" not in done.stderr, done.stderr


def test_the_manifest_lists_every_file():
    write("run.toml", TEXT)
    killed("out")
    newest = folders("out")[-1]
    manifest = json.loads((newest / "manifest.json").read_text())["manifest"]
    assert manifest["format"] == 1 and manifest["step"] == int(newest.name[5:])
    assert set(manifest["files"]) | {"manifest.json"} == {path.name for path in newest.iterdir()}
    assert {"coordinator", "worker 0", "worker 1"} <= set(manifest["actors"])


main(globals())
