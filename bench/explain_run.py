"""How well `troupe explain-run` predicts: runs that are slow for a known reason, the cause that it names, and the gain
that it predicts for its first suggestion against the gain of a run with it.

    python3 bench/explain_run.py [REPEATS]

Needs MNIST in TROUPE_DATA, an idle machine, and two cores for the two workers. REPEATS (5) runs without and with the
suggestion take turns. The predicted gain is the median of the predictions from the runs without it, and the measured gain
is the median over the pairs, both for the same number of samples."""

import csv
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from measure import BUILD


FILE = """
[run]
seed = 1
steps = 300
[model]
name = "convnet"
[data]
name = "mnist"
batch_size = 32
[optimizer]
lr = 0.02
[workers]
count = 2
loop = ["gradient", "exchange", "apply"]
[exchange]
kind = "all_reduce"
"""
LINK = '[[link]]\nat = "*"\nbandwidth = "50Mbit/s"\nlatency = "2ms"\n'
AUGMENT = '[augment]\nrotation = 30\nshear = 10\nscale = [0.8, 1.2]\ncrop_padding = 4\n'
CASES = {  # the file, settings, how many busy loops run beside the run, and the cause
    "slow worker": (FILE, ["workers.slowdown=[1, 3]"], 0, "slow_worker"),
    "slow link": (FILE + LINK, [], 0, "exchanges"),
    "contended CPU": (FILE, [], 3, "cores"),
    "slow data": (FILE.replace("convnet", "mlp") + AUGMENT,
                  ["data.threads=0", "data.batch_size=64", "workers.count=1"], 0, "data"),
    "data on busy cores": (FILE.replace("convnet", "mlp") + AUGMENT,
                           ["data.threads=1", "data.batch_size=64"], 0, "data"),
    "evaluation in the way": (FILE + "[evaluate]\nevery = 50\npause_training = true\n", [], 0, "evaluation"),
}


def command(*words):
    return subprocess.run([BUILD / "troupe", *map(str, words)], check=True, capture_output=True, text=True).stdout


def options(settings):
    return [word for setting in settings for word in ("--set", setting)]


def timed(file, settings, out):
    """Returns the seconds of a run for each sample."""
    command("run", file, "--out", out, "--overwrite", "--quiet", *options(settings))
    end = json.loads(pathlib.Path(out, "metrics.jsonl").read_text().splitlines()[-1])
    with open(pathlib.Path(out, "workers.csv"), newline="") as rows:
        return end["seconds"] / sum(int(row["samples"]) for row in csv.DictReader(rows))


def examine(name, text, settings, busy, cause, repeats):
    file = f"{name.replace(' ', '_')}.toml"
    pathlib.Path(file).write_text(text)
    causes = []
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(busy)]
    try:
        pairs, predicted, tried = [], [], None
        for _ in range(repeats):
            before = timed(file, settings, "before")
            found = json.loads(command("explain-run", "before", "--json"))
            tried = tried or (found["suggestions"][0]["set"] if found["suggestions"] else None)
            predicted += [1 - each["seconds"] / found["seconds"] for each in found["suggestions"] if each["set"] == tried]
            causes.append(found["cause"])
            if tried:
                pairs.append(1 - timed(file, settings + tried, "after") / before)
        named = statistics.mode(causes)
        line = f"{name:22} {str(named):12} {'ok' if named == cause else 'expected ' + cause}"
        if tried:
            line += (f"  {' '.join(tried)}: predicted gain {statistics.median(predicted):.1%}, "
                     f"measured {statistics.median(pairs):.1%}")
        print(line, flush=True)
    finally:
        for loop in loops:
            loop.kill()


def main():
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name, (text, settings, busy, cause) in CASES.items():
            examine(name, text, settings, busy, cause, repeats)


if __name__ == "__main__":
    main()
