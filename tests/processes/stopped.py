"""SIGSTOP during training: the run ends within run.timeout, with an error that names the silent node."""

import os
import signal

from nodes import ENDLESS, background, node_process, node_tables, nothing_is_left, processes, run_losing
from troupe_command import main, write

TIMEOUT = 3.0
WITHIN = TIMEOUT + 1.5  # seconds; found out after two thirds of the deadline, the rest is for a crowded machine


def stop(count, victim):
    run_losing(count, victim, signal.SIGSTOP, WITHIN, f'timeout = "{TIMEOUT:.0f}s"')


def test_a_stopped_node_ends_the_run():
    stop(3, 2)


def test_the_first_node_stopped_ends_the_run():
    stop(2, 0)


def test_a_node_that_never_joins_ends_the_run():
    for victim, says in (("beta", "alpha | error: the run failed: node beta did not join within 3s (run.timeout)"),
                         ("alpha", "beta | error: node alpha at")):
        text = ENDLESS.replace("[run]", f'[run]\ntimeout = "{TIMEOUT:.0f}s"') + node_tables([1, 1])
        with background("run", write("long.toml", text), "--out", f"out_{victim}") as run:
            run.until(lambda: len(processes("node", victim)) == 1, "the node is there")
            os.kill(node_process(victim), signal.SIGSTOP)
            run.wait(1, within=30)
            nothing_is_left()
            assert says in run.said(), run


main(globals())
