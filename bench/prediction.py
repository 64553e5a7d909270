#!/usr/bin/env python3
"""How far is `troupe simulate` from a real run on this machine? Four workers that train the convnet on the digits with
batches of 256, in four wirings. In one process with emulated links: none, one worker slowed down, and every worker behind
100 and 20 Mbit/s; simulate.cores is the number of cores of this machine. In two processes, each on a core of its own, with a
real network between them: network namespaces that a token bucket limits to the same rates, and a relay that holds back
everything for 20 ms; there, simulate.cores is 1.

Each case is run and then simulated with the gradient measured on this machine. Prints predicted / real, as medians over the
repetitions with their median absolute deviations, for the time of an epoch, the mean staleness and the share of the time in
which workers waited for exchanges, and what explains the difference in training time. Requires an idle machine; the
namespaces require root, iproute2 and two cores.
    bench/prediction.py [repetitions] [steps] [batch]    slow networks take half as many steps
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from measure import BUILD, ROOT, TOPOLOGY, repetitions, setting, spread

os.environ["TROUPE_BINARY"] = str(BUILD / "troupe")
sys.path.insert(0, str(ROOT / "tests/support"))
from delaying_relay import delaying_relay
from hosts import network
from nodes import free_ports

STEPS = int(sys.argv[2]) if len(sys.argv) > 2 else 150
BATCH = int(sys.argv[3]) if len(sys.argv) > 3 else 256
JITTER = 0.03  # nine of ten gradients of a worker that trains alone take 0.97 to 1.05 times their median here
TOGETHER, AT_SERVER, BEHIND = '["gradient", "exchange", "apply"]', '["gradient", "exchange"]', (
    '["gradient", "apply", "exchange"]')
WIRINGS = {
    "all_reduce": (TOGETHER, '[exchange]\nkind = "all_reduce"\n'),
    "star": (TOGETHER, '[exchange]\nkind = "star"\n'),
    "dpsgd_ring": (TOGETHER, '[exchange]\nkind = "gossip"\ngraph = "ring"\n'),
    "asgd": (AT_SERVER, '[exchange]\nkind = "parameter_server"\napply = "each"\n'),
}


def write_file(folder, name, wiring, more, steps):
    loop, exchange = WIRINGS[wiring]
    text = TOPOLOGY.format(model="convnet", data='name = "digits"', lr=0.01, exchange=exchange, nodes=more, steps=steps,
                           batch=BATCH, workers=4, loop=loop)
    if "[[node]]" in more:
        text = text.replace("count = 4\n", "")  # the nodes say how many
    file = pathlib.Path(folder, name)
    file.write_text(text)
    return file


def at_every(names, bandwidth):
    return "".join(f'[[link]]\nat = "{name}"\nbandwidth = "{bandwidth}"\n' for name in names)


def simulation(folder, file, out, cores, *options):
    """Returns the command that simulates what has been run."""
    settings = ["--set", f"simulate.cores={cores}", "--set", f"simulate.jitter={JITTER}"]
    return [BUILD / "troupe", "simulate", file, *settings, "--compute", "none", "--out", f"{folder}/{out}", "--against",
            f"{folder}/real", "--json", *options]


def compared(output):
    """Returns the line of --against in the output of a simulation."""
    return json.loads(output.splitlines()[-1])


def on_core(core, *words):
    return ["taskset", "--cpu-list", str(core), *map(str, words)]


def run(command):
    return subprocess.run([*map(str, command)], check=True, capture_output=True, text=True).stdout


def in_one_process(more, *options, steps=STEPS):
    def predict(wiring, folder):
        file = write_file(folder, "bench.toml", wiring, more, steps)
        run([BUILD / "troupe", "run", file, "--out", f"{folder}/real", "--quiet", *options])
        return compared(run(simulation(folder, file, "predicted", os.cpu_count(), *options)))
    return predict


NAMES = ["alpha", "beta"]


def tables(addresses):
    return "[security]\ninsecure = true\n" + "".join(
        f'[[node]]\nname = "{name}"\nworkers = 2\n{address}' for name, address in zip(NAMES, addresses))


def run_nodes(folder, wiring, more, steps, before=lambda index: []):
    """Runs both nodes, each on a core of its own; `before` is what precedes the command of each."""
    file = write_file(folder, "real.toml", wiring, more, steps)
    alpha, beta = ([*before(index), *on_core(index, BUILD / "troupe", "node", file, "--name", name)]
                   for index, name in enumerate(NAMES))
    with subprocess.Popen(beta, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as other:
        run([*alpha, "--out", f"{folder}/real", "--quiet"])
    assert other.returncode == 0, other.returncode


def simulate_nodes(folder, file):
    """Simulates on both cores at once, so that gradients are measured with the caches as full as in the run."""
    command = on_core(1, *simulation(folder, file, "meanwhile", 1))
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
        return compared(run(on_core(0, *simulation(folder, file, "predicted", 1))))


def between_namespaces(rate, steps=STEPS):
    def predict(wiring, folder):
        hosts = network(2, mtu=9000)  # the packets cost time on the cores of the workers
        for index in range(2):
            hosts.limit(index, rate.replace("/s", "").lower())
        addresses = [f'address = "10.77.0.{index + 1}:4700"\n' for index in range(2)]
        run_nodes(folder, wiring, tables(addresses), steps, hosts.on)
        hosts.remove()
        file = write_file(folder, "bench.toml", wiring, tables(addresses) + at_every(NAMES, rate), steps)
        return simulate_nodes(folder, file)
    return predict


def behind_a_relay(milliseconds, steps):
    def predict(wiring, folder):
        *ports, front, other = free_ports(4)
        addresses = [f'address = "127.0.0.1:{near}"\nlisten = "127.0.0.1:{port}"\n'
                     for near, port in zip((front, other), ports)]
        with delaying_relay({front: ports[0], other: ports[1]}, milliseconds):
            run_nodes(folder, wiring, tables(addresses), steps)
        wire = f'[[link]]\nbetween = ["alpha", "beta"]\nlatency = "{milliseconds}ms"\n'
        return simulate_nodes(folder, write_file(folder, "bench.toml", wiring, tables(addresses) + wire, steps))
    return predict


SETTINGS = {
    "no links": in_one_process(""),
    "one slow worker": in_one_process("", "--set", "workers.slowdown=[1, 1, 1, 4]"),
    "100 Mbit/s": in_one_process(at_every("*", "100Mbit/s")),
    "20 Mbit/s": in_one_process(at_every("*", "20Mbit/s"), steps=STEPS // 2),
    "namespaces, 100 Mbit/s": between_namespaces("100Mbit/s"),
    "namespaces, 20 Mbit/s": between_namespaces("20Mbit/s", STEPS // 2),
    "relay, 20 ms": behind_a_relay(20, STEPS // 2),
}


def ratio(lines, quantity):
    ratios = [1 + line["quantities"][quantity]["difference"] for line in lines
              if quantity in line["quantities"] and line["quantities"][quantity]["difference"] is not None]
    return "{:.2f} ± {:.2f}".format(*spread(ratios)) if ratios else "-"


def explained(lines, cause):
    shares = [line["seconds"][cause] / line["quantities"]["train_seconds"]["real"] for line in lines]
    return f"{100 * statistics.median(shares):+.0f} %"


setting()
print("| wiring | setting | epoch | staleness | waiting | gradient | samples | rest |\n|---|---|---|---|---|---|---|---|")
for name, predict in SETTINGS.items():
    for wiring in WIRINGS:
        lines = []
        for _ in range(repetitions()):
            with tempfile.TemporaryDirectory() as folder:
                lines.append(predict(wiring, folder))
        print("|", " | ".join([wiring, name, *(ratio(lines, one) for one in (
            "epoch_seconds", "staleness_mean", "exchange_wait_share")), *(explained(lines, one) for one in (
                "gradient", "data_wait", "rest"))]), "|", flush=True)
