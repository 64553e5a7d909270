#!/usr/bin/env python3
"""What does observing a run cost? At most 1 % of the CPU time of training is allowed for --record, and 2 % for a
dashboard that is open in a browser, metrics that are read every second, and a trace together.

Asynchronous SGD with four workers, of the convnet with batch 64 and of LeNet with batch 4, whose short steps make more
deliveries per second: the same run unobserved and observed in turn, each for a number of steps and for three times as
many, so that the start does not count.
    cmake --preset release && cmake --build build && bench/observing_cost.py [repetitions]
"""

import contextlib
import os
import pathlib
import re
import statistics
import subprocess
import tempfile
import threading
import urllib.request

from measure import BUILD, TOPOLOGY, interleave, last_rate, repetitions, setting, spread

EXCHANGE = '[exchange]\nkind = "parameter_server"\napply = "each"\n'
CASES = {
    "convnet, batch 64": dict(model="convnet", batch=64, steps=300),
    "LeNet, batch 4": dict(model="lenet", batch=4, steps=2000),
}


OBSERVED = {
    "unobserved": [],
    "with --record": ["--record"],
    "with --dashboard and --trace": ["--dashboard", "127.0.0.1:0", "--trace"],
}


def follow(url, ended, seen):
    """Reads the dashboard's events as a browser does."""
    with contextlib.suppress(OSError), urllib.request.urlopen(url + "events", timeout=60) as events:
        while not ended.is_set() and (line := events.readline()):
            seen["events"] += line.startswith(b"data:")


def scrape(url, ended, seen):
    """Reads the metrics every second."""
    with contextlib.suppress(OSError):
        while not ended.wait(1):
            with urllib.request.urlopen(url + "metrics", timeout=60) as metrics:
                seen["metrics"] += b"troupe_steps_total" in metrics.read()


@contextlib.contextmanager
def visitors(run, options):
    """Visits the dashboard of a run, if it has one, and demands that it answered."""
    ended, seen = threading.Event(), {"events": 0, "metrics": 0}
    with run.stderr:
        for line in run.stderr:
            if found := re.search(r"dashboard: (http://\S+)", line):
                for visit in (follow, scrape):
                    threading.Thread(target=visit, args=(found[1], ended, seen), daemon=True).start()
                break
        yield
    ended.set()
    assert "--dashboard" not in options or min(seen.values()) > 0, seen


def train(values, steps, options):
    """Trains once; returns seconds of CPU time, and samples per second."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "bench.toml")
        file.write_text(TOPOLOGY.format(**{**values, "steps": steps}, data='name = "digits"', lr=0.01, workers=4, nodes="",
                                        loop='["gradient", "exchange"]', exchange=EXCHANGE))
        run = subprocess.Popen([BUILD / "troupe", "run", file, "--out", f"{folder}/out", "--quiet", *options],
                               stderr=subprocess.PIPE, text=True)
        with visitors(run, options):
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
    results = interleave({how: lambda options=options: per_step(values, options) for how, options in OBSERVED.items()},
                         repetitions())
    print(f"{case}: {statistics.median(cpu for cpu, _ in results['unobserved']):.3f} ms of CPU time per step unobserved")
    for how in list(OBSERVED)[1:]:
        pairs = list(zip(results["unobserved"], results[how]))
        for what, ratios in (("CPU time", [after[0] / before[0] for before, after in pairs]),
                             ("throughput", [after[1] / before[1] for before, after in pairs])):
            median, deviation = spread(ratios)
            print(f"  {how}, {what} against unobserved: {median:.3f} ± {deviation:.3f} (median of {len(ratios)} pairs)")
