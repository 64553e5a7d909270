"""Helpers of tests/processes for runs over several processes: files with nodes, background commands, leftover
checks."""

import os
import pathlib
import re
import socket
import subprocess
import tempfile
import time

from troupe_command import BINARY, TINY, carried, write

NAMES = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"]

# Long enough that no test sees its end.
ENDLESS = TINY.replace("steps = 20", "steps = 100000000").replace("count = 2\n", "")


LOOP, EXCHANGE = '"gradient", "exchange", "apply"', '[exchange]\nkind = "all_reduce"\n'
AT_SERVER, BEHIND = '"gradient", "exchange"', '"gradient", "apply", "exchange"'
ALONE = '"gradient", "apply"'
STAR, GOSSIP, SERVER, ELASTIC, SHARED = (EXCHANGE.replace("all_reduce", kind)
                                         for kind in ("star", "gossip", "parameter_server", "elastic", "shared"))
PAIRS = """
[[exchange]]
name = "left"
kind = "all_reduce"
members = ["w0", "w1"]
[[exchange]]
name = "right"
kind = "all_reduce"
members = ["w2", "w3"]
[[exchange]]
name = "between"
kind = "gossip"
members = ["left", "right"]
every = 4
"""

# How four workers may be wired such that the result does not depend on what comes first: a loop, and its exchanges.
# With no exchange at all each trains alone, and at the end comes the average.
WIRINGS = {
    "star": (LOOP, STAR),
    "star by parameter": (LOOP, STAR + 'send = "parameter"\n'),
    **{f"all_reduce {route}": (LOOP, EXCHANGE + f'route = "{route}"\n')
       for route in ("auto", "direct", "chain", "ring")},
    "buckets": (LOOP, EXCHANGE + 'send = "bucket"\nbucket_mb = 0.02\n'),
    "no exchange": ('"gradient", "apply"', ""),
    "gossip on a ring": (LOOP, GOSSIP + 'graph = "ring"\n'),
    "gossip among all once they have stepped": (BEHIND, GOSSIP + 'graph = "complete"\n'),
    "model averaging": (BEHIND, EXCHANGE + 'sends = "parameters"\nevery = 5\n'),
    "synchronous parameter server": (AT_SERVER, SERVER + 'apply = "all"\n'),
    "synchronous parameter server of two shards": (AT_SERVER, SERVER + 'apply = "all"\nshards = 2\n'),
    "elastic": (LOOP, ELASTIC + 'apply = "all"\nevery = 4\n'),
    "pairs that gossip": ('"gradient", "left", "right", "apply", "between"', PAIRS),
}
# And such that it does.
ASYNCHRONOUS = {
    "asgd": (AT_SERVER, SERVER + 'apply = "each"\n'),
    "asgd of two shards": (AT_SERVER, SERVER + 'apply = "each"\nshards = 2\n'),
    "asynchronous elastic": (LOOP, ELASTIC + 'apply = "each"\nevery = 2\n'),
    "hogwild": (ALONE, SHARED),
    "hogwild with a lock": (ALONE, SHARED + "lock = true\n"),
}


def wired(text, wiring):
    """The file `text` with another loop and other exchanges than LOOP and EXCHANGE."""
    loop, exchanges = wiring
    assert LOOP in text and EXCHANGE in text
    return text.replace(LOOP, loop).replace(EXCHANGE, exchanges)


def node_tables(workers, ports=None, names=None):
    """`workers` of each node, as [[node]] tables; without `ports`, `troupe run` chooses them."""
    text = ""
    for index, count in enumerate(workers):
        address = f'address = "127.0.0.1:{ports[index]}"\n' if ports else ""
        text += f'[[node]]\nname = "{(names or NAMES)[index]}"\n{address}workers = {count}\n'
    return text


def free_ports(count):
    """Returns free ports, below those that systems hand out."""
    held, port = [], 20000 + os.getpid() % 750 * 16
    while len(held) < count:
        one = socket.socket()
        try:
            one.bind(("127.0.0.1", port))
            held.append((port, one))
        except OSError:
            one.close()
        port = port + 1 if port < 31990 else 20000
    for _, one in held:
        one.close()
    return [port for port, _ in held]


def can_be_bound(port):
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections in TIME_WAIT are no listener
        try:
            one.bind(("127.0.0.1", port))
            one.listen()
            return True
        except OSError:
            return False


class background:
    """A command under way. What it says goes to files, so that no pipe fills or stays open."""

    def __init__(self, *arguments, name="command", program=(BINARY,), **more):
        self.arguments = [*program, *carried(arguments)]
        self.out, self.err = pathlib.Path(f"{name}.stdout"), pathlib.Path(f"{name}.stderr")
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            self.process = subprocess.Popen(self.arguments, stdin=subprocess.DEVNULL, stdout=out, stderr=err, **more)
        self.pid = self.process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def said(self):
        return self.err.read_text(errors="replace")

    def printed(self):
        return self.out.read_text(errors="replace")

    def wait(self, status, within=60.0):
        """Demands that it ends with this status within so many seconds; returns how many it took."""
        begin = time.monotonic()
        try:
            self.process.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still there after {within} s\n{self}") from None
        seconds = time.monotonic() - begin
        assert self.process.returncode == status, f"status {self.process.returncode} instead of {status}\n{self}"
        return seconds

    def until(self, condition, what, within=60.0):
        """Waits for condition() while the command is there."""
        until(condition, f"{what}\n", within, lambda: self.process.poll() is None, self)

    def until_said(self, word):
        self.until(lambda: word in self.said(), f"it said '{word}'")

    def until_trained(self, out):
        """Waits until steps are certainly being made."""
        self.until(lambda: started(out), "the first step")
        time.sleep(0.3)

    def __str__(self):
        return f"{' '.join(self.arguments)}\n--- stdout\n{self.printed()[-3000:]}\n--- stderr\n{self.said()[-3000:]}"


def until(condition, what, within=10.0, alive=lambda: True, context=""):
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, f"not within {within} s: {what}{context}"
        assert alive() or condition(), f"ended before: {what}{context}"
        time.sleep(0.01)


def started(out):
    """Whether a run into this folder has written its start line."""
    return any('"start"' in path.read_text() for path in pathlib.Path(out).rglob("*metrics*") if path.is_file())


def processes(*words):
    """Returns the processes of this command that were started in this folder and have all `words` in their line."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            line = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            dead = re.search(r"\) (\S)", (entry / "stat").read_text()).group(1) in "ZX"
            here = (entry / "cwd").resolve() == pathlib.Path.cwd().resolve()
            ours = (entry / "exe").resolve() == pathlib.Path(BINARY).resolve()
        except (OSError, AttributeError):
            continue
        if here and ours and not dead and all(word in line for word in words):
            found.append(int(entry.name))
    return found


def node_process(name):
    found = processes("node", name)
    assert len(found) == 1, f"{len(found)} processes of node {name}"
    return found[0]


def run_losing(count, victim, how, within, settings="", text=ENDLESS, waits=True):
    """Sends node `victim` of `count` the signal `how` in the middle of training. The run ends with status 1 within so many
    seconds, leaves nothing, and says who is lost and, where anybody `waits` for others, who waited.
    Returns what it said."""
    ports = free_ports(count)
    file = write("long.toml", text.replace("[run]", f"[run]\n{settings}") + node_tables([1] * count, ports))
    out = tempfile.mkdtemp(dir=".")
    with background("run", file, "--out", out) as run:
        run.until_trained(out)
        os.kill(node_process(NAMES[victim]), how)
        seconds = run.wait(1, within=20)
        print(f"  {count} nodes, {NAMES[victim]} hit by {how.name}: {seconds:.2f} s")
        assert seconds < within, f"{seconds:.2f} s\n{run}"
        nothing_is_left(ports)
        said = run.said()
        assert f"node {NAMES[victim]} is lost" in said, said
        assert not waits or re.search(rf"rank \d is waiting for ranks? [\d, ]*{victim}[\d, ]* at step \d+", said), said
        return said


def nothing_is_left(ports=()):
    """Demands that every process is gone, stopped ones too, and that every port of theirs can be had again."""
    until(lambda: not processes(), "no process left", 2)
    until(lambda: all(can_be_bound(each) for each in ports), f"the ports {ports} are free", 2)


def weights(out):
    return pathlib.Path(out, "model.safetensors").read_bytes()
