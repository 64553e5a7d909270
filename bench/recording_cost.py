#!/usr/bin/env python3
"""What does --record cost? At most 1 % of the CPU time of training is allowed.

Asynchronous SGD with four workers, of the convnet with batch 64 and of LeNet with batch 4, whose short steps make more
deliveries per second: the same run with and without --record in turn, each for a number of steps and for three times as
many, so that the start does not count.
    cmake --preset release && cmake --build build && bench/recording_cost.py [repetitions]
"""

import os
import pathlib
import statistics
import subprocess
import tempfile

from measure import BUILD, TOPOLOGY, interleave, last_rate, repetitions, setting, spread

EXCHANGE = '[exchange]\nkind = "parameter_server"\napply = "each"\n'
CASES = {
    "convnet, batch 64": dict(model="convnet", batch=64, steps=300),
    "LeNet, batch 4": dict(model="lenet", batch=4, steps=2000),
}


def train(values, steps, options):
    """Trains once; returns seconds of CPU time, and samples per second."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "bench.toml")
        file.write_text(TOPOLOGY.format(**{**values, "steps": steps}, data='name = "digits"', lr=0.01, workers=4, nodes="",
                                        loop='["gradient", "exchange"]', exchange=EXCHANGE))
        run = subprocess.Popen([BUILD / "troupe", "run", file, "--out", f"{folder}/out", "--quiet", *options])
        _, status, usage = os.wait4(run.pid, 0)
        assert status == 0, status
        return usage.ru_utime + usage.ru_stime, last_rate(f"{folder}/out")[0]


def per_step(values, options):
    """Returns milliseconds of CPU time per step of all workers, and samples per second."""
    steps = values["steps"]
    (short, _), (long, rate) = train(values, steps, options), train(values, 3 * steps, options)
    return 1000 * (long - short) / (2 * steps), rate


setting()
for case, values in CASES.items():
    results = interleave({"without": lambda: per_step(values, []), "with": lambda: per_step(values, ["--record"])},
                         repetitions())
    pairs = list(zip(results["without"], results["with"]))
    print(f"{case}: {statistics.median(cpu for cpu, _ in results['without']):.3f} ms of CPU time per step without")
    for what, ratios in (("CPU time, with / without", [after[0] / before[0] for before, after in pairs]),
                         ("throughput, with / without", [after[1] / before[1] for before, after in pairs])):
        median, deviation = spread(ratios)
        print(f"  {what}: {median:.3f} ± {deviation:.3f} (median of {len(ratios)} pairs)")
