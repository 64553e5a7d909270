"""SIGSTOP during training: the run ends after run.silence, with an error that names the silent node."""

import os
import signal
import time

from nodes import ENDLESS, background, node_process, node_tables, nothing_is_left, processes, run_losing
from troupe_command import TINY, main, metrics, thorough, write

SILENCE, TIMEOUT = 2.0, 3.0
WITHIN = SILENCE + 1.5  # seconds; half a second of it is for a crowded machine


def stop(count, victim):
    run_losing(count, victim, signal.SIGSTOP, WITHIN, f'silence = "{SILENCE:.0f}s"')


def test_a_stopped_node_ends_the_run():
    stop(3, 2)


def test_the_first_node_stopped_ends_the_run():
    stop(2, 0)


@thorough
def test_a_node_that_never_joins_ends_the_run():
    missing = "node beta did not join within 3s (run.timeout); start every node within this time"
    for victim, says in (("beta", f"alpha | error: the run failed: {missing}"),
                         ("alpha", "beta | error: the run failed: node alpha at")):
        text = ENDLESS.replace("[run]", f'[run]\ntimeout = "{TIMEOUT:.0f}s"') + node_tables([1, 1])
        with background("run", write("long.toml", text), "--out", f"out_{victim}") as run:
            run.until(lambda: len(processes("node", victim)) == 1, "the node is there")
            os.kill(node_process(victim), signal.SIGSTOP)
            run.wait(1, within=30)
            nothing_is_left()
            assert says in run.said(), run


def test_a_node_suspended_after_its_last_step_does_not_fail_the_run():
    # The evaluation of so many samples takes several seconds, in which the second node has nothing left to do.
    text = TINY.replace("steps = 20", "steps = 2").replace("count = 2\n", "").replace("lenet", "resnet20")
    text = text.replace("[run]", '[run]\nsilence = "1min"')
    file = write("last.toml", text.replace("[data]", "[data]\nvalidation = 0.3") + node_tables([1, 1]))
    with background("run", file, "--out", "last") as run:
        run.until_trained("last")
        time.sleep(1.5)
        os.kill(node_process("beta"), signal.SIGSTOP)
        run.wait(0, within=60)
        assert "warning: node beta was suspended (SIGSTOP or a debugger) and has been killed" in run.said(), run
        assert "error" not in run.said(), run
    assert metrics("last")[-1]["status"] == "done"
    nothing_is_left()


main(globals())
