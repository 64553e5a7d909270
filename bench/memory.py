#!/usr/bin/env python3
"""How many page faults does a training step cause, and what does it cost in another build of the command, such as one
with another allocator? Runs alternate. A step is the difference between a long and a short run, so that the start does
not count.
    bench/memory.py OTHER_COMMAND [repetitions]
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from measure import ALONE, BUILD, TOGETHER, TOPOLOGY, interleave, setting, spread

CONVNET = {"model": "convnet", "data": 'name = "digits"', "lr": 0.05, "batch": 64}
RESNET = {"model": "resnet20", "data": 'name = "cifar10"', "lr": 0.05, "batch": 64}
ALL_REDUCE = '[exchange]\nkind = "all_reduce"\n'
CASES = {
    "convnet, 1 worker": dict(CONVNET, workers=1, loop=ALONE, exchange="", steps=300),
    "convnet, 4 workers": dict(CONVNET, workers=4, loop=ALONE, exchange="", steps=200),
    "convnet, 4 workers, all_reduce": dict(CONVNET, workers=4, loop=TOGETHER, exchange=ALL_REDUCE, steps=200),
}
if os.environ.get("TROUPE_DATA"):
    CASES["ResNet-20, 2 workers, all_reduce"] = dict(RESNET, workers=2, loop=TOGETHER, exchange=ALL_REDUCE, steps=8)


def train(command, steps, values):
    """Returns page faults, seconds of CPU time and samples per second of one run."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "bench.toml")
        file.write_text(TOPOLOGY.format(**{"nodes": "", **values, "steps": steps}))
        run = subprocess.Popen([command, "run", file, "--out", f"{folder}/out", "--quiet"])
        _, status, usage = os.wait4(run.pid, 0)
        assert status == 0, status
        last = json.loads(pathlib.Path(folder, "out/metrics.jsonl").read_text().splitlines()[-1])
    return usage.ru_minflt, usage.ru_utime + usage.ru_stime, last["samples_per_second"]


def per_step(command, values):
    """Returns page faults and milliseconds of CPU time per step, and samples per second."""
    steps = values["steps"]
    short, long = train(command, steps, values), train(command, 3 * steps, values)
    faults, seconds = ((after - before) / (2 * steps) for before, after in zip(short[:2], long[:2]))
    return faults, 1000 * seconds, long[2]


other, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 7
setting()
for name, values in CASES.items():
    results = interleave({"other": lambda: per_step(other, values), "this": lambda: per_step(BUILD / "troupe", values)},
                         rounds)
    print(name)
    for build, runs in results.items():
        faults, cpu, rate = (statistics.median(column) for column in zip(*runs))
        print(f"  {build:6} {max(faults, 0):8.0f} page faults and {cpu:7.2f} ms of CPU time per step,"
              f" {rate:7.0f} samples/s")
    for what, index, sign in (("CPU time, other / this", 1, 1), ("throughput, this / other", 2, -1)):
        ratios = [(before[index] / now[index]) ** sign for before, now in zip(results["other"], results["this"])]
        median, deviation = spread(ratios)
        print(f"  {what}: {median:.2f} ± {deviation:.2f} (median of pairs)")
