"""How the nodes of a run find each other, and what a node that is not allowed to take part reports."""

import os
import pathlib
import signal
import socket

from nodes import background, free_ports, node_tables, nothing_is_left, weights
from troupe_command import TINY, main, troupe, write

NAMES = ["alpha", "beta", "gamma"]


def file_of(count, ports, text=TINY):
    return write("tiny.toml", text.replace("count = 2\n", "") + node_tables([1] * count, ports))


def node(file, name, *more, out="out"):
    return background("node", file, "--name", name, "--out", out, *more, name=name)


def refuse(*arguments, says):
    done = troupe(*arguments, status=2)
    for word in says:
        assert word in done.stderr, f"'{word}' is missing from: {done.stderr}"
    assert not pathlib.Path("out").exists(), "something was written"
    return done.stderr


def test_nodes_may_be_started_in_any_order():
    ports = free_ports(3)
    file = file_of(3, ports)
    bytes_of = set()
    for order in ("gamma beta alpha", "beta alpha gamma", "alpha gamma beta"):
        nodes = []
        for name in order.split():
            nodes.append(node(file, name, out=order.replace(" ", "_")))
            nodes[-1].until_said("waiting for" if len(nodes) < 3 and not any(
                each.out.stem == "alpha" for each in nodes) else "" if name == "alpha" else "joined")
        for each in nodes:
            each.wait(0)
        bytes_of.add(weights(order.replace(" ", "_")))
    assert len(bytes_of) == 1, "the order of starting shows in the weights"
    nothing_is_left(ports)


def test_a_node_of_another_file_hears_what_differs_and_the_right_one_joins():
    ports = free_ports(2)
    file = file_of(2, ports)
    with node(file, "alpha") as alpha:
        for setting, words in ((["optimizer.lr=0.02"], ["optimizer.lr", "0.02", "0.05"]),
                               (["run.seed=2", "exchange.kind=star"], ["run.seed", "exchange.", "kind", "star"])):
            wrong = troupe("node", file, "--name", "beta", *[word for each in setting for word in ("--set", each)],
                           status=2)
            for word in [*words, "differs from that of node alpha"]:
                assert word in wrong.stderr, wrong.stderr
            if len(setting) == 1:  # both name the nodes
                for said in wrong.stderr, alpha.said():
                    assert "optimizer.lr is 0.05 on node alpha and 0.02 on node beta" in said, said
        assert "refused node beta" in alpha.said() and "optimizer.lr" in alpha.said(), alpha
        troupe("run", file, "--set", "node.alpha.address=127.0.0.1:0", "--set", "node.beta.address=127.0.0.1:0",
               "--set", "run.steps=0", "--set", "run.seed=5", "--out", "other")
        wrong = troupe("node", file, "--name", "beta", "--set", "model.init=other/model.safetensors", status=2)
        assert "initial weights (model.init) differ" in wrong.stderr, wrong.stderr
        assert alpha.process.poll() is None, alpha
        with node(file, "beta") as beta:
            beta.wait(0)
        alpha.wait(0)
    assert weights("out")
    nothing_is_left(ports)


def test_a_name_joins_once():
    ports = free_ports(3)
    others = free_ports(4)[3:]
    file = file_of(3, ports)
    with node(file, "alpha") as alpha, node(file, "beta") as beta:
        alpha.until_said("beta has joined")
        again = troupe("node", file, "--name", "beta", "--set", f"node.beta.listen=127.0.0.1:{others[0]}", status=2)
        assert "node beta has already joined" in again.stderr, again.stderr
        taken = troupe("node", file, "--name", "beta", status=2)
        assert f"127.0.0.1:{ports[1]}" in taken.stderr and "expected a free port" in taken.stderr, taken.stderr
        with node(file, "gamma") as gamma:
            gamma.wait(0)
        alpha.wait(0), beta.wait(0)


def test_a_node_that_dies_before_the_run_may_join_again():
    ports = free_ports(3)
    file = file_of(3, ports)
    with node(file, "alpha") as alpha:
        for _ in range(2):
            with node(file, "beta") as beta:
                beta.until_said("joined")
                os.kill(beta.pid, signal.SIGKILL)
                beta.process.wait()
                alpha.until(lambda: alpha.said().count("beta left before the run began") == alpha.said().count("beta has joined"),
                            "beta has left")
                break
        with node(file, "beta") as beta, node(file, "gamma") as gamma:
            beta.wait(0), gamma.wait(0)
        alpha.wait(0)
    nothing_is_left(ports)


def test_who_is_no_node_is_waited_out():
    ports = free_ports(2)
    file = file_of(2, ports)
    with socket.create_server(("127.0.0.1", ports[0])) as server:
        server.settimeout(10)
        with node(file, "beta") as beta:
            with server.accept()[0] as caller:
                caller.sendall(bytes(range(256)) * 16)
                beta.until_said("waiting for node alpha")
                beta.process.terminate()
                beta.wait(143, within=3)


def test_names_are_looked_up():
    file = file_of(2, free_ports(2))
    refuse("node", file, "--name", "bета", "--out", "out", says=["unknown node", '"alpha"', '"beta"'])
    refuse("node", file, "--name", "betta", "--out", "out", says=["tiny.toml", '"betta"', 'did you mean', "beta"])
    refuse("node", file, "--out", "out", says=["--name"])
    refuse("node", write("alone.toml", TINY), "--name", "alpha", "--out", "out", says=["no [[node]]", "troupe run"])


def test_ports_are_looked_at():
    file = write("tiny.toml", TINY.replace("count = 2\n", "") + node_tables([1, 1]))
    refuse("node", file, "--name", "alpha", "--out", "out", says=["no fixed port", "127.0.0.1:4700"])
    ports = free_ports(2)
    file = file_of(2, ports)
    for name, port in zip(("alpha", "beta"), ports):
        with socket.create_server(("127.0.0.1", port)):
            words = [f"127.0.0.1:{port}", "cannot listen on", "expected a free port"]
            refuse("run", file, "--out", "out", says=words)
            refuse("node", file, "--name", name, *(["--out", "out"] if name == "alpha" else []), says=words)
    nothing_is_left(ports)


def test_addresses_of_other_hosts_require_certificates():
    ports = free_ports(2)
    for address in ("192.0.2.7", "0.0.0.0", "[2001:db8::1]"):
        text = TINY.replace("count = 2\n", "") + node_tables([1, 1], ports).replace("127.0.0.1", address, 1)
        file = write("far.toml", text)
        refuse("run", file, "--out", "out", says=["alpha", address, "loopback", "troupe certs", "security.insecure"])
        refuse("node", file, "--name", "alpha", "--out", "out", says=[address, "loopback"])
    file = file_of(2, ports)
    refuse("node", file, "--name", "alpha", "--set", "node.alpha.listen=0.0.0.0:4700", "--out", "out",
           says=["0.0.0.0", "loopback"])


def test_bad_input_is_said_once_and_starts_nothing():
    text = TINY.replace("count = 2\n", "") + node_tables([1, 1])
    for wrong, word in ((text.replace("lr =", "lrr ="), "lrr"), (text.replace("workers = 1", "workers = 0"), "workers"),
                        (text.replace('"beta"', '"alpha"'), "two nodes")):
        said = refuse("run", write("bad.toml", wrong), "--out", "out", says=["bad.toml:", word])
        assert " | " not in said, said
    refuse("run", write("tiny.toml", text), "--set", "model.init=nowhere", "--out", "out", says=["nowhere"])
    troupe("run", write("tiny.toml", text), "--out", "made")
    done = troupe("run", "tiny.toml", "--out", "made", status=2)
    assert "--overwrite" in done.stderr and "made" in done.stderr, done.stderr
    troupe("run", "tiny.toml", "--out", "made", "--overwrite")
    write("file", "")
    done = troupe("run", "tiny.toml", "--out", "file/out", status=2)
    assert "file" in done.stderr, done.stderr
    nothing_is_left()


main(globals())
