"""Signals: during training the current step is completed, outputs are valid and the status identifies the signal; before
that, and in commands that save nothing, the process ends with a line. Whatever comes within a second is one event."""

import fcntl
import os
import pathlib
import pty
import signal
import subprocess
import threading
import time

from troupe_command import BINARY, TINY, main, metrics, thorough, troupe, write

LONG = TINY.replace("steps = 20", "epochs = 1000")

# Steps of half a minute and more: the run cannot end in good order soon.
SLOW = TINY.replace("lenet", "resnet20").replace("batch_size = 8", "batch_size = 5000\nmicro_batch_size = 50")


def start(out, before=None, text=LONG, command="run"):
    """Starts a long run and returns when its first step is certainly over: the start line is written."""
    process = subprocess.Popen([BINARY, command, write("long.toml", text), "--out", out], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=before)
    wait_for_start(out, process)
    return process


def wait_for_start(out, process=None):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        files = [path for path in pathlib.Path(out).rglob("*metrics*") if path.is_file()] if pathlib.Path(out).exists() else []
        if any('"start"' in path.read_text() for path in files):
            time.sleep(0.3)  # some steps into the epoch, whatever the machine
            return
        assert process is None or process.poll() is None, process.communicate()
        time.sleep(0.01)
    if process:
        process.kill()
    raise AssertionError(f"no start line within 30 s: {process and process.communicate()}")


def is_saved(out):
    last = metrics(out)[-1]
    assert last["event"] == "end" and last["step"] > 0 and last["status"] == "interrupted", last
    troupe("eval", f"{out}/model.safetensors")
    names = {path.name for path in pathlib.Path(out).iterdir()}
    assert {"topology.toml", "metrics.jsonl", "epochs.csv", "model.safetensors"} <= names, names


def interrupt(which, status, again=()):
    process = start("out")
    begin = time.monotonic()
    process.send_signal(which)
    for pause, more in again:
        time.sleep(pause)
        if process.poll() is None:
            process.send_signal(more)
    _, errors = process.communicate(timeout=30)
    seconds = time.monotonic() - begin
    assert process.returncode == status, (process.returncode, errors)
    assert seconds < 3, f"took {seconds:.1f} s: more than 2 s and a step"
    is_saved("out")


def test_ctrl_c_ends_with_130():
    interrupt(signal.SIGINT, 130)


def test_sigterm_ends_with_143():
    interrupt(signal.SIGTERM, 143)


def test_a_terminal_that_is_closed_ends_with_129():
    interrupt(signal.SIGHUP, 129)


@thorough
def test_the_signals_of_schedulers_and_limits_end_it_too():
    for which in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU, signal.SIGALRM):
        interrupt(which, 128 + which)
        subprocess.run(["rm", "-r", "out"], check=True)


def test_signals_within_a_second_are_one_event():
    interrupt(signal.SIGHUP, 129, again=[(0, signal.SIGHUP), (0.02, signal.SIGHUP), (0.1, signal.SIGTERM)])


def test_a_real_terminal_that_is_closed_ends_it_in_good_order():
    # The kernel signals the foreground job, and the shell signals it once more.
    for name in ("first", "second", "third"):
        shell, terminal = pty.fork()
        if shell == 0:
            os.execvp("bash", ["bash", "--norc", "-i"])
        reader = threading.Thread(target=drain, args=(terminal,), daemon=True)
        reader.start()
        os.write(terminal, f"{os.path.abspath(BINARY)} run {write('long.toml', LONG)} --out {name}\n".encode())
        wait_for_start(name)
        os.close(terminal)
        deadline = time.monotonic() + 10
        while not any(line["event"] == "end" for line in metrics(name)):
            assert time.monotonic() < deadline, f"no end: {metrics(name)[-1]}"
            time.sleep(0.05)
        os.waitpid(shell, 0)
        is_saved(name)


def drain(terminal):
    try:
        while os.read(terminal, 65536):
            pass
    except OSError:
        pass


def test_a_run_under_nohup_goes_on_when_the_terminal_is_closed():
    process = start("out", lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    process.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    assert process.poll() is None, process.communicate()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 143, process.returncode


def test_a_second_signal_more_than_a_second_later_ends_at_once():
    process = start("out", text=SLOW)
    process.send_signal(signal.SIGINT)
    time.sleep(1.2)
    assert process.poll() is None, process.communicate()
    process.send_signal(signal.SIGTERM)
    begin = time.monotonic()
    _, errors = process.communicate(timeout=30)
    assert time.monotonic() - begin < 2
    assert process.returncode == 143, (process.returncode, errors)
    assert "ended at once by a second signal, SIGTERM" in errors, errors


def test_a_run_that_cannot_end_yet_says_so():
    process = start("out", text=SLOW)
    process.send_signal(signal.SIGINT)
    said = ""
    while "another signal ends at once" not in said:
        line = process.stderr.readline()
        assert line, f"ended without a word: {said}"
        said += line
    assert "SIGINT received: waiting for the operation under way" in said, said
    process.kill()
    process.communicate()


def test_sigquit_always_ends_at_once():
    process = start("out")
    process.send_signal(signal.SIGQUIT)
    _, errors = process.communicate(timeout=5)
    assert process.returncode == 131, (process.returncode, errors)
    assert "ended at once by SIGQUIT" in errors, errors


def test_simulations_save_what_they_have():
    process = start("out", command="simulate")
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 143, (process.returncode, errors)
    is_saved("out")


def test_commands_that_save_nothing_end_with_a_line():
    file = write("big.toml", TINY.replace("lenet", "resnet20").replace("steps = 20", "steps = 0"))
    troupe("run", file, "--out", "out")
    for which in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        process = subprocess.Popen([BINARY, "eval", "out/model.safetensors", "--split", "train"],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        wait_until_signals_are_watched(process)
        process.send_signal(which)
        printed, errors = process.communicate(timeout=5)
        assert process.returncode == 128 + which, (process.returncode, errors)
        assert errors == f"interrupted by {which.name}\n" and not printed, (printed, errors)


def test_a_command_that_waits_for_another_one_says_so_and_can_be_interrupted():
    os.makedirs("cache/mnist")
    held = os.open("cache/mnist", os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)  # as another process of the command has it
    process = subprocess.Popen([BINARY, "data", "fetch", "mnist", "--dir", "cache"], stdin=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)
    said = process.stderr.readline()
    assert said == "cache/mnist: another process is writing into this folder; waiting for it\n", said
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=5)
    assert process.returncode == 130 and not os.listdir("cache/mnist"), process.returncode
    os.close(held)


@thorough
def test_a_reader_that_has_read_enough_is_no_error():
    done = subprocess.run(["bash", "-o", "pipefail", "-c", f"{os.path.abspath(BINARY)} explain | head -1"],
                          capture_output=True, text=True, check=False)
    assert done.returncode in (0, 141) and not done.stderr, done
    for command in ("explain", "--help", "run --help", "help run", "list", "--version", "man", "completions bash"):
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run([BINARY, *command.split()], stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
        os.close(writing)
        assert done.returncode == 141 and not done.stderr, (command, done)
        with open("/dev/full", "w") as full:
            done = subprocess.run([BINARY, *command.split()], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        assert done.returncode == 1 and "standard output cannot be written" in done.stderr, (command, done)


def test_a_command_in_the_background_of_a_script_may_be_interrupted():
    process = start("out", lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130, process.returncode


def wait_until_signals_are_watched(process):
    """Waits until main() has begun: before that, the system ends the process."""
    while True:
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        blocked = next(line for line in status.splitlines() if line.startswith("SigBlk"))
        if int(blocked.split()[1], 16) & 1 << signal.SIGINT - 1:
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.001)


main(globals())
