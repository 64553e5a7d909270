#!/usr/bin/env python3
"""How long does compute wait for samples while images are augmented? Less than 2 % of its time is required.

Two workers of one process, one intra-op thread each: convnet on mnist (crop and rotation) and resnet20 on cifar10 (crop
and flip), each with and without its augmentation, in turn.
    cmake --preset bench && cmake --build build && TROUPE_DATA=… bench/loader.py [repetitions]
"""

import json
import pathlib
import subprocess
import tempfile

from measure import BUILD, TOGETHER, interleave, repetitions, setting, show, spread

SECONDS = 30
TOPOLOGY = """
[run]
seed = 1
max_seconds = {seconds}
epochs = 1000
[model]
name = "{model}"
[data]
name = "{data}"
batch_size = {batch}
{augment}
[optimizer]
lr = {lr}
momentum = 0.9
[workers]
count = 2
loop = {loop}
[evaluate]
every = "100 steps"
[exchange]
kind = "all_reduce"
"""
MNIST = {"model": "convnet", "data": "mnist", "batch": 64, "lr": 0.01}
CIFAR = {"model": "resnet20", "data": "cifar10", "batch": 32, "lr": 0.05}


def measured(augment, values):
    """Returns (samples per second over all workers, share of its time that compute waited for samples)."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "bench.toml")
        file.write_text(TOPOLOGY.format(seconds=SECONDS, augment=f"[augment]\n{augment}" if augment else "",
                                        loop=TOGETHER, **values))
        subprocess.run([BUILD / "troupe", "run", file, "--out", f"{folder}/out", "--quiet"], check=True)
        lines = [json.loads(line) for line in pathlib.Path(folder, "out/metrics.jsonl").read_text().splitlines()]
    lines = [line for line in lines if line.get("samples_per_second") and line.get("data_wait") is not None]
    assert lines, "no line of the metrics has data_wait"
    return spread([line["samples_per_second"] for line in lines])[0], spread([line["data_wait"] for line in lines])[0]


results = interleave({
    "convnet on mnist, as they are": lambda: measured("", MNIST),
    "convnet on mnist, crop and rotation": lambda: measured("crop_padding = 2\nrotation = 10", MNIST),
    "resnet20 on cifar10, as they are": lambda: measured("", CIFAR),
    "resnet20 on cifar10, crop_flip": lambda: measured('preset = "crop_flip"', CIFAR),
}, repetitions())
setting()
for name, runs in results.items():
    show(name, [rate for rate, _ in runs], "samples/s")
    show("  waited for samples", [100 * waited for _, waited in runs], "% of their time")
    assert all(waited < 0.02 for _, waited in runs), f"{name}: compute waited for samples too long: {runs}"
