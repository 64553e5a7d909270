#!/usr/bin/env python3
"""How long does a step take in another build of the command, where workers occupy every core and messages cross between
nodes? Two nodes with two workers and one core each, which train the convnet with all-reduce, and the same four workers in one
process. Runs alternate. See docs/decisions/0016-short-slices.md.
    bench/crowded_nodes.py OTHER_COMMAND [repetitions]
"""

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

from measure import BUILD, ROOT, TOGETHER, TOPOLOGY, interleave, setting, show, spread

sys.path.insert(0, str(ROOT / "tests/support"))
from nodes import free_ports, node_tables

STEPS = 300
NAMES = ["alpha", "beta"]
CASES = {"all_reduce": True, "all_reduce in one process": False, "star in one process": False}


def train(command, case, on_nodes):
    """Returns milliseconds per step: the median over the epochs, because the first one allocates memory."""
    nodes = "[security]\ninsecure = true\n" + node_tables([2, 2], free_ports(2)) if on_nodes else ""
    text = TOPOLOGY.format(model="convnet", data='name = "digits"', batch=64, lr=0.01, workers=4, loop=TOGETHER, steps=STEPS,
                           exchange=f'[exchange]\nkind = "{case.split()[0]}"\n', nodes=nodes)
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "bench.toml")
        file.write_text(text.replace("count = 4\n", "") if on_nodes else text)
        results = ["--out", f"{folder}/out", "--quiet"]
        if on_nodes:
            alpha, beta = (["taskset", "--cpu-list", str(core), command, "node", file, "--name", name]
                           for core, name in enumerate(NAMES))
            with subprocess.Popen(beta, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as other:
                subprocess.run([*alpha, *results], check=True, stderr=subprocess.DEVNULL)
            assert other.returncode == 0, other.returncode
        else:
            subprocess.run([command, "run", file, *results], check=True)
        lines = [json.loads(line) for line in pathlib.Path(folder, "out/metrics.jsonl").read_text().splitlines()]
    steps_per_epoch = next(line["step"] for line in lines if line["event"] == "epoch")
    return 1000 * statistics.median(line["epoch_seconds"] for line in lines if line["event"] == "epoch") / steps_per_epoch


other, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 7
setting()
for case, on_nodes in CASES.items():
    results = interleave({"other": lambda: train(other, case, on_nodes),
                          "this": lambda: train(BUILD / "troupe", case, on_nodes)}, rounds)
    print(case + (" over two nodes with one core each" if on_nodes else ""))
    for build, values in results.items():
        show(build, values, "ms per step")
    print("  time, this / other: {:.2f} ± {:.2f}".format(
        *spread([this / before for before, this in zip(results["other"], results["this"])])), flush=True)
