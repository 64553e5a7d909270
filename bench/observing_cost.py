#!/usr/bin/env python3
"""What does observing a run cost? At most 1 % of the CPU time of training is allowed for --record, and 2 % for a
dashboard that is open in a browser, metrics that are read every second, and a trace together.

Asynchronous SGD with four workers, of the convnet with batch 64 and of LeNet with batch 4, whose short steps make more
deliveries per second. The CPU time of a gradient varies by several percent from one run to the next, which would hide the
cost. Therefore, only the other threads are compared: prints their CPU time during 15 seconds of training, in percent of that of
the threads that compute gradients, and how much observing adds to it. Runs alternate between unobserved and observed.
    cmake --preset release && cmake --build build && bench/observing_cost.py [repetitions]
"""

import contextlib
import pathlib
import re
import signal
import subprocess
import tempfile
import threading
import time
import urllib.request

from measure import BUILD, TOPOLOGY, cpu_times, other_threads, repetitions, setting, spread

EXCHANGE = '[exchange]\nkind = "parameter_server"\napply = "each"\n'
CASES = {
    "convnet, batch 64": dict(model="convnet", batch=64),
    "LeNet, batch 4": dict(model="lenet", batch=4),
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
    if "--dashboard" not in options:
        yield
        return
    ended, seen = threading.Event(), {"events": 0, "metrics": 0}
    url = next(found[1] for line in run.stderr if (found := re.search(r"dashboard: (http://\S+)", line)))
    for visit in (follow, scrape):
        threading.Thread(target=visit, args=(url, ended, seen), daemon=True).start()
    yield
    ended.set()
    assert min(seen.values()) > 0, seen


def overhead(values, options):
    """Trains for some time; returns the CPU time of threads that do not compute gradients, in percent of that of those that
    do."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "bench.toml")
        file.write_text(TOPOLOGY.format(**values, steps=1_000_000, data='name = "digits"', lr=0.01, workers=4, nodes="",
                                        loop='["gradient", "exchange"]', exchange=EXCHANGE))
        run = subprocess.Popen([BUILD / "troupe", "run", file, "--out", f"{folder}/out", "--quiet", *options],
                               stderr=subprocess.PIPE, text=True)
        with visitors(run, options):
            time.sleep(4)  # until all threads have allocated their memory
            before = cpu_times(run.pid)
            time.sleep(15)
            after = cpu_times(run.pid)
            run.send_signal(signal.SIGINT)
            assert run.wait(60) == 130, run.returncode
    return other_threads(before, after)


setting()
for case, values in CASES.items():
    results = {how: [] for how in OBSERVED}
    for _ in range(repetitions()):
        for how, options in OBSERVED.items():
            results[how].append(overhead(values, options))
    print(f"{case}: the other threads use {{:.2f}} ± {{:.2f}} % unobserved".format(*spread(results["unobserved"])))
    for how in list(OBSERVED)[1:]:
        added = [after - before for before, after in zip(results["unobserved"], results[how])]
        print("  {}: {:+.2f} ± {:.2f} % (median ± MAD of {} pairs)".format(how, *spread(added), len(added)), flush=True)
