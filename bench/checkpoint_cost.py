#!/usr/bin/env python3
"""What do checkpoints every 100 steps cost? Less than 2 % of the CPU time of training is allowed.

ConvNet on generated images of the shape of CIFAR-10, batch 64: the same run without checkpoints and with one every 10
steps, in turn. The difference, divided by the number of checkpoints, is the cost of one; ten times as many as asked
about make it stand out from the noise. All of them are kept, to be counted, so that removing old ones is not included.
With TROUPE_BENCH_FOLDER, the results folder is made there, to choose the disk.
    cmake --preset release && cmake --build build && bench/checkpoint_cost.py [repetitions]
"""

import json
import os
import pathlib
import random
import statistics
import subprocess
import tempfile

from measure import ALONE, BUILD, TOGETHER, TOPOLOGY, interleave, repetitions, setting, spread

EVERY, ASKED = 10, 100
CHECKPOINT = f"[checkpoint]\nevery = {EVERY}\nkeep = 1000\n"
CASES = {
    "1 worker": dict(steps=300, workers=1, loop=ALONE, exchange=""),
    "4 workers, all_reduce": dict(steps=100, workers=4, loop=TOGETHER, exchange='[exchange]\nkind = "all_reduce"\n'),
}


def write_images(folder):
    """Writes random images in CIFAR-10's format."""
    draw = random.Random(1)
    where = pathlib.Path(folder, "cifar-10-batches-bin")
    where.mkdir()
    for name in [f"data_batch_{number}" for number in range(1, 6)] + ["test_batch"]:
        images = b"".join(bytes([draw.randrange(10)]) + draw.randbytes(3072) for _ in range(1280))
        (where / f"{name}.bin").write_bytes(images)


def train(folder, values, more):
    """Trains once; returns the seconds of CPU time of the process, those of training by the clock, and the number of
    checkpoints."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("TROUPE_BENCH_FOLDER")) as out:
        file = pathlib.Path(out, "bench.toml")
        data = f'name = "cifar10"\ndir = "{folder}"'
        file.write_text(TOPOLOGY.format(**{"model": "convnet", "data": data, "lr": 0.01, "batch": 64, "nodes": more, **values}))
        run = subprocess.Popen([BUILD / "troupe", "run", file, "--out", f"{out}/out", "--quiet"])
        _, status, usage = os.wait4(run.pid, 0)
        assert status == 0, status
        last = json.loads(pathlib.Path(out, "out/metrics.jsonl").read_text().splitlines()[-1])
        made = len(list(pathlib.Path(out, "out").glob("checkpoints/step-*")))
    return usage.ru_utime + usage.ru_stime, last["train_seconds"], made


setting()
with tempfile.TemporaryDirectory() as folder:
    write_images(folder)
    for case, values in CASES.items():
        steps = values["steps"]
        # A run of one step shows what the start takes.
        results = interleave({"start": lambda: train(folder, {**values, "steps": 1}, ""),
                              "without": lambda: train(folder, values, ""),
                              "with": lambda: train(folder, values, CHECKPOINT)}, repetitions())
        print(f"{case}, {steps} steps, {statistics.median(made for *_, made in results['with']):.0f} checkpoints")
        for what, column in (("CPU time", 0), ("training", 1)):
            start = statistics.median(run[column] for run in results["start"])
            step = (statistics.median(run[column] for run in results["without"]) - start) / (steps - 1)
            costs = [(one[column] - other[column]) / one[2] for one, other in zip(results["with"], results["without"])]
            cost, deviation = spread(costs)
            print(f"  {what}: {1000 * step:.2f} ms a step, {1000 * cost:.2f} ± {1000 * deviation:.2f} ms a checkpoint (median of "
                  f"{len(costs)} pairs); every {ASKED} steps: {100 * cost / (ASKED * step):+.2f} %")
