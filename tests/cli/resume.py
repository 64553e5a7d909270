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

from nodes import background, free_ports, node_process, node_tables
from troupe_command import BINARY, TINY, main, metrics, thorough, timeless, troupe, write

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


@thorough
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


def continue_as_printed(printed):
    """Has a shell run the command that continues a run, as it was printed, and returns it."""
    found = [line for line in printed.splitlines() if line.startswith("continue with: ")]
    assert len(found) == 1, printed
    command = found[0].removeprefix("continue with: ")
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120,
                          stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return command


@thorough
def test_an_interrupted_run_prints_the_command_that_continues_it():
    uninterrupted()
    for out, quoted in (("out", "out"), ("of 'mine'\n", "$'of \\'mine\\'\\012'")):
        process = start(out)
        wait_for_checkpoint(process, out)
        process.send_signal(signal.SIGTERM)
        printed, _ = process.communicate(timeout=30)
        assert process.returncode == 143, process.returncode
        assert metrics(out)[-1]["step"] == int(folders(out)[-1].name[5:]), "it writes a checkpoint at its last step"
        assert continue_as_printed(printed).endswith(f" run --resume {quoted}"), printed
        expect_same(out)


def test_the_time_limit_ends_a_run_that_can_be_continued():
    write("run.toml", TEXT.replace(f"steps = {STEPS}", "epochs = 1000"))
    done = troupe("run", "run.toml", "--out", "out", "--set", "run.max_seconds=2")
    assert continue_as_printed(done.stdout).endswith(" run --resume out --set run.max_seconds=4")
    end = metrics("out")[-1]  # its time is that of its step, at which workers may have waited for an evaluation
    assert end["status"] == "max_seconds" and end["seconds"] > 3, end


@thorough
def test_several_nodes_continue_what_one_began_and_the_reverse():
    uninterrupted()
    nodes = '[[node]]\nname = "a"\nworkers = 1\n[[node]]\nname = "b"\nworkers = 1\n'
    write("nodes.toml", TEXT.replace("count = 2\n", "") + nodes)
    killed("out")
    troupe("run", "nodes.toml", "--resume", "out")
    expect_same("out")
    assert "[[node]]" in pathlib.Path("out", "topology.toml").read_text()


@thorough
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


@thorough
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
    write("other.toml", text.replace("batch_size = 8", "batch_size = 4") + node_tables([1, 1], ports, ["a", "b"]))
    said = troupe("node", "other.toml", "--name", "b", "--resume", "out/copy", status=2).stderr
    assert "data.batch_size was 8 and is 4" in said, said
    for path, content in before.items():
        if path.exists() and path.name != ".troupe-run":  # it names the process that has opened the folder last
            assert path.read_bytes() == content, path
    troupe("run", "copied.toml", "--out", "out", "--overwrite")


def test_the_command_keeps_settings_and_options_and_the_name_of_the_program():
    pathlib.Path("a folder").mkdir()
    pathlib.Path("a folder/troupe").symlink_to(os.path.abspath(BINARY))
    write("run.toml", TEXT)
    process = subprocess.Popen(["a folder/troupe", "run", "run.toml", "--out", "its results", "--tensorboard", "--trace",
                                "--set", "optimizer.betas=[0.9, 0.99]", "--set", "optimizer.name=adam"],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for_checkpoint(process, "its results")
    process.send_signal(signal.SIGINT)
    printed, said = process.communicate(timeout=30)
    assert process.returncode == 130, (process.returncode, printed, said)
    command = continue_as_printed(printed)
    assert command == "'a folder/troupe' run --resume 'its results' --tensorboard --trace", command
    text = pathlib.Path("its results", "topology.toml").read_text()
    assert "betas" in text and metrics("its results")[-1]["step"] == STEPS, text


def test_a_node_prints_its_own_command_with_every_setting():
    ports = free_ports(2)
    write("two.toml", TEXT.replace("count = 2\n", "").replace("lr = 0.05", "lr = 0.5").replace("steps = 300", "epochs = 1000")
          + node_tables([1, 1], ports, ["a", "b"]))
    settings = ["--set", "optimizer.lr=0.05", "--set", "security.insecure=true"]
    with background("node", "two.toml", "--name", "b", *settings, name="b") as second:
        process = subprocess.Popen([BINARY, "node", "two.toml", "--name", "a", "--out", "out", *settings],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        wait_for_checkpoint(process, "out")
        os.kill(second.pid, signal.SIGKILL)
        printed, said = process.communicate(timeout=30)
    assert process.returncode == 1 and "node b is lost" in said, (process.returncode, printed, said)
    assert "start the other nodes again" in printed, printed
    step = int(folders("out")[-1].name[5:])
    with background("node", "two.toml", "--name", "b", *settings, name="b"):
        line = printed.splitlines()[-1]
        assert line == f"continue with: {BINARY} node two.toml --name a --set optimizer.lr=0.05 " \
            "--set security.insecure=true --resume out", line
        again = subprocess.Popen(line.removeprefix("continue with: "), shell=True, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        wait_for_checkpoint(again, "out", step + 20)
        os.killpg(again.pid, signal.SIGKILL)
        again.communicate()


def test_a_run_that_loses_its_first_node_prints_the_command_too():
    nodes = '[[node]]\nname = "a"\nworkers = 1\n[[node]]\nname = "b"\nworkers = 1\n'
    write("nodes.toml", TEXT.replace("count = 2\n", "").replace("steps = 300", "epochs = 1000") + nodes)
    process = subprocess.Popen([BINARY, "run", "nodes.toml"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not list(pathlib.Path("runs").glob("*/checkpoints/step-*")) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(node_process("a"), signal.SIGKILL)
    printed, said = process.communicate(timeout=30)
    assert process.returncode == 1, (process.returncode, printed, said)
    out = next(pathlib.Path("runs").iterdir())
    assert printed.splitlines()[-1] == f"continue with: {BINARY} run --resume {out}", printed
    troupe("run", "--resume", out, "--set", "run.max_seconds=1")


def test_without_a_checkpoint_there_is_nothing_to_continue():
    write("run.toml", TEXT.replace("steps = 300", "epochs = 1000").replace("[checkpoint]\nevery = 20\n", ""))
    process = start("out")
    while not pathlib.Path("out/metrics.jsonl").exists() or "start" not in pathlib.Path("out/metrics.jsonl").read_text():
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    printed, _ = process.communicate(timeout=30)
    assert process.returncode == 143 and "continue with" not in printed, printed


EARLY = TEXT.replace("steps = 300", "steps = 100000").replace("every = 50", "every = 50\ntarget_accuracy = 0.3\ntarget_hold = 1")


def resumed_lines(out):
    return [line for line in metrics(out) if line["event"] == "resume"]


def test_a_run_that_stopped_early_goes_on_with_another_target():
    write("early.toml", EARLY.replace("lr = 0.05", "lr = 0.05\nmomentum = 0.9"))
    done = troupe("run", "early.toml", "--out", "out")
    assert "stopped early (one evaluation reached evaluate.target_accuracy = 0.3) after" in done.stdout, done.stdout
    said = troupe("run", "--resume", "out").stderr
    assert "it was stopped early after" in said and "with another evaluate.target_accuracy" in said, said
    said = troupe("run", "--resume", "out", "--set", "run.timeout=50s").stderr
    assert "it was stopped early after" in said, said
    done = troupe("run", "--resume", "out", "--set", "evaluate.target_accuracy=0.8", "--set", "optimizer.lr=0.04")
    end = metrics("out")[-1]
    assert end["status"] == "stopped_early" and end["val_accuracy"] >= 0.8 and end["lr"] == 0.04, end
    changed = {"evaluate.target_accuracy": ["0.3", "0.8"], "optimizer.lr": ["0.05", "0.04"]}
    assert [line["changed"] for line in resumed_lines("out")] == [changed], resumed_lines("out")
    assert "optimizer.lr was 0.05 and is 0.04" in done.stdout, done.stdout
    assert all(line["changed"] is None for line in metrics("out") if line["event"] != "resume")


@thorough
def test_every_interval_may_change():
    for name, exchange in {"gossip": '[exchange]\nkind = "gossip"\ngraph = "ring"\nevery = 6\n',
                           "asynchronous": '[exchange]\nkind = "elastic"\napply = "each"\nevery = 6\n'}.items():
        loop = TEXT.replace('"exchange", "apply"', '"apply", "exchange"') if name != "gossip" else TEXT
        text = loop.replace('[exchange]\nkind = "all_reduce"\n', exchange)
        write("run.toml", text.replace("steps = 300", "steps = 60"))
        troupe("run", "run.toml", "--out", name)
        for step, every, evaluate in ((80, 4, 200), (100, 1, 3)):
            troupe("run", "--resume", name, "--set", f"run.steps={step}", "--set", f"exchange.every={every}",
                   "--set", f"evaluate.every={evaluate}")
            lines = metrics(name)
            assert lines[-1]["event"] == "end" and lines[-1]["step"] == step, (name, lines[-1])
            changed = resumed_lines(name)[-1]["changed"]
            assert changed["exchange.every"][1] == f'"{every} step{"s" * (every > 1)}"', changed
        evaluated = [line["step"] for line in metrics(name) if line["event"] == "evaluation"]
        assert evaluated[-3:] == [96, 99, 100] and evaluated == sorted(set(evaluated)), (name, evaluated)


def wait_until_unlocked(out):
    """Returns when no process writes into the folder any more."""
    folder = os.open(out, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    os.close(folder)


@thorough
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


@thorough
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


@thorough
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
    said = troupe("run", "run.toml", "--resume", "out", "--set", "optimizer.momentum=0.1", status=2).stderr
    assert "optimizer.momentum was 0.0 and is 0.1" in said, said
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
