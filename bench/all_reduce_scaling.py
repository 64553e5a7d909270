#!/usr/bin/env python3
"""What does exchanging gradients cost? On two cores, four workers under all_reduce must keep at least 0.90 of their
speed without an exchange, or 0.85 if each is a separate process.

Convnet, digits, batch 64 per worker, one intra-op thread each.
    cmake --preset release && cmake --build build && bench/all_reduce_scaling.py [repetitions]
"""

from measure import ALONE, TOGETHER, interleave, repetitions, setting, show, spread, troupe_rate

STEPS, BATCH, WORKERS = 100, 64, 4


PROCESSES = "\n".join(f'[[node]]\nname = "n{i}"' for i in range(WORKERS))


def run(loop, exchange="", nodes=""):
    return lambda: troupe_rate(steps=STEPS, batch=BATCH, workers=WORKERS, loop=loop, exchange=exchange, nodes=nodes)


results = interleave({
    "exchanging nothing": run(ALONE),
    "all_reduce": run(TOGETHER, '[exchange]\nkind = "all_reduce"'),
    "all_reduce, route ring": run(TOGETHER, '[exchange]\nkind = "all_reduce"\nroute = "ring"'),
    "star, whole": run(TOGETHER, '[exchange]\nkind = "star"\nsend = "whole"'),
    "star, by parameter": run(TOGETHER, '[exchange]\nkind = "star"\nsend = "parameter"'),
    "four processes exchanging nothing": run(ALONE, nodes=PROCESSES),
    "four processes, all_reduce": run(TOGETHER, '[exchange]\nkind = "all_reduce"', PROCESSES),
}, repetitions())
setting()
alone = {name: [rate for rate, _ in results[f"{name}exchanging nothing"]] for name in ("", "four processes ")}
for name, runs in results.items():
    assert all(loss < 2.2 for _, loss in runs), f"{name} did not learn: {runs}"
    show(name, [rate for rate, _ in runs], "samples/s")
for name, runs in results.items():
    baseline = alone["four processes " if name.startswith("four") else ""]
    median, deviation = spread([rate / base for (rate, _), base in zip(runs, baseline)])
    print(f"  kept of the speed without exchange, {name:<26} {median:.3f} ± {deviation:.3f}")
