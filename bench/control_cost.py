#!/usr/bin/env python3
"""What does it cost that control messages travel over CAF (transport.control = "caf") rather than in frames?

Compares in pairs: the time from the start of `troupe run` with four nodes to the first line of the first step, the time from
a signal to the end, and the CPU time of training with two nodes.
    cmake --preset release && cmake --build build && bench/control_cost.py [pairs]
"""

import pathlib
import resource
import statistics
import subprocess
import tempfile
import time

from measure import BUILD, ROOT, repetitions, setting

NODES = """
[run]
epochs = 50
[model]
name = "mlp"
[data]
name = "digits"
[optimizer]
lr = 0.1
[[exchange]]
kind = "all_reduce"
""" + "".join(f'[[node]]\nname = "{name}"\naddress = "127.0.0.1:0"\nworkers = 1\n' for name in "abcd")


def start_and_end(carrier, folder):
    file = pathlib.Path(folder, "four.toml")
    file.write_text(NODES)
    begin = time.monotonic()
    with subprocess.Popen([BUILD / "troupe", "run", file, "--out", f"{folder}/four", "--overwrite", "--json", "--set",
                           f"transport.control={carrier}"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as run:
        run.stdout.readline()
        started = time.monotonic() - begin
        run.terminate()
        begin = time.monotonic()
        run.wait(20)
    return started, time.monotonic() - begin


def cpu_time(carrier, folder):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([BUILD / "troupe", "run", ROOT / "topologies/two_nodes.toml", "--out", f"{folder}/two", "--overwrite",
                    "--quiet", "--set", "run.epochs=4", "--set", f"transport.control={carrier}"], check=True,
                   capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def compare(what, pairs):
    ratios = [caf / frames for caf, frames in pairs]
    low, _, high = statistics.quantiles(ratios, n=4)
    print(f"  {what}: caf {statistics.median(caf for caf, _ in pairs):.3f} s, "
          f"frames {statistics.median(frames for _, frames in pairs):.3f} s, "
          f"ratio {statistics.median(ratios):.3f} (quartiles {low:.3f} and {high:.3f}, {len(pairs)} pairs)", flush=True)


setting()
with tempfile.TemporaryDirectory() as where:
    starts, ends, trained = [], [], []
    for number in range(repetitions()):
        both = {}
        for carried in ("caf", "frames")[::1 if number % 2 else -1]:
            both[carried] = (*start_and_end(carried, where), cpu_time(carried, where))
        for kept, index in ((starts, 0), (ends, 1), (trained, 2)):
            kept.append((both["caf"][index], both["frames"][index]))
compare("first step of four nodes", starts)
compare("from SIGTERM to the end", ends)
compare("CPU time of training with two nodes", trained)
