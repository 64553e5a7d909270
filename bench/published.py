#!/usr/bin/env python3
"""Do the recipes of experiments A, B, D and E train as their texts say? Each recipe, shortened, against a plain PyTorch
program that is written from the text (bench/published_reference.py): same images, batches, steps and evaluations.

Both start with Troupe's initial weights, whose distribution is tested in tests/parity. The other random numbers differ
(order, augmentation, dropout), so curves are not equal: they lie together. The algorithms are synchronous; PyTorch
simulates n workers one after the other in one process, so seconds compare nothing. Images are fewer. In B and E batches
are smaller, so that a run that a CPU can bear has more than a few steps; in B the learning rate is smaller by the same
factor, and in E there are fewer workers.
    TROUPE_DATA=… .venv/bin/python bench/published.py [A|B|D|E|RECIPE …] [--images N] [--epochs N]
Prints a table and writes bench/results/published_<experiment>.csv and .svg (--out DIR: there).
"""

import argparse
import csv
import dataclasses
import gzip
import json
import math
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time

import numpy
import torch
from curves import chart
from measure import BUILD, ROOT, setting
from published_reference import EXPERIMENTS, run
from safetensors.torch import load_file

TROUPE, PYTORCH = "Troupe", "PyTorch"


@dataclasses.dataclass
class Shortened:
    images: int  # of the training set
    test: int
    epochs: int
    changed: dict = dataclasses.field(default_factory=dict)  # of the recipe
    alike: dict = dataclasses.field(default_factory=dict)    # of published_reference.Experiment, to the same effect


# A target accuracy must not end one program's run before the other's.
SMALL = {"workers.count": 2, "data.batch_size": 8, "evaluate.batch_size": 8, "evaluate.target_accuracy": 1}
TWO_OF_8 = {"workers": 2, "batch": 8}
QUARTER = {"data.global_batch_size": 64, "optimizer.lr": 0.025}
PLANS = {
    "a_dpsgd_resnet20": Shortened(2560, 1000, 5),
    "b_vgg11_single": Shortened(1536, 500, 5, QUARTER, {"batch": 64, "lr": 0.025}),
    "b_vgg11_ddp": Shortened(1536, 500, 5, QUARTER, {"batch": 16, "lr": 0.025}),
    # With its small initial weights, LeNet does not learn for hundreds of steps.
    "d_lenet_one_device": Shortened(3000, 600, 100),
    "d_lenet_two_devices": Shortened(3000, 600, 100),
    "d_resnet18_one_device": Shortened(1024, 300, 4),
    "d_resnet18_two_devices": Shortened(1024, 300, 4),
    "e_lab_sgd": Shortened(128, 64, 3, SMALL, TWO_OF_8),
    "e_lab_momentum": Shortened(128, 64, 3, SMALL, TWO_OF_8),
    "e_lab_novograd": Shortened(128, 64, 3, SMALL, TWO_OF_8),
    "e_assignment": Shortened(128, 64, 3, {**SMALL, "optimizer.warmup_start": 0.5}, TWO_OF_8),
}


# The first images of the real sets, in their own formats and for PyTorch.


def folder_of(name):
    """Returns the folder in TROUPE_DATA whose name begins with `name`; fashion-mnist may be incomplete."""
    found = sorted(pathlib.Path(os.environ.get("TROUPE_DATA", "nowhere")).glob(f"{name}*"))
    if not found:
        sys.exit(f"TROUPE_DATA does not name a folder that contains {name}/; troupe data fetch downloads it")
    return found[0]


def read_idx(path):
    packed = path.with_name(path.name + ".gz")
    content = gzip.decompress(packed.read_bytes()) if packed.exists() else path.read_bytes()
    dimensions = content[3]
    shape = struct.unpack(f">{dimensions}i", content[4:4 + 4 * dimensions])
    return numpy.frombuffer(content, numpy.uint8, offset=4 + 4 * dimensions).reshape(shape)


def shorten_fashion_mnist(into, counts):
    where, sets = pathlib.Path(into, "fashion-mnist"), []
    where.mkdir()
    for name, count in zip(("train", "t10k"), counts, strict=True):
        images, labels = (read_idx(folder_of("fashion-mnist") / f"{name}-{kind}-ubyte")[:count]
                          for kind in ("images-idx3", "labels-idx1"))
        (where / f"{name}-images-idx3-ubyte").write_bytes(struct.pack(">4i", 2051, *images.shape) + images.tobytes())
        (where / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">2i", 2049, len(labels)) + labels.tobytes())
        sets.append((torch.from_numpy(images.copy()).unsqueeze(1), torch.from_numpy(labels.copy()).long()))
    return sets


def shorten_cifar10(into, counts):
    where, sets = pathlib.Path(into, "cifar-10-batches-bin"), []
    where.mkdir()
    for names, count in zip(([f"data_batch_{i}" for i in range(1, 6)], ["test_batch"]), counts, strict=True):
        content = b"".join((folder_of("cifar-10-batches-bin") / f"{name}.bin").read_bytes() for name in names)
        records = numpy.frombuffer(content, numpy.uint8).reshape(-1, 3073)[:count]
        for name, some in zip(names, numpy.array_split(records, len(names)), strict=True):
            (where / f"{name}.bin").write_bytes(some.tobytes())
        images = torch.from_numpy(records[:, 1:].copy()).view(-1, 3, 32, 32)
        sets.append((images, torch.from_numpy(records[:, 0].copy()).long()))
    return sets


SHORTEN = {"fashion_mnist": shorten_fashion_mnist, "cifar10": shorten_cifar10}


# Both sides: [(mean training loss, accuracy) after each epoch], steps, seconds.


def train(name, plan, folder, **length):
    """Troupe's run; returns its metrics."""
    values = {"data.dir": folder, "run.timeout": "30min", **plan.changed, **length}
    words = [word for key, value in values.items() for word in ("--set", f"{key}={value}")]
    subprocess.run([BUILD / "troupe", "run", ROOT / f"topologies/recipes/{name}.toml", "--out", f"{folder}/{name}",
                    "--overwrite", "--quiet", *words], check=True)
    return [json.loads(line) for line in pathlib.Path(folder, name, "metrics.jsonl").read_text().splitlines()]


def troupe(name, plan, folder):
    begin = time.monotonic()
    lines = train(name, plan, folder, **{"run.epochs": plan.epochs})
    epochs = [(line["train_loss"], line["val_accuracy"]) for line in lines if line["event"] == "epoch"]
    return epochs, lines[-1]["step"], time.monotonic() - begin


def pytorch(name, plan, initial, sets, steps):
    begin = time.monotonic()
    epochs = list(run(name, initial, *sets, plan.epochs, **plan.alike))
    return epochs, steps, time.monotonic() - begin


def initial_weights(name, plan, folder):
    train(name, plan, folder, **{"run.steps": 0})
    return load_file(pathlib.Path(folder, name, "model.safetensors"))


def compare(name, plan):
    """{side: (epochs, steps, seconds)}"""
    with tempfile.TemporaryDirectory() as folder:
        sets = SHORTEN[EXPERIMENTS[name].data](folder, (plan.images, plan.test))
        initial = initial_weights(name, plan, folder)
        ours = troupe(name, plan, folder)
        print(row(name, TROUPE, *ours), file=sys.stderr, flush=True)
        theirs = pytorch(name, plan, initial, sets, ours[1])
        print(row(name, PYTORCH, *theirs), file=sys.stderr, flush=True)
    assert len(ours[0]) == len(theirs[0]) == plan.epochs, (ours, theirs)
    return {TROUPE: ours, PYTORCH: theirs}


def row(name, side, epochs, steps, seconds):
    """Returns a row of the table with at most five epochs, including the last one."""
    shown = [number for number in range(len(epochs), 0, -math.ceil(len(epochs) / 5))][::-1]
    losses = " ".join(f"{epochs[number - 1][0]:.3f}" for number in shown)
    rights = " ".join(f"{100 * epochs[number - 1][1]:.1f}" for number in shown)
    return f"| {name} | {side} | {steps} | {' '.join(map(str, shown))} | {losses} | {rights} | {seconds:.0f} |"


def write(stem, results):
    with open(f"{stem}.csv", "w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(("recipe", "side", "epoch", "train_loss", "accuracy"))
        for name, sides in results.items():
            for side, (epochs, _, _) in sides.items():
                lines.writerows((name, side, number, f"{loss:.6f}", f"{right:.6f}")
                                for number, (loss, right) in enumerate(epochs, 1))
    panels = {title: {(name, side == PYTORCH): [each[place] for each in sides[side][0]]
                      for name, sides in results.items() for side in (TROUPE, PYTORCH)}
              for place, title in enumerate(("training loss", "accuracy"))}
    pathlib.Path(f"{stem}.svg").write_text(chart(panels, TROUPE, PYTORCH))


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("subjects", nargs="*", default=["A", "B", "D", "E"], help="A, B, D, E or names of recipes")
    for key in ("images", "test", "epochs"):
        arguments.add_argument(f"--{key}", type=int)
    arguments.add_argument("--threads", type=int, default=1,
                           help="threads of PyTorch (default: 1, the fastest while other programs run)")
    arguments.add_argument("--out", type=pathlib.Path, default=ROOT / "bench/results")
    given = arguments.parse_args()
    torch.set_num_threads(given.threads)
    rows = []
    for subject in given.subjects:
        names = [name for name in PLANS if name in (subject, pathlib.Path(subject).stem)
                 or name.startswith(f"{subject.lower()}_")]
        if not names:
            sys.exit(f"unknown experiment or recipe {subject}; expected A, B, D, E or one of {', '.join(PLANS)}")
        changes = {key: getattr(given, key) for key in ("images", "test", "epochs") if getattr(given, key)}
        results = {name: compare(name, dataclasses.replace(PLANS[name], **changes)) for name in names}
        write(given.out / f"published_{pathlib.Path(subject).stem.lower()}", results)
        rows += [row(name, side, *found) for name, sides in results.items() for side, found in sides.items()]
    print("```text")
    sys.stdout.flush()
    setting()
    print(f"PyTorch {torch.__version__}\n```\n")
    print("| recipe | side | steps | after epochs | training loss | accuracy, % | seconds |")
    print("|---|---|---|---|---|---|---|")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
