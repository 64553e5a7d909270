"""kill -9 in the middle of training: the run ends within three seconds and says who is gone and who waited."""

import os
import re
import signal
import time

from nodes import ENDLESS, NAMES, background, free_ports, node_process, node_tables, nothing_is_left, processes, until
from troupe_command import main, write

WITHIN = 3.0  # seconds, the promise


def kill(count, victim):
    """Kills node `victim` of `count` and returns what the run said."""
    ports = free_ports(count)
    file = write("long.toml", ENDLESS + node_tables([1] * count, ports))
    with background("run", file, "--out", f"{count}") as run:
        run.until_trained(f"{count}")
        os.kill(node_process(NAMES[victim]), signal.SIGKILL)
        seconds = run.wait(1, within=20)
        print(f"  {count} nodes, {NAMES[victim]} killed: {seconds:.2f} s")
        assert seconds < WITHIN, f"{seconds:.2f} s\n{run}"
        nothing_is_left(ports)
        said = run.said()
        assert f"node {NAMES[victim]} was ended by signal 9" in said, said
        assert f"node {NAMES[victim]} is lost" in said, said
        assert re.search(rf"rank \d waits for ranks? [\d, ]*{victim}[\d, ]* at step \d+", said), said
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
