#!/usr/bin/env python3
"""How far is `troupe simulate` from a real run on this machine? Four workers that train the convnet on the digits with
batches of 64, in four wirings; one of the workers slowed down; and every worker behind emulated links of 20 and
100 Mbit/s. Each case is run and then simulated with simulate.cores = the cores of this machine, and the gradient measured
here. Prints the medians of predicted / real over the repetitions for the training time, the mean staleness and the share of
the time in which workers waited for exchanges, and what explains the difference. Requires an idle machine: the load is
printed.
    bench/prediction.py [repetitions] [steps]
    bench/prediction.py cost [repetitions] [steps]    CPU time of --trace instead, runs with and without it alternating
"""

import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile

from measure import BUILD, TOPOLOGY, setting

WORDS = [word for word in sys.argv[1:] if word != "cost"]
REPETITIONS = int(WORDS[0]) if WORDS else 5
STEPS = int(WORDS[1]) if len(WORDS) > 1 else 300
TOGETHER, AT_SERVER, BEHIND = '["gradient", "exchange", "apply"]', '["gradient", "exchange"]', (
    '["gradient", "apply", "exchange"]')
WIRINGS = {
    "all_reduce": (TOGETHER, '[exchange]\nkind = "all_reduce"\n'),
    "star": (TOGETHER, '[exchange]\nkind = "star"\n'),
    "dpsgd_ring": (TOGETHER, '[exchange]\nkind = "gossip"\ngraph = "ring"\n'),
    "asgd": (AT_SERVER, '[exchange]\nkind = "parameter_server"\napply = "each"\n'),
}
SETTINGS = {
    "no links": "",
    "one slow worker": "workers.slowdown=[1, 1, 1, 4]",
    "100 Mbit/s": "100Mbit/s",
    "20 Mbit/s": "20Mbit/s",
}


def write_file(folder, wiring, setting_name):
    loop, exchange = WIRINGS[wiring]
    value = SETTINGS[setting_name]
    if value.endswith("bit/s"):
        exchange += f'[[link]]\nat = "*"\nbandwidth = "{value}"\n'
    text = TOPOLOGY.format(model="convnet", data='name = "digits"', lr=0.01, exchange=exchange, nodes="", steps=STEPS,
                           batch=64, workers=4, loop=loop)
    file = pathlib.Path(folder, "bench.toml")
    file.write_text(text)
    return [str(file), *(["--set", value] if "slowdown" in value else [])]


def run(*arguments):
    done = subprocess.run([BUILD / "troupe", *map(str, arguments)], check=True, capture_output=True, text=True)
    return done.stdout


def predict(wiring, setting_name):
    """Runs and simulates once; returns the line of --against."""
    with tempfile.TemporaryDirectory() as folder:
        file = write_file(folder, wiring, setting_name)
        run("run", *file, "--out", f"{folder}/real", "--quiet")
        said = run("simulate", *file, "--set", f"simulate.cores={os.cpu_count()}", "--compute", "none", "--out",
                   f"{folder}/predicted", "--against", f"{folder}/real", "--json")
        return json.loads(said.splitlines()[-1])


def ratio(lines, quantity):
    ratios = [1 + line["quantities"][quantity]["difference"] for line in lines
              if quantity in line["quantities"] and line["quantities"][quantity]["difference"] is not None]
    return f"{statistics.median(ratios):.2f}" if ratios else "-"


def explained(lines, cause):
    shares = [line["seconds"][cause] / line["quantities"]["train_seconds"]["real"] for line in lines]
    return f"{100 * statistics.median(shares):+.0f} %"


def show_predictions():
    print("| wiring | setting | time | staleness | waiting | gradient | samples | rest |\n|---|---|---|---|---|---|---|---|")
    for name in SETTINGS:
        for wiring in WIRINGS:
            lines = [predict(wiring, name) for _ in range(REPETITIONS)]
            print("|", " | ".join([wiring, name, *(ratio(lines, one) for one in (
                "train_seconds", "staleness_mean", "exchange_wait_share")), *(explained(lines, one) for one in (
                    "gradient", "data_wait", "rest"))]), "|", flush=True)


def cpu_seconds(wiring, *options):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        run("run", *write_file(folder, wiring, "no links"), "--out", f"{folder}/out", "--quiet", *options)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def show_cost():
    for wiring in WIRINGS:
        pairs = [(cpu_seconds(wiring), cpu_seconds(wiring, "--trace")) for _ in range(REPETITIONS)]
        without, traced = (statistics.median(each) for each in zip(*pairs))
        relative = statistics.median(b / a for a, b in pairs)
        print(f"{wiring}: CPU time {without:.2f} s, with --trace {traced:.2f} s, ratio {relative:.3f}", flush=True)


setting()
if "cost" in sys.argv[1:]:
    show_cost()
else:
    show_predictions()
