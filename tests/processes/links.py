"""A tensor connection that is cut while both of its nodes are alive: the run ends, and the error names the link."""

import os
import re
import signal
import socket
import threading
import time

from nodes import ASYNCHRONOUS, ENDLESS, background, free_ports, node_process, nothing_is_left, wired
from troupe_command import main, write


class relay:
    """Forwards the connections to a port of this host to another one, and knows which of them carry tensors."""

    def __init__(self, port, to):
        self.to, self.pairs = to, []
        self.listener = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                dialled, _ = self.listener.accept()
            except OSError:
                return  # closed
            hello = dialled.recv(128, socket.MSG_WAITALL)
            try:
                there = socket.create_connection(("127.0.0.1", self.to))
                there.sendall(hello)
            except OSError:
                dialled.close()
                continue
            if hello[48] == 0:  # the plane; see docs/protocol.md
                self.pairs.append((dialled, there))
            for source, sink in ((dialled, there), (there, dialled)):
                threading.Thread(target=self.pump, args=(source, sink), daemon=True).start()

    @staticmethod
    def pump(source, sink):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except OSError:
            pass  # cut

    def cut(self, both):
        """Cuts every connection with tensors at the side that dialled, or at both."""
        assert self.pairs
        for dialled, there in self.pairs:
            for one in (dialled, there) if both else (dialled,):
                one.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.listener.close()


def run_cutting(count, behind, both):
    """Runs nodes of which one is behind a relay, and cuts the tensor connections to it. Returns what each node said."""
    names = ["alpha", "beta", "gamma"][:count]
    *ports, front = free_ports(count + 1)
    tables = "".join(
        f'[[node]]\nname = "{name}"\naddress = "127.0.0.1:{front if index == behind else ports[index]}"\n'
        + (f'listen = "127.0.0.1:{ports[index]}"\n' if index == behind else "")
        for index, name in enumerate(names))
    # Without a handshake, whose first bytes the relay would take for a hello.
    insecure = "[security]\ninsecure = true\n"
    file = write("cut.toml", ENDLESS.replace("[run]", '[run]\ntimeout = "30s"') + insecure + tables)
    between = relay(front, ports[behind])
    started = [background("node", file, "--name", name, "--out", "out", "--overwrite", name=name) for name in names]
    try:
        started[0].until_trained("out")
        between.cut(both)
        for one in started:
            one.wait(1, within=3)
    finally:
        for one in started:
            one.__exit__()
        between.close()
    nothing_is_left(ports)
    return [one.said() for one in started]


def test_a_link_that_is_cut_is_named_rather_than_a_node():
    for said in run_cutting(3, behind=1, both=True):
        assert "the link between the nodes beta and gamma is lost" in said, said
        assert re.search(r"rank \d is waiting for rank", said), said


def test_a_cut_that_only_the_second_node_notices_ends_the_run():
    for said in run_cutting(2, behind=0, both=False):
        assert "the link between the nodes alpha and beta is lost" in said, said


def test_a_lock_that_a_stopped_process_holds_does_not_keep_the_others():
    ports = free_ports(2)
    tables = "".join(f'[[node]]\nname = "{name}"\naddress = "127.0.0.1:{port}"\n'
                     for name, port in zip(("alpha", "beta"), ports))
    text = wired(ENDLESS, ASYNCHRONOUS["hogwild with a lock"]).replace("[run]", '[run]\nsilence = "1s"')
    file = write("locked.toml", text + tables)
    for attempt in range(3):
        out = f"locked_{attempt}"
        with background("node", file, "--name", "alpha", "--out", out, name="alpha") as alpha, \
                background("node", file, "--name", "beta", name="beta") as beta:
            alpha.until_trained(out)
            os.kill(node_process("beta"), signal.SIGSTOP)
            begin = time.monotonic()
            alpha.wait(1, within=8)
            print(f"  attempt {attempt}: {time.monotonic() - begin:.2f} s")
            assert "node beta is lost" in alpha.said(), alpha
            os.kill(beta.pid, signal.SIGKILL)
            beta.process.wait()
        nothing_is_left(ports)


main(globals())
