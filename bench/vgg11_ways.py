#!/usr/bin/env python3
"""Experiment B: what does each way to communicate cost? Times, messages and bytes of VGG-11's five recipes.

Runs each recipe in turn for some steps, after one warm-up round. Prints seconds per step (the median of the rounds,
without evaluation) and the messages and bytes per step that `troupe check` plans. All recipes have batches of 256
images, or --batch images. The four workers are threads of one process, or with --processes processes of this host.
    TROUPE_DATA=… bench/vgg11_ways.py [--steps 8] [--rounds 5] [--batch 256] [--processes]
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from measure import BUILD, ROOT, interleave, setting, spread

WAYS = ("single", "gather_scatter", "isend_irecv", "all_reduce", "ddp")
NODES = "".join(f'[[node]]\nname = "n{i}"\n' for i in range(4))


def topology(way, processes):
    """Returns a file that extends the recipe, with a process per worker if `processes`; `single` has one worker."""
    text = f'extends = "{ROOT}/topologies/recipes/b_vgg11_{way}.toml"\n'
    return text + (NODES if processes and way != "single" else "")


def settings(given):
    values = {"data.global_batch_size": given.batch, "run.steps": given.steps, "run.timeout": "10min",
              "evaluate.every": f"{given.steps} steps",
              "data.validation": 0.002}  # a hundred images, to keep the evaluation at the end short
    return [word for key, value in values.items() for word in ("--set", f"{key}={value}")]


def seconds_per_step(file, given):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([BUILD / "troupe", "run", file, "--out", f"{folder}/out", "--quiet", *settings(given)],
                       check=True)
        end = json.loads(pathlib.Path(folder, "out/metrics.jsonl").read_text().splitlines()[-1])
    return given.batch / end["samples_per_second"]


def plan(file, given):
    said = subprocess.run([BUILD / "troupe", "check", file, "--json", *settings(given)], check=True,
                          capture_output=True)
    return json.loads(said.stdout)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--steps", type=int, default=8)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--batch", type=int, default=256)
    arguments.add_argument("--processes", action="store_true")
    given = arguments.parse_args()
    if not pathlib.Path(os.environ.get("TROUPE_DATA", "nowhere"), "cifar-10-batches-bin").is_dir():
        sys.exit("TROUPE_DATA does not name a folder that contains cifar-10-batches-bin/; "
                 "troupe data fetch cifar10 downloads it")
    with tempfile.TemporaryDirectory() as folder:
        files = {way: pathlib.Path(folder, f"{way}.toml") for way in WAYS}
        for way, file in files.items():
            file.write_text(topology(way, given.processes))
        plans = {way: plan(file, given) for way, file in files.items()}
        times = interleave({way: lambda file=file: seconds_per_step(file, given) for way, file in files.items()},
                           given.rounds)
    print("```text")
    sys.stdout.flush()
    setting()
    where = "processes" if given.processes else "threads"
    print(f"{given.steps} steps, {given.rounds} rounds, four workers as {where}\n```\n")
    print("| recipe | seconds per step | messages per step | MB per step |\n|---|---|---|---|")
    for way in WAYS:
        median, deviation = spread(times[way])
        print(f"| b_vgg11_{way} | {median:.3f} ± {deviation:.2g} | {plans[way]['messages_per_step']} | "
              f"{plans[way]['bytes_per_step'] / 1e6:.1f} |")


if __name__ == "__main__":
    main()
