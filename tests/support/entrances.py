"""Runs with an entrance for guests, and guests that speak with them byte by byte."""

import contextlib
import hashlib
import hmac
import json
import os
import pathlib
import socket

from nodes import LOOP, background, started
from troupe_command import write

CAF = "0.17.6"


def quick(*, steps, lr, every, count, exchange):
    """A topology file whose steps take less than a millisecond each."""
    return f"""
[run]
seed = 1
steps = {steps}
[model]
name = "mlp"
layers = 1
width = 16
[data]
name = "digits"
batch_size = 4
[optimizer]
lr = {lr}
[evaluate]
every = {every}
[workers]
count = {count}
loop = [{LOOP}]
{exchange}"""


class open_run(background):
    """A run with an entrance for guests."""

    def __init__(self, text, *options, out="out"):
        self.folder = pathlib.Path(out)
        address = [] if "[[node]]" in text else ["127.0.0.1:0"]
        super().__init__("run", write(f"{out}.toml", text), "--out", out, *options, "--actors", *address, name=out)
        self.until_said("guests: ")
        assert "secret" not in self.said() or self.entrance.exists(), self

    def until_trained(self, out):
        self.until(lambda: started(out), "the first step")

    @property
    def entrance(self):
        return self.folder / "actors.json"

    def lines(self):
        return (self.folder / "metrics.jsonl").read_text().splitlines()

    def has_written(self, event):
        return any(json.loads(line)["event"] == event for line in self.lines())


def greeting(**more):
    return json.dumps({"protocol": 1, "name": "mallory", "as": "actors", "caf": CAF, **more}).encode() + b"\n"


class stranger:
    """A connection to the entrance of a run, which does what a guest does, or something else, up to the greeting."""

    def __init__(self, run, hello=None, *, secret=None, magic=b"TROUPE-G"):
        where = json.loads(run.entrance.read_text())
        host, port = where["address"].rsplit(":", 1)
        key = bytes.fromhex(where["secret"]) if secret is None else secret
        self.where = (host, int(port))
        self.socket = socket.create_connection(self.where, timeout=20)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.arrived = b""
        dialled = os.urandom(32)
        self.send(magic + dialled)
        with contextlib.suppress(ConnectionError):  # the run has closed the connection
            accepted = self.take(64)[:32]
            self.send(hmac.new(key, b"dialled " + dialled + accepted, hashlib.sha256).digest())
        self.send(hello or greeting())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def read(self):
        """Reads something; returns whether the connection is open."""
        try:
            more = self.socket.recv(65536)
        except ConnectionError:
            more = b""
        self.arrived += more
        return bool(more)

    def take(self, count):
        while len(self.arrived) < count:
            if not self.read():
                raise ConnectionError(f"closed after {self.arrived}")
        taken, self.arrived = self.arrived[:count], self.arrived[count:]
        return taken

    def answer(self):
        """The answer to the greeting."""
        while b"\n" not in self.arrived:
            if not self.read():
                raise ConnectionError(f"closed after {self.arrived}")
        line, self.arrived = self.arrived.split(b"\n", 1)
        return json.loads(line)

    def send(self, *messages):
        """Sends something; the run may close the connection meanwhile."""
        with contextlib.suppress(ConnectionError):
            self.socket.sendall(b"".join(messages))

    def is_shown_the_door(self):
        while self.read():
            self.arrived = b""
        return True  # otherwise the socket has timed out, which is an OSError

    def say_no_more(self):
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)
