"""Outputs that cannot be written for a while, or not at all: the run goes on, the final weights come first, and what waited
is written again. A limit of the size of files, which can be changed while the run goes on, stands for a disk that is full;
real file systems are used where this user may mount them."""

import os
import pathlib
import resource
import shutil
import signal
import subprocess
import time

from troupe_command import BINARY, TINY, main, metrics, thorough, troupe, write

HARD = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
STEPS = ("--set", "run.steps=10000000", "--set", "evaluate.every=20")


def limited(most, *arguments):
    """Runs the command with a limit of the size of files."""
    return subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=100, stdin=subprocess.DEVNULL,
                          env={**os.environ, "TMPDIR": os.getcwd()}, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, HARD)), check=False)


def wait_until(condition, process, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "this took too long"
        time.sleep(0.01)


def running(*arguments):
    return subprocess.Popen([BINARY, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def interrupt(process):
    process.send_signal(signal.SIGINT)
    printed, said = process.communicate(timeout=60)
    assert process.returncode == 130, (process.returncode, printed, said)
    return said


def evaluations(out):
    return [line["step"] for line in metrics(out) if line["event"] == "evaluation"]


def test_a_disk_that_is_full_for_a_second():
    file = write("tiny.toml", TINY)
    process = running("run", file, "--out", "out", "--csv", "of.csv", "--tensorboard", "--quiet", *STEPS)
    wait_until(lambda: pathlib.Path("of.csv").exists() and len(pathlib.Path("of.csv").read_text().splitlines()) > 3, process)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, HARD))
    full = pathlib.Path("out/metrics.jsonl").stat().st_size
    first = process.stderr.readline()
    assert first.startswith("warning: cannot write ") and "File too large; the run continues, and tries again" in first, first
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (HARD, HARD))
    second = process.stderr.readline()
    assert second.rstrip().endswith("written again"), second
    wait_until(lambda: pathlib.Path("out/metrics.jsonl").stat().st_size > full + 5000, process)
    said = interrupt(process)
    assert said == "", said
    steps = evaluations("out")
    assert steps[:-1] == list(range(20, 20 * len(steps), 20)), "no line is missing"
    assert len(pathlib.Path("of.csv").read_text().splitlines()) == len(steps) + 2
    assert pathlib.Path("out/model.safetensors").exists() and pathlib.Path("out/model_best.safetensors").exists()


@thorough
def test_a_run_succeeds_if_its_weights_are_written():
    process = running("run", write("tiny.toml", TINY), "--out", "out", "--quiet", *STEPS, "--set", "run.max_seconds=3")
    wait_until(pathlib.Path("out/graph.svg").exists, process)
    for name in ("report.html", "model_best.safetensors"):
        pathlib.Path(f"out/{name}.troupe-tmp").mkdir()  # in the way
    printed, said = process.communicate(timeout=60)
    assert process.returncode == 0 and printed == "", (printed, said)
    first, last = said.splitlines()
    assert first == ("warning: cannot write out/model_best.safetensors: Is a directory; the run continues, and tries "
                     "again"), said
    assert last.startswith("warning: not written, or not to the end: model_best.safetensors and report.html"), said
    assert metrics("out")[-1]["status"] == "max_seconds"
    troupe("eval", "out/model.safetensors")


def test_a_limit_of_the_size_of_files_is_like_a_full_disk():
    file = write("tiny.toml", TINY)
    done = limited(100_000, "run", file, "--out", "small", "--set", "checkpoint.every=5")
    assert done.returncode == 1, done
    assert "error: the run failed: " in done.stderr and "cannot write small/model.safetensors: File too large" in done.stderr
    assert "the final weights are lost" in done.stderr, done.stderr
    assert metrics("small")[-1]["status"] == "failed"
    assert done.stderr.count("is not complete") == 1, "one warning for all checkpoints"
    done = limited(1000, "run", file, "--out", "tight", "--quiet")
    assert done.returncode in (1, 2) and "tight" in done.stderr and "File too large" in done.stderr, done
    for command in (["graph", file, "-o", "wiring.svg"], ["run", file, "--out", "recorded", "--record"]):
        done = limited(100, *command)
        assert done.returncode in (1, 2) and "File too large" in done.stderr, done


def test_a_recording_ends_where_it_cannot_be_written():
    asynchronous = TINY.replace('loop = ["gradient", "exchange", "apply"]', 'loop = ["gradient", "exchange"]').replace(
        'kind = "all_reduce"', 'kind = "parameter_server"\napply = "each"').replace("lenet", "mlp")
    file = write("file.toml", asynchronous)
    process = running("run", file, "--out", "run", "--record", "--quiet", "--set", "run.steps=10000000",
                      "--set", "evaluate.every=100000")
    recording = pathlib.Path("run/deliveries.bin")
    wait_until(lambda: recording.exists() and recording.stat().st_size > 20_000, process)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (recording.stat().st_size, HARD))
    said = process.stderr.readline()
    assert "deliveries.bin: File too large; the run continues, but its recording ends here" in said, said
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (HARD, HARD))
    interrupt(process)
    assert "the recording is of a run that did not finish" in troupe("replay", "run", "--out", "again").stderr


def test_a_folder_that_is_removed():
    file = write("tiny.toml", TINY)
    process = running("run", file, "--out", "out", "--quiet", "--set", "checkpoint.every=20", *STEPS)
    wait_until(lambda: len(list(pathlib.Path("out/checkpoints").glob("step-*"))) > 0, process)
    size = pathlib.Path("out/metrics.jsonl").stat().st_size
    os.rename("out", "moved")
    wait_until(lambda: pathlib.Path("out/metrics.jsonl").exists()
               and pathlib.Path("out/metrics.jsonl").stat().st_size > size, process)
    interrupt(process)
    steps = evaluations("out")
    assert steps[:-1] == list(range(20, 20 * len(steps), 20)), steps
    assert pathlib.Path("out/model.safetensors").exists() and pathlib.Path("out/topology.toml").exists()
    troupe("run", "--resume", "out", "--set", f"run.steps={metrics('out')[-1]['step'] + 1}", "--quiet")


def test_a_folder_that_another_run_has_by_then():
    process = running("run", write("tiny.toml", TINY), "--out", "out", "--quiet", *STEPS)
    wait_until(lambda: pathlib.Path("out/model_best.safetensors").exists(), process)
    os.rename("out", "moved")
    pathlib.Path("out").mkdir()
    pathlib.Path("out/notes.txt").write_text("mine")
    assert "the folder has been replaced by one with other files" in process.stderr.readline()
    process.kill()  # it would wait for half a minute
    process.communicate()
    assert [path.name for path in pathlib.Path("out").iterdir()] == ["notes.txt"]


def interrupted(out, *settings):
    """Leaves a run with checkpoints that was killed."""
    write("tiny.toml", TINY)
    process = running("run", "tiny.toml", "--out", out, "--quiet", "--csv", f"{out}.csv", "--set", "checkpoint.every=20",
                      "--set", "evaluate.every=10", "--set", "run.steps=10000", *settings)
    wait_until(lambda: len(list(pathlib.Path(out, "checkpoints").glob("step-*"))) > 1, process)
    process.kill()
    process.communicate()


def resume(out):
    step = int(max(path.name for path in pathlib.Path(out, "checkpoints").glob("step-*"))[5:])
    said = troupe("run", "--resume", out, "--set", f"run.steps={step + 20}", "--quiet").stderr
    assert metrics(out)[-1]["step"] == step + 20
    return step, said


@thorough
def test_a_run_continues_without_its_metrics():
    interrupted("out")
    for name in ("whole", "random", "none"):
        shutil.copytree("out", name)
    path = pathlib.Path("random/metrics.jsonl")
    stranger = os.urandom(path.stat().st_size)
    path.write_bytes(stranger)
    pathlib.Path("none/metrics.jsonl").unlink()
    for name in ("whole", "random", "none"):
        pathlib.Path("out.csv").unlink()
        step, said = resume(name)
        assert "out.csv is missing, and is written again" in said, said
        missing = f"the metrics of the steps before {step} are missing in {name}/metrics.jsonl"
        assert (missing in said) == (name != "whole"), said
        first = metrics(name)[0]["event"]
        assert first == ("start" if name == "whole" else "resume"), first
        assert [line["step"] for line in metrics(name) if line["event"] == "evaluation"][-1] == step + 20
    assert pathlib.Path("random/metrics.jsonl.other").read_bytes() == stranger
    steps = evaluations("whole")
    assert steps == list(range(10, 10 * len(steps) + 10, 10)), steps
    rows = pathlib.Path("out.csv").read_text().splitlines()  # that of the last
    assert len(rows) == 2 + len(evaluations("none")), (rows, metrics("none"))
    for name in ("random", "none"):
        assert pathlib.Path(name, "model.safetensors").read_bytes() == pathlib.Path("whole/model.safetensors").read_bytes()


def mounted(path, size):
    """Mounts a small file system, or says why it cannot."""
    pathlib.Path(path).mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", path], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        print(f"  SKIPPED: {done.stderr.strip()}")
    return done.returncode == 0


@thorough
def test_a_real_disk_that_is_full():
    if not mounted("disk", "8m"):
        return
    try:
        file = write("tiny.toml", TINY)
        process = running("run", file, "--out", "disk/out", "--quiet", "--set", "checkpoint.every=40", *STEPS)
        wait_until(lambda: len(list(pathlib.Path("disk/out/checkpoints").glob("step-*"))) > 0, process)
        with open("disk/fill", "wb", buffering=0) as fill:
            try:
                while True:
                    fill.write(bytes(1 << 16))
            except OSError:
                pass
        first = process.stderr.readline()
        assert "No space left on device" in first, first
        size = pathlib.Path("disk/out/metrics.jsonl").stat().st_size
        os.remove("disk/fill")
        wait_until(lambda: pathlib.Path("disk/out/metrics.jsonl").stat().st_size > size + 10_000, process)
        said = interrupt(process).splitlines()
        assert len(said) <= 3 and any("written again" in line for line in said), said
        steps = evaluations("disk/out")
        assert steps[:-1] == list(range(20, 20 * len(steps), 20)), steps
        assert pathlib.Path("disk/out/model.safetensors").exists()
    finally:
        subprocess.run(["umount", "-l", "disk"], check=True)


def test_a_file_system_that_is_taken_away():
    if not mounted("disk", "8m"):
        return
    file = write("tiny.toml", TINY)
    process = running("run", file, "--out", "disk/out", "--quiet", *STEPS)
    wait_until(lambda: pathlib.Path("disk/out/model_best.safetensors").exists(), process)
    subprocess.run(["umount", "-l", "disk"], check=True)
    wait_until(pathlib.Path("disk/out/metrics.jsonl").exists, process)
    interrupt(process)
    steps = evaluations("disk/out")
    assert steps[:-1] == list(range(20, 20 * len(steps), 20)), steps
    assert pathlib.Path("disk/out/model.safetensors").exists()


main(globals())
