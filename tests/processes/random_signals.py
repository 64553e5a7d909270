"""Signals at random instants, from the first millisecond on, to every command that does something: each ends soon, without a
crash, with a status that says which signal ended it and a word about it, and leaves outputs that are whole or can be
continued. A sample, or with --full hundreds of shots."""

import os
import pathlib
import random
import shutil
import signal
import sys
import time

from nodes import background, node_tables, nothing_is_left
from troupe_command import TINY, main, metrics, troupe, write

FULL = "--full" in sys.argv or os.environ.get("TROUPE_TESTS_FULL") == "1"
SHOTS = 30 if FULL else 2  # of each command

ENDING = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU, signal.SIGALRM]
PASSING = [signal.SIGPIPE, signal.SIGCONT, signal.SIGWINCH, signal.SIGTSTP]
ALL = ENDING + PASSING + [signal.SIGQUIT]

RUN = TINY.replace("steps = 20", "steps = 60") + '[checkpoint]\nevery = "10 steps"\n[evaluate]\nevery = "15 steps"\n'

# What a program says only when it has lost control.
CRASHES = ["terminate called", "INTERNAL ASSERT", "Segmentation", "AddressSanitizer", "ThreadSanitizer", "pure virtual"]


def shoot(draw, name, arguments, seconds):
    """Starts the command, sends it one to three signals at random instants, and returns those that it got and what became of
    it."""
    which = draw.choice(ALL)
    burst = [which] * draw.choice([1, 1, 2, 3])
    instant = draw.choice([draw.uniform(0, 0.01), draw.uniform(0, seconds), draw.uniform(0, seconds)])
    with background(*arguments, name=name, preexec_fn=os.setpgrp) as command:
        time.sleep(instant)
        for each in burst:
            command.process.send_signal(each)  # does nothing once it has ended
            time.sleep(draw.choice([0, 0.01]))
        if which == signal.SIGTSTP:
            time.sleep(draw.uniform(0, 0.3))
            command.process.send_signal(signal.SIGCONT)
        about = f"{which.name} x{len(burst)} {instant:.3f} s after the start of troupe {' '.join(map(str, arguments))}"
        try:
            command.process.wait(60)
        except Exception as late:
            raise AssertionError(f"hangs: {about}\n{command}") from late
        status, said = command.process.returncode, command.said() + command.printed()
    check_end(which, status, said, about)
    return status, about


def check_end(which, status, said, about):
    about += f"\nstatus {status}\n{said[-2000:]}"
    assert not any(word in said for word in CRASHES), about
    if status == -which:
        assert not said, about  # before main() the system ends the process, which has done nothing yet
    elif which in PASSING:
        assert status == 0, about
    elif status != 0:  # else it was done
        assert status == 128 + which, about
        assert which.name in said or "interrupted" in said, about
        assert "error" not in said, about
    nothing_is_left()


def check_outputs(out, file, about):
    """A results folder has a whole result, or a checkpoint from which the run goes on, or nothing that is in the way."""
    out = pathlib.Path(out)
    lines = metrics(out) if (out / "metrics.jsonl").exists() else []
    if lines and lines[-1]["event"] == "end" and lines[-1]["step"] > 0:
        troupe("eval", out / "model.safetensors")
    if lines and lines[-1].get("status") == "done":
        return
    again = ["--resume", out] if list(out.glob("checkpoints/step-*")) else ["--out", out, "--overwrite"]
    troupe("run", file, *again)
    assert metrics(out)[-1]["status"] == "done", about


def shots(name, make, after=lambda *_: None):
    """`make` returns the arguments for a folder. The command without signals says how long it takes."""
    draw = random.Random(name)
    begin = time.monotonic()
    troupe(*make(f"{name}-whole"))
    seconds = time.monotonic() - begin
    seen = {}
    for shot in range(SHOTS):
        out = f"{name}-{shot}"
        status, about = shoot(draw, name, make(out), seconds)
        seen[status] = seen.get(status, 0) + 1
        after(out, about)
        shutil.rmtree(out, ignore_errors=True)
    print(f"  {name}: {SHOTS} shots in {seconds:.1f} s each, statuses {dict(sorted(seen.items()))}")


def test_a_run_in_one_process():
    file = write("one.toml", RUN)
    shots("run", lambda out: ["run", file, "--out", out], lambda out, about: check_outputs(out, file, about))


def test_a_run_of_several_nodes():
    file = write("nodes.toml", RUN.replace("count = 2\n", "") + node_tables([1, 1]))
    shots("nodes", lambda out: ["run", file, "--out", out], lambda out, about: check_outputs(out, file, about))


def test_a_simulation():
    file = write("one.toml", TINY.replace("steps = 20", "steps = 100"))

    def whole(out, _):
        if pathlib.Path(out, "metrics.jsonl").exists() and metrics(out)[-1:] and metrics(out)[-1]["event"] == "end":
            troupe("eval", f"{out}/model.safetensors")
    shots("simulate", lambda out: ["simulate", file, "--out", out], whole)


def test_a_replay():
    troupe("run", write("one.toml", RUN), "--record", "--out", "recorded")
    shots("replay", lambda out: ["replay", "recorded", "--out", out])


def test_a_comparison():
    file = write("one.toml", TINY)

    def resumable(out, about):
        if pathlib.Path(out, "comparison.json").exists():
            troupe("compare", "--resume", out)
            assert pathlib.Path(out, "compare.html").exists(), about
    shots("compare", lambda out: ["compare", file, "--vary", "optimizer.lr=0.01,0.1", "--out", out], resumable)


def test_commands_that_print():
    file = write("one.toml", TINY)
    troupe("run", file, "--out", "trained")
    shots("check", lambda out: ["check", file, "--json"])
    shots("eval", lambda out: ["eval", "trained/model.safetensors"])
    shots("explain-run", lambda out: ["explain-run", "trained"])

    def whole(_, about):
        text = pathlib.Path("drawing.svg").read_text()
        assert text.endswith("</svg>\n"), f"half a drawing: {about}"
    shots("graph", lambda out: ["graph", file, "-o", "drawing.svg"], whole)


main(globals())
