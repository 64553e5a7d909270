#!/usr/bin/env python3
"""What does each wiring of topologies/ reach on MNIST? Accuracy, seconds and bytes, for docs/results.md.

Every file of topologies/, with its own settings except for the data and the number of epochs; hogwild_sparse, whose
rows are not images, with its own data too. Besides, ASGD with settings under which it must reach 97 %. TROUPE_DATA names the
folder that holds mnist/.
    cmake --preset release && cmake --build build && bench/catalogue.py [epochs] [FILE …]
Prints that section of the page; with names of files, only the rows of those.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

from measure import BUILD, ROOT, setting

EPOCHS = int(sys.argv[1]) if len(sys.argv) > 1 else 3
ONLY = sys.argv[2:]
OWN_DATA = {"hogwild_sparse"}
LONG_ASGD = {"data.batch_size": 64, "optimizer.lr": 0.001, "optimizer.momentum": 0.9, "run.epochs": 10}
# File, what is set beside data and epochs, and the accuracy that is promised.
RUNS = [(file.stem, {}, None) for file in sorted((ROOT / "topologies").glob("*.toml"))]
RUNS += [("easgd", {"exchange.apply": "each"}, None), ("asgd", LONG_ASGD, 0.97)]


def run(name, settings):
    values = {"run.epochs": EPOCHS, **({} if name in OWN_DATA else {"data.name": "mnist"}), **settings}
    more = [word for key, value in values.items() for word in ("--set", f"{key}={value}")]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([BUILD / "troupe", "run", ROOT / f"topologies/{name}.toml", "--out", f"{folder}/out", "--quiet",
                        *more], check=True)
        return json.loads(pathlib.Path(folder, "out/metrics.jsonl").read_text().splitlines()[-1])


def or_none(value, form):
    return "" if value is None else format(value, form)


if not pathlib.Path(os.environ.get("TROUPE_DATA", "nowhere"), "mnist").is_dir():
    sys.exit("TROUPE_DATA names no folder that holds mnist/; troupe data fetch mnist downloads it")
rows, broken = [], []
for name, settings, promised in RUNS:
    if ONLY and name not in ONLY:
        continue
    end = run(name, settings)
    told = ", ".join(f"{key.split('.')[1]} = {value}" for key, value in settings.items())
    if name in OWN_DATA:
        told = "its own data"
    rows.append(f"| [{name}](../topologies/{name}.toml) | {told} | {end['epoch']} | {100 * end['val_accuracy']:.2f} | "
                f"{end['seconds']:.0f} | {end['bytes_sent'] / 1e6:.0f} | {or_none(end['staleness_mean'], '.2f')} | "
                f"{or_none(end['consensus_distance'], '.3f')} |")
    print(rows[-1], file=sys.stderr, flush=True)
    if promised is not None and end["val_accuracy"] < promised:
        broken.append(f"{name} with {told}: {end['val_accuracy']} instead of {promised}")
if not ONLY:
    print("""## Every wiring on MNIST

Every file of `topologies/`, with convnet on MNIST and the settings of the file, unless a column says otherwise.
`hogwild_sparse` keeps its own model and data. Accuracy is that of the result (the server's or the centre's parameters,
the shared memory, else the mean of all workers) on the 10,000 test images after the last epoch. Seconds include
evaluations. Bytes are those of tensors, as if sent between processes, within one process too. Staleness is the mean
number of updates between the computation of a gradient and its application; consensus distance is how far apart the
workers are at the end. One run each: a few tenths of a percent between accuracies mean nothing. Made by
`bench/catalogue.py`.

```text""")
    sys.stdout.flush()
    setting()
    print("```\n")
print("""| file | also set | epochs | accuracy, % | seconds | MB sent | mean staleness | consensus distance |
|---|---|---|---|---|---|---|---|""")
print("\n".join(rows))
sys.exit("; ".join(broken) or 0)
