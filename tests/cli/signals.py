"""Interruption during training: the current step is completed, outputs are valid, the status identifies the signal."""

import pathlib
import signal
import subprocess
import time

from troupe_command import BINARY, TINY, main, metrics, troupe, write

LONG = TINY.replace("steps = 20", "epochs = 1000")


def start(out, before=None):
    """Starts a long run and returns when its first step is certainly over: the start line is written."""
    process = subprocess.Popen([BINARY, "run", write("long.toml", LONG), "--out", out], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=before)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        files = [path for path in pathlib.Path(out).rglob("*metrics*") if path.is_file()] if pathlib.Path(out).exists() else []
        if any('"start"' in path.read_text() for path in files):
            time.sleep(0.3)  # some steps into the epoch, whatever the machine
            return process
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.kill()
    raise AssertionError(f"no start line within 30 s: {process.communicate()}")


def interrupt(which, status):
    process = start("out")
    begin = time.monotonic()
    process.send_signal(which)
    _, errors = process.communicate(timeout=30)
    seconds = time.monotonic() - begin
    assert process.returncode == status, (process.returncode, errors)
    assert seconds < 3, f"took {seconds:.1f} s: more than 2 s and a step"
    last = metrics("out")[-1]
    assert last["event"] == "end" and last["step"] > 0, last
    troupe("eval", "out/model.safetensors")
    names = {path.name for path in pathlib.Path("out").iterdir()}
    assert {"topology.toml", "metrics.jsonl", "epochs.csv", "model.safetensors"} <= names, names


def test_ctrl_c_ends_with_130():
    interrupt(signal.SIGINT, 130)


def test_sigterm_ends_with_143():
    interrupt(signal.SIGTERM, 143)


def test_a_terminal_that_is_closed_ends_with_129():
    interrupt(signal.SIGHUP, 129)


def test_a_run_under_nohup_goes_on_when_the_terminal_is_closed():
    process = start("out", lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    process.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    assert process.poll() is None, process.communicate()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 143, process.returncode


def test_a_second_signal_ends_at_once():
    process = start("out")
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    begin = time.monotonic()
    process.communicate(timeout=30)
    assert time.monotonic() - begin < 2
    assert process.returncode in (130, -signal.SIGINT), process.returncode


main(globals())
