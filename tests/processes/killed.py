"""kill -9 during training: the run ends within three seconds and names the lost node and the waiting ranks."""

import os
import signal
import time

from nodes import (ASYNCHRONOUS, ENDLESS, NAMES, background, free_ports, node_tables, nothing_is_left, processes,
                   run_losing, until, wired)
from troupe_command import main, write

WITHIN = 3.0  # seconds, the promise


def kill(count, victim, text=ENDLESS, waits=True):
    said = run_losing(count, victim, signal.SIGKILL, WITHIN, text=text, waits=waits)
    assert f"node {NAMES[victim]} was terminated by signal 9" in said, said
    assert len(said) < 3000, f"more words than a person reads:\n{said}"


def test_a_node_that_is_killed_ends_the_run():
    for count in (2, 3, 4):
        kill(count, count - 1)


def test_the_first_node_killed_ends_the_run():
    for count in (2, 4):
        kill(count, 0)


def test_a_node_killed_on_a_shared_memory_ends_the_run_too():
    for wiring in ("hogwild", "hogwild with a lock"):
        for victim in (0, 1):
            kill(2, victim, wired(ENDLESS, ASYNCHRONOUS[wiring]), waits=False)


def test_a_killed_parent_takes_its_nodes_along():
    ports = free_ports(4)
    file = write("long.toml", ENDLESS + node_tables([1] * 4, ports))
    with background("run", file, "--out", "out") as run:
        run.until_trained("out")
        assert len(processes("node")) == 4, processes("node")
        os.kill(run.pid, signal.SIGKILL)
        begin = time.monotonic()
        run.process.wait()
        until(lambda: not processes(), "all nodes are gone", 5)
        seconds = time.monotonic() - begin
        print(f"  gone after {seconds:.2f} s")
        assert seconds < 1, seconds
        nothing_is_left(ports)


main(globals())
