#!/usr/bin/env python3
"""What do guests cost a run? At most 1 % of its CPU time is allowed, whatever they do.

Trains the convnet with two workers and an entrance (--actors): without a guest, and with one that follows the run, asks rarely,
is stopped, is killed and attaches again, or asks as fast as it can. The CPU time of a gradient varies by several percent from one
run to the next, which would hide the cost. Therefore, as in observing_cost.py, only the other threads are compared: their CPU
time during some seconds of training, in percent of that of the threads that compute gradients, and how much a guest adds to it.
Rounds run all variants in a random order; the 95 % confidence interval is that of the median (order statistics).
    cmake --preset release -DTROUPE_TESTS=ON && cmake --build build && bench/guests_cost.py [rounds]
"""

import contextlib
import math
import pathlib
import random
import signal
import statistics
import subprocess
import tempfile
import threading
import time

from measure import BUILD, TOGETHER, TOPOLOGY, cpu_times, other_threads, repetitions, setting

GUEST = BUILD / "tests/guest"
GUESTS = {
    "no guest": None,
    "follows": ["news"],
    "asks every 0.9 s": ["status", "sleep=900"] * 20,
    "is stopped": ["status", "freeze"],
    "is killed, and attaches again": ["news"],
    "asks without pause": ["status"] * 20_000,
}
WARM_UP, MEASURED = 1.5, 3.0  # seconds


@contextlib.contextmanager
def guests(name, out):
    """Runs a guest, which is killed at the end; with "killed" in its name, one after the other."""
    ended, commands = threading.Event(), GUESTS[name]

    def attach():
        while not ended.is_set():
            with subprocess.Popen([GUEST, out, *commands], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as guest:
                ended.wait(1 if "killed" in name else 60)
                guest.kill()

    thread = threading.Thread(target=attach)
    if commands:
        thread.start()
    yield
    ended.set()
    if commands:
        thread.join()


def overhead(name):
    """Returns the CPU time of the threads that do not compute gradients, in percent of that of those that do, and the memory of
    the run in MiB. Threads of guests that have left are not counted."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder, "out")
        file = pathlib.Path(folder, "bench.toml")
        file.write_text(TOPOLOGY.format(model="convnet", batch=64, steps=1_000_000, data='name = "digits"', lr=0.01, workers=2,
                                        nodes="", loop=TOGETHER, exchange='[exchange]\nkind = "all_reduce"\n'))
        run = subprocess.Popen([BUILD / "troupe", "run", file, "--out", out, "--quiet", "--actors", "127.0.0.1:0"],
                               stderr=subprocess.DEVNULL)
        while not (out / "actors.json").exists():
            time.sleep(0.01)
        with guests(name, out):
            time.sleep(WARM_UP)
            before = cpu_times(run.pid)
            time.sleep(MEASURED)
            after = cpu_times(run.pid)
            memory = int(next(line for line in open(f"/proc/{run.pid}/status") if "VmHWM" in line).split()[1]) / 1024
        run.send_signal(signal.SIGINT)
        assert run.wait(60) == 130, run.returncode
    return other_threads(before, after), memory


def interval(values):
    """Returns the median and its 95 % confidence interval."""
    ordered, half, middle = sorted(values), 0.98 * math.sqrt(len(values)), len(values) / 2
    return statistics.median(values), ordered[max(0, int(middle - half))], ordered[min(len(values) - 1, int(middle + half))]


setting()
results = {name: [] for name in GUESTS}
for number in range(repetitions()):
    order = list(GUESTS)
    random.Random(number).shuffle(order)
    for one in order:
        results[one].append(overhead(one))
alone = [percent for percent, _ in results["no guest"]]
print(f"  no guest: the other threads use {statistics.median(alone):.2f} %, "
      f"{max(memory for _, memory in results['no guest']):.0f} MiB")
for one in list(GUESTS)[1:]:
    added = [percent - before for (percent, _), before in zip(results[one], alone)]
    print("  {:<30} {:+.2f} % [{:+.2f}, {:+.2f}], ".format(one, *interval(added)) +
          f"{max(memory for _, memory in results[one]):.0f} MiB ({len(added)} pairs)", flush=True)
