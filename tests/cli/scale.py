"""Thousands of workers: they are planned, checked, drawn and simulated in seconds, in a few kilobytes of memory each, and
refused where each would need a thread."""

import os
import pathlib
import subprocess

from troupe_command import BINARY, main, metrics, troupe, write

# Gossip of logistic regressions with 100 parameters.
SMALL = """
[run]
seed = 1
steps = 10
[model]
name = "logistic"
[data]
name = "sparse"
rows = 20000
columns = 99
nonzeros = 5
batch_size = 1
[optimizer]
lr = 0.5
[evaluate]
every = "10 steps"
[workers]
count = 2000
loop = ["gradient", "exchange", "apply"]
[exchange]
kind = "gossip"
graph = "GRAPH"
[simulate]
gradient = "10ms"
"""
GRAPHS = ["ring", "exponential", 'torus"\nrows = 40\ncolumns = 50 #']


def peak_kilobytes(*arguments):
    """Runs the command and returns the most memory that it had."""
    with subprocess.Popen([BINARY, *map(str, arguments)]) as run:
        _, status, usage = os.wait4(run.pid, 0)
        run.returncode = os.waitstatus_to_exitcode(status)
    assert run.returncode == 0, arguments
    return usage.ru_maxrss


def test_thousands_of_workers_take_kilobytes_each():
    for graph, most in {"ring": 50, "exponential": 80}.items():
        file = write("many.toml", SMALL.replace("GRAPH", graph))
        for compute in "none", "real":
            few = peak_kilobytes("simulate", file, "--set", "workers.count=20", "--compute", compute, "--quiet", "--overwrite",
                                 "--out", "few")
            many = peak_kilobytes("simulate", file, "--compute", compute, "--quiet", "--out", f"{graph}_{compute}")
            each = (many - few) / 2000
            print(f"  {graph}, compute {compute}: {each:.1f} kB for each worker")
            assert each < most, (graph, compute, each)
        assert metrics(f"{graph}_real")[-1]["step"] == 10


def test_a_plan_of_many_workers_is_short():
    for graph in GRAPHS:
        file = write("many.toml", SMALL.replace("GRAPH", graph))
        plan = troupe("check", file, timeout=60).stdout
        assert len(plan) < 4000 and "spectral gap of W" in plan, plan
        troupe("graph", file, "-o", "many.svg", timeout=60)
        assert pathlib.Path("many.svg").stat().st_size < 50_000, graph


def test_a_process_has_no_thread_for_each_of_many_workers():
    file = write("many.toml", SMALL.replace("GRAPH", "ring"))
    refused = troupe("run", file, "--set", "workers.count=5000", status=2).stderr
    assert "workers.count = 5000 needs a thread for each worker" in refused and "troupe simulate" in refused, refused


main(globals())
