"""What the tests of the Python package share: the package, a module with its samples, and Python as a child process."""

import contextlib
import importlib.util
import os
import pathlib
import subprocess
import sys
import time
import warnings

from troupe_command import BINARY, SOURCE, TINY, skip

if importlib.util.find_spec("torch") is None:
    skip("PyTorch is not installed in this Python")

os.environ.update(TROUPE_BINARY=os.path.abspath(BINARY), OMP_NUM_THREADS="1")
sys.path.insert(0, str(SOURCE / "python"))
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(SOURCE / "python")}
warnings.simplefilter("error", UserWarning)  # a warning that nobody expects

LONG = TINY.replace("steps = 20", "epochs = 100000") + "\n[evaluate]\nevery = \"50 steps\"\n"

# What a script of a user begins with: a module, and samples of three classes.
SETUP = """
import torch, troupe_train as tt
from torch import nn
torch.manual_seed(3)
x = torch.randn(400, 2)
y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
net = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 3))
"""


def setup():
    """Returns net, x and y of SETUP."""
    names = {}
    exec(SETUP, names)
    return names["net"], names["x"], names["y"]


def python(text, **options):
    """Starts Python with a script, in an environment in which it finds the package."""
    return subprocess.Popen([sys.executable, "-c", "import troupe_train as tt\n" + text], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, env=ENVIRONMENT, **options)


@contextlib.contextmanager
def command(script):
    """Replaces the command by a shell script, as long as the block lasts."""
    path = pathlib.Path("command")
    path.write_text(script if script.startswith("#!") or not script else "#!/bin/sh\n" + script)
    path.chmod(0o755)
    before, os.environ["TROUPE_BINARY"] = os.environ["TROUPE_BINARY"], str(path.absolute())
    try:
        yield
    finally:
        os.environ["TROUPE_BINARY"] = before


def wait_for(what, seconds=30):
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it has not come"
        time.sleep(0.02)


def trains(folder):
    """Whether a run has evaluated at least once."""
    path = pathlib.Path(folder, "metrics.jsonl")
    return path.is_file() and '"event":"evaluation"' in path.read_text()


def processes_of(folder):
    """Returns the processes whose command line names a results folder."""
    found = []
    for each in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = each.read_bytes().split(b"\0")
        except OSError:
            continue
        if os.path.abspath(folder).encode() in words:
            found.append(int(each.parent.name))
    return found


def raises(kind, function):
    """Calls the function and returns the error that it must raise."""
    try:
        function()
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was not raised")
