#!/usr/bin/env python3
"""How much of the communication do buckets hide behind backward?

ResNet-20 on two workers: in one process, and in two processes with a slow link between them. A relay on the same host
limits the link to a bandwidth in each direction and adds a latency. Runs without exchange, with the gradient sent as a
whole, and in buckets alternate. Hidden share: 1 - (time with buckets - time alone) / (time whole - time alone).
    .venv/bin/python bench/overlap.py [repetitions] [Mbit/s] [ms]
    (scripts/setup --python installs the packages that it imports)
"""

import asyncio
import pathlib
import socket
import sys
import tempfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests/parity"))
from measure import ALONE, TOGETHER, interleave, repetitions, setting, show, spread, troupe_rate  # noqa: E402
from plain import write_cifar10  # noqa: E402

BATCH, STEPS = 32, 15
RATE = float(sys.argv[2]) if len(sys.argv) > 2 else 80.0
LATENCY = float(sys.argv[3]) if len(sys.argv) > 3 else 2.0
WHOLE = '[exchange]\nkind = "all_reduce"\nsend = "whole"'
BUCKETS = '[exchange]\nkind = "all_reduce"\nsend = "bucket"\nbucket_mb = 0.1'


class Relay(threading.Thread):
    """Forwards connections, with RATE Mbit/s per direction of each connection and a delay of LATENCY ms."""

    def __init__(self, ports):
        super().__init__(daemon=True)
        self.ports, self.ready = ports, threading.Event()
        self.start()
        self.ready.wait()

    def run(self):
        asyncio.run(self.serve())

    async def serve(self):
        servers = [await asyncio.start_server(lambda r, w, to=to: self.join(r, w, to), "127.0.0.1", port)
                   for port, to in self.ports.items()]
        self.ready.set()
        await asyncio.gather(*(server.serve_forever() for server in servers))

    async def join(self, reader, writer, port):
        try:
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return writer.close()
        await asyncio.gather(self.one_way(reader, there_writer), self.one_way(there_reader, writer))

    @staticmethod
    async def one_way(reader, writer):
        loop, free = asyncio.get_running_loop(), 0.0
        waiting = asyncio.Queue()

        async def deliver():
            while (item := await waiting.get()) is not None:
                due, data = item
                await asyncio.sleep(max(0.0, due - loop.time()))
                writer.write(data)
                await writer.drain()

        sender = asyncio.create_task(deliver())
        try:
            while data := await reader.read(16 * 1024):
                free = max(free, loop.time()) + len(data) * 8 / (RATE * 1e6)
                await waiting.put((free + LATENCY / 1000, data))
                await asyncio.sleep(max(0.0, free - loop.time()))  # reads no faster than the link transfers
            await waiting.put(None)
            await sender
        except OSError:
            sender.cancel()
        writer.close()


def free_ports(count):
    """Returns the first port of each of `count` free pairs of consecutive ports."""
    found = []
    while len(found) < count:
        with socket.socket() as one, socket.socket() as next_one:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
            try:
                next_one.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            if all(abs(port - other) > 1 for other in found):
                found.append(port)
    return found


def far_apart():
    """Returns the tables of two nodes that reach each other only through the relay."""
    ports = free_ports(4)
    Relay({ports[node] + plane: ports[2 + node] + plane for node in (0, 1) for plane in (0, 1)})
    return "\n".join(f'[[node]]\nname = "node{node}"\naddress = "127.0.0.1:{ports[node]}"\n'
                     f'listen = "127.0.0.1:{ports[2 + node]}"\nworkers = 1' for node in (0, 1))


def seconds_of_a_step(folder, loop, exchange="", nodes=""):
    rate, _ = troupe_rate(model="resnet20", data=f'name = "cifar10"\ndir = "{folder}"', batch=BATCH, steps=STEPS,
                          workers=2, loop=loop, exchange=exchange, nodes=nodes)
    return 2 * BATCH / rate


def compare(title, folder, nodes):
    results = interleave({
        "exchanging nothing": lambda: seconds_of_a_step(folder, ALONE),
        "the gradient whole": lambda: seconds_of_a_step(folder, TOGETHER, WHOLE, nodes()),
        "the gradient in buckets": lambda: seconds_of_a_step(folder, TOGETHER, BUCKETS, nodes()),
    }, repetitions())
    print(title)
    for name, values in results.items():
        show(name, values, "s a step")
    rounds = zip(*results.values(), strict=True)
    shares = [1 - (buckets - alone) / (whole - alone) for alone, whole, buckets in rounds if whole > alone]
    if shares:
        median, deviation = spread(shares)
        print(f"  hidden of the communication: {100 * median:.0f} % ± {100 * deviation:.0f} (median of {len(shares)})")


setting()
with tempfile.TemporaryDirectory() as scratch:
    write_cifar10(scratch, training=2 * BATCH * 8)
    compare("in one process", scratch, str)
    compare(f"in two processes, {RATE:g} Mbit/s and {LATENCY:g} ms between them", scratch, far_apart)
