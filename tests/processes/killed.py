"""kill -9 in the middle of training: the run ends within three seconds and says who is gone and who waited."""

import os
import signal
import time

from nodes import ENDLESS, NAMES, background, free_ports, node_tables, nothing_is_left, processes, run_losing, until
from troupe_command import main, write

WITHIN = 3.0  # seconds, the promise


def kill(count, victim):
    said = run_losing(count, victim, signal.SIGKILL, WITHIN)
    assert f"node {NAMES[victim]} was ended by signal 9" in said, said
    assert len(said) < 3000, f"more words than a person reads:\n{said}"


def test_a_node_that_is_killed_ends_the_run():
    for count in (2, 3, 4):
        kill(count, count - 1)


def test_the_first_node_killed_ends_the_run():
    for count in (2, 4):
        kill(count, 0)


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
