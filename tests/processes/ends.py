"""Every wiring ends cleanly over two processes, repeatedly: status 0, and no output except which nodes have joined.

    ends.py          once each
    ends.py --full   twenty times each
"""

import json
import sys
import time

from nodes import ASYNCHRONOUS, WIRINGS, node_tables, nothing_is_left, wired
from troupe_command import TINY, main, metrics, thorough, troupe, write

TIMES = 20 if "--full" in sys.argv else 1
STEPS = 6  # enough for each exchange to be due once
SHORT = TINY.replace("steps = 20", f"steps = {STEPS}").replace("count = 2\n", "")


def joined(said):
    """Whether these are the lines of two nodes that join, and no more."""
    expected = {"alpha | node beta has joined", "beta | joined; node alpha coordinates the run"}
    lines = {line for line in said.splitlines() if "waiting for node alpha" not in line and "| warning: " not in line}
    return lines == expected


@thorough
def test_each_wiring_ends_cleanly_many_times():
    for name, wiring in (WIRINGS | ASYNCHRONOUS).items():
        file = write("short.toml", wired(SHORT, wiring) + node_tables([2, 2]))
        begin = time.monotonic()
        for _ in range(TIMES):
            done = troupe("run", file, "--out", "out", "--overwrite", timeout=60)
            assert joined(done.stderr), f"{name}: {done.stderr}"
            assert metrics("out")[-1]["step"] == STEPS
        print(f"  {name}: {(time.monotonic() - begin) / TIMES:.2f} s each")
    nothing_is_left()


@thorough
def test_runs_end_early_too():
    text = TINY.replace("count = 2\n", "")
    cases = {
        "accuracy": (text.replace("steps = 20", "steps = 100000") +
                     '[evaluate]\nevery = "2 steps"\ntarget_accuracy = 0.01\ntarget_hold = 2\n', 4),
        "patience": (text.replace("steps = 20", "steps = 100000").replace("lr = 0.05", "lr = 0.0") +
                     '[evaluate]\nevery = "2 steps"\npatience = 1\n', 4),
        "no steps": (text.replace("steps = 20", "steps = 0"), 0),
        "every step": (text.replace("steps = 20", "steps = 4") + '[evaluate]\nevery = "1 steps"\n', 4),
        "time": (text.replace("steps = 20", 'steps = 100000000\nmax_seconds = 1'), None),
    }
    for name, (wanted, last) in cases.items():
        done = troupe("run", write("early.toml", wanted + node_tables([1, 1])), "--out", "out", "--overwrite")
        assert joined(done.stderr), f"{name}: {done.stderr}"
        end = metrics("out")[-1]
        assert end["event"] == "end" and (end["step"] == last if last is not None else end["step"] > 0), (name, end)
        if name == "every step":
            steps = [line["step"] for line in metrics("out") if line["event"] == "evaluation"]
            assert steps == list(range(1, 5)), steps
    nothing_is_left()


def test_json_is_pure_and_quiet_is_quiet():
    file = write("short.toml", SHORT + node_tables([1, 1]))
    done = troupe("run", file, "--out", "out", "--json")
    events = [json.loads(line)["event"] for line in done.stdout.splitlines()]
    assert events[0] == "start" and events[-1] == "end", events
    assert all(line.startswith(("alpha | ", "beta | ")) for line in done.stderr.splitlines()), done.stderr
    done = troupe("run", file, "--out", "quiet", "--quiet")
    assert done.stdout == "" and done.stderr == "", done


main(globals())
