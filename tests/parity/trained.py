"""Helpers that train with Troupe on the data that plain.write_mnist() wrote to the current folder."""

import os
import pathlib
import subprocess

import torch
from plain import Smooth, assert_equal, seeded, weights
from troupe_command import troupe, write

BATCH, STEPS = 8, 50
SGD = {"lr": 0.01, "momentum": 0.9, "weight_decay": 0.001}
FILE = """
[run]
seed = {seed}
steps = {steps}
[model]
{model}
[data]
name = "mnist"
dir = "."
batch_size = {batch}
shuffle = false
split = "{split}"
{data}
[optimizer]
{optimizer}
[workers]
count = {workers}
loop = [{loop}]
{exchange}
[evaluate]
every = "1000000 steps"  # no worker gets further ahead than two evaluations
{evaluate}
"""
TOGETHER = "gradient, exchange, apply"
SCRIPT = 'script = "model.pt"'


def file_of(name, exchange="", loop=TOGETHER, workers=4, batch=BATCH, steps=STEPS, sgd=None, model=SCRIPT,
            split="strided", data="", evaluate=""):
    """Writes a topology file; `exchange` is the text of its tables, `loop` its words."""
    optimizer = "\n".join(f"{key} = {value}" for key, value in (sgd or SGD).items())
    words = ", ".join(f'"{word}"' for word in loop.split(", "))
    return write(f"{name}.toml", FILE.format(seed=seeded(5), steps=steps, batch=batch, workers=workers, loop=words,
                                             exchange=exchange, optimizer=optimizer, model=model, split=split,
                                             data=data, evaluate=evaluate))


def run(out, **values):
    """Trains and returns the weights by name."""
    troupe("run", file_of(out, **values), "--out", out, "--overwrite")
    return weights(out)


def checkpoints_of(exchange, sgd, **more):
    """The folders by completed steps of a run with a checkpoint after each step, or after nearly each one: a checkpoint is left
    out while another is being written, which happens more often on a busy machine."""
    for slowdown in (40, 160, 640):
        file = pathlib.Path(file_of("steps", exchange=exchange, sgd=sgd, steps=STEPS + 20, **more))
        file.write_text(file.read_text().replace(
            "[workers]", f"[checkpoint]\nevery = 1\nkeep = 100\n[workers]\nslowdown = {slowdown}"))
        troupe("run", file, "--out", "steps", "--overwrite")
        found = {int(folder.name[5:]): folder for folder in pathlib.Path("steps/checkpoints").glob("step-*")}
        if 1 in found and sum(step + 1 in found for step in found) >= STEPS:
            break
    return found


def run_in_order(out, order, **values):
    """As run(), the server taking what the workers send in this order of theirs."""
    program = pathlib.Path(os.environ.get("TROUPE_BUILD", "build"), "tests/forced_order")
    done = subprocess.run([program, file_of(out, **values), out, ",".join(map(str, order))], capture_output=True,
                          text=True, timeout=120, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, f"forced_order: status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return weights(out)


def exported(make=Smooth, attempt=0):
    """Writes a module with seeded weights where the topology files of run() look for it, and returns it."""
    torch.manual_seed(seeded(5) + attempt)
    model = make()
    torch.jit.script(model).save("model.pt")
    return model


def state_of(model):
    return {name: values.clone() for name, values in model.state_dict().items()}


def compare(found, expected, start, what="", **tolerance):
    """assert_equal(), and says how equal."""
    largest = assert_equal(found, expected, start, **tolerance)
    print(f"  {what and what + ': '}largest difference {largest:.1e}")
