#!/usr/bin/env python3
"""What does a single worker cost over the bare LibTorch loop? At most 2 % is allowed.

Convnet, digits, batch 64, one intra-op thread, one worker: runs `troupe run` and bench/bare_loop in turn.
    cmake --preset bench && cmake --build build && bench/overhead.py [repetitions]
"""

import subprocess

from measure import ALONE, BUILD, interleave, repetitions, setting, show, spread, troupe_rate

STEPS, BATCH = 400, 64


def bare(where):
    said = subprocess.run([BUILD / "bench/bare_loop", str(STEPS), str(BATCH), where], capture_output=True, text=True,
                          check=True)
    rate, loss = map(float, said.stdout.split())
    return rate, loss


results = interleave({
    "bare LibTorch loop": lambda: bare("main"),
    "bare LibTorch loop on a thread of its own": lambda: bare("thread"),
    "a worker alone": lambda: troupe_rate(steps=STEPS, batch=BATCH, workers=1, loop=ALONE),
}, repetitions())
setting()
for name, runs in results.items():
    assert all(loss < 2.2 for _, loss in runs), f"{name} did not learn: {runs}"
    show(name, [rate for rate, _ in runs], "samples/s")
*baselines, worker = results
for name in baselines:
    median, deviation = spread([bare_run[0] / run[0] for bare_run, run in zip(results[name], results[worker])])
    print(f"  cost of a worker over the {name}: {100 * (median - 1):+.1f} % ± {100 * deviation:.1f} (median of pairs)")
