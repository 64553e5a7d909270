#!/usr/bin/env python3
"""What do the wirings of topologies/ come to on the real MNIST? Accuracy, seconds, bytes of each, as docs/results.md.

Each file as it is but for the data and the epochs; ASGD besides with settings under which it has to reach 97 %. Wants
TROUPE_DATA, the folder that holds mnist/.
    cmake --preset release && cmake --build build && bench/catalogue.py [epochs] > docs/results.md
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

from measure import BUILD, ROOT, setting

EPOCHS = int(sys.argv[1]) if len(sys.argv) > 1 else 3
LONG_ASGD = {"data.batch_size": 64, "optimizer.lr": 0.001, "optimizer.momentum": 0.9, "run.epochs": 10}
# File, what is set beside data and epochs, and the accuracy that is promised.
RUNS = [(file.stem, {}, None) for file in sorted((ROOT / "topologies").glob("*.toml"))
        if file.stem != "hogwild_sparse"]  # whose rows are no pictures
RUNS += [("easgd", {"exchange.apply": "each"}, None), ("asgd", LONG_ASGD, 0.97)]


def run(name, settings):
    values = {"data.name": "mnist", "run.epochs": EPOCHS, **settings}
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
    end = run(name, settings)
    told = ", ".join(f"{key.split('.')[1]} = {value}" for key, value in settings.items())
    rows.append(f"| [{name}](../topologies/{name}.toml) | {told} | {end['epoch']} | {100 * end['val_accuracy']:.2f} | "
                f"{end['seconds']:.0f} | {end['bytes_sent'] / 1e6:.0f} | {or_none(end['staleness_mean'], '.2f')} | "
                f"{or_none(end['consensus_distance'], '.3f')} |")
    print(rows[-1], file=sys.stderr, flush=True)
    if promised is not None and end["val_accuracy"] < promised:
        broken.append(f"{name} with {told}: {end['val_accuracy']} instead of {promised}")
print("""# Results

Every wiring of `topologies/` on MNIST: convnet, the settings of its file unless a column says otherwise. Accuracy is
that of the result (the server's or the centre's parameters, else the mean of all workers) on the 10,000 test images,
after the last epoch. Seconds are those of the whole training, evaluations included; bytes are of tensors, as if on the
wire, within one process too. How many updates a gradient lay behind, and how far the workers were apart at the end,
stand where they mean something. One run each: a few tenths of a percent between accuracies mean nothing. Made by
`bench/catalogue.py`; do not edit.

```text""")
sys.stdout.flush()
setting()
print("""```

| file | set besides | epochs | accuracy, % | seconds | MB sent | mean staleness | consensus distance |
|---|---|---|---|---|---|---|---|""")
print("\n".join(rows))
sys.exit("; ".join(broken) or 0)
