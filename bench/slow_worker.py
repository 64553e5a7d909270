#!/usr/bin/env python3
"""What does a worker cost that is stopped for a part of the time, with a budget of steps for each worker and with one
for all workers together (run.budget)? Asynchronous SGD of the convnet on the digits: two nodes of one worker each, of
which the second is stopped and continued 20 times a second with SIGSTOP and SIGCONT. Runs alternate. Prints the
seconds of training and their ratio to those of a run in which no worker is stopped. With a core for each worker and
one for the server, and a share s of the time for one of n workers, the ratio is at least n / (n - 1 + s).
    bench/slow_worker.py [repetitions] [share of the time in which the second worker runs]
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from measure import BUILD, TOPOLOGY, interleave, repetitions, setting, show

STEPS, PERIOD = 3000, 0.05
SHARE = float(sys.argv[2]) if len(sys.argv) > 2 else 0.5
NODES = '[[node]]\nname = "alpha"\n[[node]]\nname = "beta"\n'
EXCHANGE = '[exchange]\nkind = "parameter_server"\napply = "each"\n'


def second_node(run):
    """Returns the process of the second node."""
    children = pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
    words = {int(child): pathlib.Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0") for child in children}
    return next(child for child, line in words.items() if b"beta" in line)


def disturb(run, metrics, share):
    """Stops the second node for a part of each period while the run trains."""
    while run.poll() is None and not (metrics.exists() and metrics.read_text()):
        time.sleep(0.01)
    victim = second_node(run)
    try:
        while '"end"' not in metrics.read_text():
            os.kill(victim, signal.SIGSTOP)
            time.sleep(PERIOD * (1 - share))
            os.kill(victim, signal.SIGCONT)
            time.sleep(PERIOD * share)
    except ProcessLookupError:
        pass  # the node exited before its last signal


def train(budget, share=1.0):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "bench.toml")
        text = TOPOLOGY.format(model="convnet", data='name = "digits"', lr=0.01, exchange=EXCHANGE, nodes=NODES,
                               steps=STEPS, batch=32, workers=2, loop='["gradient", "exchange"]')
        file.write_text(text.replace("[run]", f'[run]\nbudget = "{budget}"'))
        metrics = pathlib.Path(folder, "out/metrics.jsonl")
        with subprocess.Popen([BUILD / "troupe", "run", file, "--out", f"{folder}/out", "--quiet"]) as run:
            if share < 1:
                disturb(run, metrics, share)
            assert run.wait() == 0
        end = json.loads(metrics.read_text().splitlines()[-1])
    assert end["updates"] == 2 * STEPS, end
    return end["train_seconds"]


setting()
found = interleave({"no worker is stopped": lambda: train("worker"),
                    "budget = worker": lambda: train("worker", SHARE),
                    "budget = total": lambda: train("total", SHARE)}, repetitions())
for name, seconds in found.items():
    show(name, seconds, "s")
alone = found["no worker is stopped"]
for name in list(found)[1:]:
    show(f"{name}, of the first", [one / two for one, two in zip(found[name], alone)], "")
print(f"  with a core for each worker and one for the server, at least {2 / (1 + SHARE):.3g}")
