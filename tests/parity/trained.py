"""What Troupe makes of the data that plain.write_mnist() leaves in the current folder: the side to compare."""

import os
import pathlib
import subprocess

from plain import MODELS, weights
from troupe_command import troupe, write

BATCH, STEPS = 8, 50
SGD = {"lr": 0.01, "momentum": 0.9, "weight_decay": 0.001}
FILE = """
[run]
seed = 5
steps = {steps}
[model]
name = "lenet"
[data]
name = "mnist"
dir = "."
batch_size = {batch}
shuffle = false
split = "strided"
[optimizer]
{optimizer}
[workers]
count = {workers}
loop = [{loop}]
{exchange}
[evaluate]
every = "1000000 steps"  # no worker gets further ahead than two evaluations
"""
TOGETHER = "gradient, exchange, apply"


def file_of(name, exchange="", loop=TOGETHER, workers=4, batch=BATCH, steps=STEPS, sgd=None):
    """Writes a topology file; `exchange` is the text of its tables, `loop` its words."""
    optimizer = "\n".join(f"{key} = {value}" for key, value in (sgd or SGD).items())
    words = ", ".join(f'"{word}"' for word in loop.split(", "))
    return write(f"{name}.toml", FILE.format(steps=steps, batch=batch, workers=workers, loop=words, exchange=exchange,
                                             optimizer=optimizer))


def run(out, **values):
    """Trains and returns the weights by name."""
    troupe("run", file_of(out, **values), "--out", out)
    return weights(out)


def run_in_order(out, order, **values):
    """As run(), the server taking what the workers send in this order of theirs."""
    program = pathlib.Path(os.environ.get("TROUPE_BUILD", "build"), "tests/forced_order")
    done = subprocess.run([program, file_of(out, **values), out, ",".join(map(str, order))], capture_output=True,
                          text=True, timeout=120, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, f"forced_order: status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return weights(out)


def initial(**values):
    """The model that such a run begins with."""
    model = MODELS["lenet"]()
    model.load_state_dict(run("initial", **{**values, "steps": 0}))
    return model
