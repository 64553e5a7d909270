"""Functions that the benches share: alternating runs, medians, and the setting that is printed with every number.
Requires only the standard library."""

import contextlib
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parents[1]
BUILD = pathlib.Path(os.environ.get("TROUPE_BUILD", ROOT / "build"))

# By default, trains the convnet on the built-in digits. The only evaluation is the one at the end, which is not timed.
TOPOLOGY = """
[run]
seed = 1
steps = {steps}
[model]
name = "{model}"
[data]
{data}
batch_size = {batch}
[optimizer]
lr = {lr}
momentum = 0.5
[workers]
count = {workers}
loop = {loop}
[evaluate]
every = "{steps} steps"
{exchange}
{nodes}
"""
ALONE = '["gradient", "apply"]'
TOGETHER = '["gradient", "exchange", "apply"]'


def troupe_rate(**values):
    """Trains once; returns samples per second over all workers, without evaluation, and the mean training loss."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "bench.toml")
        file.write_text(TOPOLOGY.format(**{"model": "convnet", "data": 'name = "digits"', "lr": 0.05, "exchange": "",
                                           "nodes": "", **values}))
        subprocess.run([BUILD / "troupe", "run", file, "--out", f"{folder}/out", "--quiet"], check=True)
        return last_rate(f"{folder}/out")


def last_rate(out):
    """Returns samples per second over all workers, without evaluation, and the mean training loss, of the last line of the
    metrics that has both."""
    lines = [json.loads(line) for line in pathlib.Path(out, "metrics.jsonl").read_text().splitlines()]
    rated = [line for line in lines if line["samples_per_second"] and line["train_loss"] is not None]
    assert rated, "no line of the metrics has a rate"
    return rated[-1]["samples_per_second"], rated[-1]["train_loss"]


def cpu_times(pid):
    """Returns nanoseconds of CPU time by thread, and the names of the threads."""
    times = {}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # it has ended
            times[task.name] = ((task / "comm").read_text(), int((task / "schedstat").read_text().split()[0]))
    return times


def other_threads(before, after):
    """Returns the CPU time between two results of cpu_times(), of threads that do not compute gradients, in percent of that of
    those that do. Threads that have ended are not counted."""
    computing = others = 0
    for thread, (name, used) in after.items():
        passed = used - before.get(thread, (name, 0))[1]
        computing += passed if name.startswith("compute") else 0
        others += 0 if name.startswith("compute") else passed
    return 100 * others / computing


def interleave(variants, repetitions):
    """Runs {name: function} in turn, `repetitions` rounds after a warm-up round; returns {name: [result, …]}."""
    results = {name: [] for name in variants}
    for round_number in range(repetitions + 1):
        for name, run in variants.items():
            result = run()
            if round_number:
                results[name].append(result)
            print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return results


def spread(values):
    """Returns median and median absolute deviation."""
    median = statistics.median(values)
    return median, statistics.median(abs(value - median) for value in values)


def show(name, values, unit):
    median, deviation = spread(values)
    print(f"  {name:<44} {median:10.4g} ± {deviation:.2g} {unit} (median ± MAD of {len(values)})")


def setting():
    """Prints date, hardware, versions and command, for every result."""
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    version = subprocess.run([BUILD / "troupe", "--version"], capture_output=True, text=True, check=False).stdout
    print(f"{datetime.date.today()}, {os.cpu_count()} x {cpu}, {platform.system()} {platform.release()}")
    print(f"load {os.getloadavg()[0]:.2f}; {'; '.join(version.split(chr(10))).strip('; ')}")
    print(f"command: {' '.join(sys.argv)}")


def repetitions():
    return int(sys.argv[1]) if len(sys.argv) > 1 else 7
