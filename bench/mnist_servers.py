#!/usr/bin/env python3
"""Experiment C in full: what do its three recipes reach on MNIST, compared with the figures of their sources?

Runs each recipe for ten epochs with three seeds. Prints accuracy and mean loss on the 10,000 test images, and their
medians.
    TROUPE_DATA=… bench/mnist_servers.py [seeds] [epochs]     (defaults: 3 and 10)
Prints a table for docs/results.md. Requires only the standard library.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from measure import BUILD, ROOT, setting

# Recipe: number of the 10,000 test images that its source reports as classified correctly, and mean loss.
RECIPES = {"c_server_mnist": (9696, None), "c_asgd_mnist": (9696, None), "c_hogwild_mnist": (9898, 0.0325)}


def train(recipe, seed, epochs):
    """Trains once; returns accuracy in [0, 1], mean test loss and seconds."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([BUILD / "troupe", "run", ROOT / f"topologies/recipes/{recipe}.toml", "--out", f"{folder}/out",
                        "--quiet", "--set", f"run.seed={seed}", "--set", f"run.epochs={epochs}"], check=True)
        end = json.loads(pathlib.Path(folder, "out/metrics.jsonl").read_text().splitlines()[-1])
    return end["val_accuracy"], end["val_loss"], end["seconds"]


def row(recipe, seed, accuracy, loss, seconds):
    return f"| {recipe} | {seed} | {100 * accuracy:.2f} | {loss:.4f} | {seconds:.0f} |"


def reported(right, loss):
    return f"{right / 100:.2f} % ({'' if loss is None else f'loss {loss}, '}as the source reports)"


def main(seeds=3, epochs=10):
    if not pathlib.Path(os.environ.get("TROUPE_DATA", "nowhere"), "mnist").is_dir():
        sys.exit("TROUPE_DATA does not name a folder that contains mnist/; troupe data fetch mnist downloads it")
    rows, summary = [], []
    for recipe, source in RECIPES.items():
        found = []
        for seed in range(1, int(seeds) + 1):
            found.append(train(recipe, seed, int(epochs)))
            rows.append(row(recipe, seed, *found[-1]))
            print(rows[-1], file=sys.stderr, flush=True)
        accuracy, loss, seconds = (statistics.median(each) for each in zip(*found, strict=True))
        rows.append(row(recipe, "**median**", accuracy, loss, seconds))
        summary.append(f"{recipe}: median {100 * accuracy:.2f} %, loss {loss:.4f}; {reported(*source)}")
    print("```text")
    sys.stdout.flush()
    setting()
    print("\n".join([f"{epochs} epochs, seeds 1 to {seeds}", *summary, "```", ""]))
    print("| recipe | seed | test accuracy, % | mean test loss | seconds |\n|---|---|---|---|---|")
    print("\n".join(rows))


if __name__ == "__main__":
    main(*sys.argv[1:])
