"""SIGINT and SIGTERM to a run of several processes: the current step is completed, all is saved, nothing is left."""

import os
import pathlib
import signal
import time

from nodes import ENDLESS, background, free_ports, node_tables, nothing_is_left, processes, until
from troupe_command import main, metrics, thorough, troupe, write


def saved(out):
    last = metrics(out)[-1]
    assert last["event"] == "end" and last["step"] > 0, last
    troupe("eval", f"{out}/model.safetensors")


def interrupt(which, status):
    ports = free_ports(2)
    with background("run", write("long.toml", ENDLESS + node_tables([2, 1], ports)), "--out", "out") as run:
        run.until_trained("out")
        run.process.send_signal(which)
        seconds = run.wait(status, within=30)
        assert seconds < 3, f"took {seconds:.1f} s: more than 2 s and a step\n{run}"
        assert "error" not in run.said(), run
        nothing_is_left(ports)
    saved("out")


def test_ctrl_c_ends_with_130():
    interrupt(signal.SIGINT, 130)


def test_sigterm_ends_with_143():
    interrupt(signal.SIGTERM, 143)


def test_a_second_signal_within_a_second_is_the_same_event():
    ports = free_ports(2)
    with background("run", write("long.toml", ENDLESS + node_tables([1, 1], ports)), "--out", "out") as run:
        run.until_trained("out")
        run.process.send_signal(signal.SIGHUP)
        time.sleep(0.02)
        run.process.send_signal(signal.SIGHUP)
        run.wait(129, within=30)
        nothing_is_left(ports)
    saved("out")


# Steps of half a minute and more: the run cannot end in good order soon.
SLOW = ENDLESS.replace("lenet", "resnet20").replace("batch_size = 8", "batch_size = 5000\nmicro_batch_size = 50")


def test_a_later_second_signal_ends_at_once():
    ports = free_ports(2)
    with background("run", write("long.toml", SLOW + node_tables([1, 1], ports)), "--out", "out") as run:
        run.until_trained("out")
        run.process.send_signal(signal.SIGINT)
        time.sleep(1.2)
        assert run.process.poll() is None, run
        run.process.send_signal(signal.SIGINT)
        begin = time.monotonic()
        run.process.wait(30)
        assert time.monotonic() - begin < 2, run
        assert run.process.returncode == 130, run
        assert "ended at once by a second signal, SIGINT" in run.said(), run
        nothing_is_left(ports)


def test_any_node_may_be_interrupted_by_hand():
    ports = free_ports(3)
    file = write("long.toml", ENDLESS + node_tables([1, 1, 1], ports))
    names = ["alpha", "beta", "gamma"]
    for victim in (2, 0):
        nodes = [background("node", file, "--name", name, "--out", f"out{victim}", name=name) for name in names]
        nodes[0].until_trained(f"out{victim}")
        nodes[victim].process.send_signal(signal.SIGINT)
        for node in nodes:
            assert node.wait(130, within=30) < 4, node
            assert "error" not in node.said(), node
        nothing_is_left(ports)
        saved(f"out{victim}")


def test_nodes_that_wait_for_each_other_end_at_once():
    ports = free_ports(3)
    file = write("long.toml", ENDLESS + node_tables([1, 1, 1], ports))
    alpha = background("node", file, "--name", "alpha", "--out", "out", name="alpha")
    beta = background("node", file, "--name", "beta", name="beta")
    alpha.until_said("beta has joined")
    beta.process.send_signal(signal.SIGINT)
    beta.wait(130, within=2)
    assert "interrupted by SIGINT before training began" in beta.said(), beta
    alpha.until_said("beta left before the run began")
    beta = background("node", file, "--name", "beta", name="beta")
    beta.until_said("joined")
    alpha.process.send_signal(signal.SIGTERM)
    alpha.wait(143, within=2)
    assert "interrupted by SIGTERM before training began" in alpha.said(), alpha
    beta.wait(143, within=2)
    beta = background("node", file, "--name", "beta", name="beta")
    beta.until_said("waiting for node alpha")
    beta.process.send_signal(signal.SIGINT)
    beta.wait(130, within=2)
    nothing_is_left(ports)
    assert not pathlib.Path("out/model.safetensors").exists(), "nothing was trained"


def test_a_run_is_interrupted_before_its_nodes_have_met():
    ports = free_ports(2)
    with background("run", write("long.toml", ENDLESS + node_tables([1, 1], ports)), "--out", "out") as run:
        run.until(lambda: len(processes("node")) == 2, "the nodes are there")
        run.process.send_signal(signal.SIGINT)
        run.wait(130, within=4)
        assert "error" not in run.said(), run
        assert "interrupted by SIGINT" in run.said(), run
        nothing_is_left(ports)


def last_step(out):
    return max(line.get("step", 0) for line in metrics(out))


@thorough
def test_the_nodes_stop_with_their_launcher_and_go_on_with_it():
    # Longer than every time limit: none of them passes while nothing can be done about it.
    text = ENDLESS.replace("[run]", '[run]\ntimeout = "2s"\nsilence = "1s"')
    file = write("long.toml", text + '[evaluate]\nevery = "20 steps"\n' + node_tables([1, 1]))
    for which in (signal.SIGTSTP, signal.SIGSTOP):  # Ctrl-Z, and what cannot be caught
        out = f"out-{which.name}"
        # With a parent in another group of the session, so that the kernel lets SIGTSTP stop it.
        with background("run", file, "--out", out, preexec_fn=os.setpgrp) as run:
            run.until_trained(out)
            run.process.send_signal(which)
            run.until(lambda: all(state(each) == "T" for each in processes("run") + processes("node")), "all stop", 10)
            before = last_step(out)
            time.sleep(4)
            assert last_step(out) == before, "the nodes went on"
            run.process.send_signal(signal.SIGCONT)
            run.until(lambda: last_step(out) > before, "it goes on", 30)
            run.process.send_signal(signal.SIGINT)
            run.wait(130, within=30)
            assert "error" not in run.said(), run
            nothing_is_left()
        saved(out)


def test_a_stopped_process_loses_no_time():
    text = ENDLESS.replace("[run]", '[run]\ntimeout = "2s"').replace("[workers]", "[workers]\ncount = 2")
    with background("run", write("long.toml", text), "--out", "out") as run:
        run.until_trained("out")
        run.process.send_signal(signal.SIGSTOP)
        time.sleep(4)
        run.process.send_signal(signal.SIGCONT)
        time.sleep(0.5)
        run.process.send_signal(signal.SIGINT)
        run.wait(130, within=30)
        assert "error" not in run.said(), run
    saved("out")


def test_a_comparison_stops_and_goes_on_too():
    file = write("long.toml", ENDLESS + node_tables([1, 1]))
    with background("compare", file, "--out", "out", preexec_fn=os.setpgrp) as run:
        run.until(lambda: len(processes("node")) == 2, "the nodes are there")
        run.process.send_signal(signal.SIGTSTP)
        run.until(lambda: len(processes()) == 4 and all(state(each) == "T" for each in processes()), "all stop", 10)
        run.process.send_signal(signal.SIGCONT)
        until(lambda: all(state(each) != "T" for each in processes()), "all go on", 10)
        run.process.send_signal(signal.SIGINT)
        run.wait(130, within=30)
        nothing_is_left()


def state(process):
    """The state of a process as in proc(5)."""
    return pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(") ", 1)[1][0]


main(globals())
