"""A host that dies, freezes or loses its cable: the others end in time, with status 1, and name it."""

import os
import re
import signal
import sys
import tempfile
import time

from hosts import addressed, certificates, network, skip_unless_possible
from nodes import ASYNCHRONOUS, ENDLESS, NAMES, SHARED, WIRINGS, wired
from troupe_command import main, write

FULL = "--full" in sys.argv
SILENCE = 1.0
TEXT = ENDLESS.replace("[run]", f'[run]\nsilence = "{SILENCE:.0f}s"')
ACROSS = {name: wiring for name, wiring in {**WIRINGS, **ASYNCHRONOUS}.items() if SHARED not in wiring[1]}
FEW = ["all_reduce ring"]

# How a host is lost, and within which time the others notice.
LOSSES = {"killed": 0.0, "frozen": SILENCE, "cut off": SILENCE}


def lost(where, file, victim, how, settled):
    """Loses a host in the middle of training. Returns what the others said, and how long they took."""
    out = tempfile.mkdtemp(dir=".")
    started = [where.node(index, file, out=out if index == 0 else None) for index in range(3)]
    try:
        started[0].until_trained(out)
        begin = time.monotonic()
        if how == "cut off":
            where.cable(victim, up=False)
        else:
            os.kill(started[victim].pid, signal.SIGKILL if how == "killed" else signal.SIGSTOP)
        for index, one in enumerate(started):
            if index != victim:
                one.wait(1, within=settled + 10)
        seconds = time.monotonic() - begin
        if how == "cut off":
            started[victim].wait(1, within=settled + 10)  # it has lost everybody else
        return [one.said() for index, one in enumerate(started) if index != victim], seconds
    finally:
        where.cable(victim, up=True)
        for one in started:
            one.__exit__()


def test_a_lost_host_is_named_by_the_others_in_time():
    where = network(3)
    secured = certificates(3)
    for name, wiring in ACROSS.items():
        if not FULL and name not in FEW:
            continue
        workers = [1, 1, 2]
        file = write("three.toml", wired(TEXT, wiring) + secured + addressed(workers))
        for how, notice in LOSSES.items():
            for victim in range(3):
                said, seconds = lost(where, file, victim, how, notice)
                print(f"  {name}: {NAMES[victim]} {how}: {seconds:.2f} s", flush=True)
                assert seconds < notice + 1, f"{name}: {NAMES[victim]} {how}: {seconds:.2f} s"
                for words in said:
                    assert re.search(f"node {NAMES[victim]} (is lost|.*silent|.*disconnected)", words), \
                        f"{name}: {NAMES[victim]} {how}: {words}"


skip_unless_possible()
main(globals())
