#!/usr/bin/env python3
"""What does a single worker cost over the bare LibTorch loop? At most 1 % of CPU time is allowed.

Convnet, digits, batch 64, one intra-op thread, one worker: runs `troupe run` and bench/bare_loop in turn, each for a
number of steps and for three times as many, so that the CPU time of the start does not count. The loop is timed with
troupe's allocator, on the main thread and on another one, and as it would be linked by default, with that of glibc.
    cmake --preset bench && cmake --build build && bench/overhead.py [repetitions]
"""

import os
import pathlib
import subprocess
import tempfile

from measure import ALONE, BUILD, TOPOLOGY, interleave, last_rate, repetitions, setting, show, spread

STEPS, BATCH = 400, 64


def used(command, **options):
    """Runs a command; returns its seconds of CPU time and its output."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options) as run:
        said = run.stdout.read()
        _, status, usage = os.wait4(run.pid, 0)
        run.returncode = status
    assert status == 0, command
    return usage.ru_utime + usage.ru_stime, said


def bare(program, where, steps):
    """Returns seconds of CPU time, samples per second and the mean training loss."""
    cpu, said = used([BUILD / "bench" / program, str(steps), str(BATCH), where])
    return cpu, *map(float, said.split())


def worker(steps):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "bench.toml")
        file.write_text(TOPOLOGY.format(model="convnet", data='name = "digits"', lr=0.05, exchange="", nodes="", steps=steps,
                                        batch=BATCH, workers=1, loop=ALONE))
        cpu, _ = used([BUILD / "troupe", "run", file, "--out", f"{folder}/out", "--quiet"])
        return cpu, *last_rate(f"{folder}/out")


def per_step(run):
    """Returns milliseconds of CPU time per step, samples per second and the mean training loss."""
    short, long = run(STEPS), run(3 * STEPS)
    return 1000 * (long[0] - short[0]) / (2 * STEPS), long[1], long[2]


results = interleave({
    "bare LibTorch loop": lambda: per_step(lambda steps: bare("bare_loop_jemalloc", "main", steps)),
    "bare LibTorch loop on another thread": lambda: per_step(lambda steps: bare("bare_loop_jemalloc", "thread", steps)),
    "bare LibTorch loop with glibc": lambda: per_step(lambda steps: bare("bare_loop", "main", steps)),
    "a worker alone": lambda: per_step(worker),
}, repetitions())
setting()
for name, runs in results.items():
    assert all(loss < 2.2 for *_, loss in runs), f"{name} did not learn: {runs}"
    show(name, [cpu for cpu, *_ in runs], "ms of CPU time per step")
    show("", [rate for _, rate, _ in runs], "samples/s")
*baselines, worker_alone = results
for name in baselines:
    pairs = list(zip(results[name], results[worker_alone]))
    for what, ratios in (("CPU time", [ours[0] / bare_run[0] for bare_run, ours in pairs]),
                         ("time by the clock", [bare_run[1] / ours[1] for bare_run, ours in pairs])):
        median, deviation = spread(ratios)
        print(f"  a worker over the {name}, {what}: {100 * (median - 1):+.1f} % ± {100 * deviation:.1f} (median of pairs)")
