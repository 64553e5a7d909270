"""SIGINT and SIGTERM to a run of several processes: the current step is completed, all is saved, nothing is left."""

import pathlib
import signal
import time

from nodes import ENDLESS, background, free_ports, node_tables, nothing_is_left, processes
from troupe_command import main, metrics, troupe, write


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


def test_a_second_signal_ends_at_once():
    ports = free_ports(2)
    with background("run", write("long.toml", ENDLESS + node_tables([1, 1], ports)), "--out", "out") as run:
        run.until_trained("out")
        run.process.send_signal(signal.SIGINT)
        run.process.send_signal(signal.SIGINT)
        begin = time.monotonic()
        run.process.wait(30)
        assert time.monotonic() - begin < 2, run
        assert run.process.returncode == 130, run
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
    alpha.until_said("beta left before the run began")
    beta = background("node", file, "--name", "beta", name="beta")
    beta.until_said("joined")
    alpha.process.send_signal(signal.SIGTERM)
    alpha.wait(143, within=2)
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
        nothing_is_left(ports)


main(globals())
