"""A training step gives no memory back to the system and takes none: it causes no page faults, on any thread."""

import os
import subprocess

from troupe_command import BINARY, SOURCE, main

MOST = 50  # per step of all workers; glibc's allocator causes 1,000 to 1,300
WIRINGS = ["all_reduce", "ddp", "asgd", "dpsgd_ring", "hogwild", "two_nodes"]


def faults(wiring, steps):
    """Returns the page faults of a run, its nodes included."""
    run = subprocess.Popen([BINARY, "run", SOURCE / f"topologies/{wiring}.toml", "--quiet", "--overwrite", "--out", "out",
                            "--set", f"run.steps={steps}", "--set", "evaluate.every=1000 steps"])
    _, status, usage = os.wait4(run.pid, 0)
    assert status == 0, (wiring, status)
    return usage.ru_minflt


def test_a_step_causes_no_page_faults():
    short, long = 40, 120
    for wiring in WIRINGS:
        per_step = (faults(wiring, long) - faults(wiring, short)) / (long - short)
        print(f"  {wiring}: {per_step:.1f} page faults per step")
        assert per_step < MOST, (wiring, per_step)


main(globals())
