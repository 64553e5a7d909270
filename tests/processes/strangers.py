"""Connections from other programs to the ports of both nodes do not affect training: it ends with the same bytes."""

import socket
import time

from nodes import background, free_ports, node_tables, nothing_is_left, weights
from troupe_command import TINY, main, troupe, write

# A second or two of training, whatever the machine: the strangers come many times meanwhile.
TEXT = TINY.replace("count = 2\n", "").replace("steps = 20", "steps = 300").replace("lenet", "convnet")


def dial(port):
    return socket.create_connection(("127.0.0.1", port), timeout=2)


def scanner(port):
    dial(port).close()


def browser(port):
    with dial(port) as one:
        one.settimeout(0.2)
        try:
            one.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: curl/8\r\nAccept: */*\r\n\r\n" * 4)
            one.recv(1000)
        except (TimeoutError, ConnectionResetError, BrokenPipeError):
            pass  # no answer, or the door


class crowd:
    """Connections that are held open, saying nothing, or one byte a second."""

    def __init__(self, ports, each, bytes_per_second=0):
        self.open = []
        for port in ports:
            for _ in range(each):
                self.open.append(dial(port))
        self.slow = bytes_per_second

    def __call__(self):
        if self.slow:
            for one in self.open:
                try:
                    one.sendall(b"T")
                except OSError:
                    pass  # shown the door
            time.sleep(1 / self.slow)
        else:
            time.sleep(0.1)

    def leave(self):
        for one in self.open:
            one.close()


def trained_beside(strangers_of, count=2):
    """Trains while strangers_of(ports)() is called again and again, and returns the weights."""
    ports = free_ports(count)
    with background("run", write("fixed.toml", TEXT + node_tables([1] * count, ports)), "--out", "out",
                    "--overwrite") as run:
        run.until_said("joined")
        strangers = strangers_of(ports)
        calls = 0
        while run.process.poll() is None:
            try:
                strangers()
                calls += 1
            except (ConnectionRefusedError, ConnectionResetError):
                time.sleep(0.01)  # the run is over, or about to be
        run.wait(0, within=60)
        assert calls > 0, "nobody came"
        if hasattr(strangers, "leave"):
            strangers.leave()
        print(f"  {calls} times")
        assert "error" not in run.said() and "lost" not in run.said(), run
    nothing_is_left(ports)
    return weights("out")


def test_strangers_change_nothing():
    troupe("run", write("alone.toml", TEXT + node_tables([1, 1])), "--out", "alone")
    expected = weights("alone")

    def on_each(what):
        return lambda ports: lambda: [what(port) for port in ports]

    for name, strangers in {
        "scanner": on_each(scanner),
        "browser": on_each(browser),
        "sixty half-open connections": lambda ports: crowd(ports, 60),
        "a slow one": lambda ports: crowd(ports, 1, 1),
    }.items():
        print(" ", name)
        assert trained_beside(strangers) == expected, f"{name}: other weights"


main(globals())
