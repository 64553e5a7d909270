#!/usr/bin/env python3
"""What does each wiring cost? Compares four workers under it with the same four exchanging nothing, in one process and
in four. On two cores, a gossip ring, a synchronous parameter server and ASGD must keep at least 0.90 of the speed, or
0.80 over processes.

Convnet, digits, batch 64 per worker, one intra-op thread each.
    cmake --preset bench && cmake --build build && bench/wirings.py [repetitions]
"""

from measure import ALONE, TOGETHER, interleave, repetitions, setting, show, spread, troupe_rate

STEPS, BATCH, WORKERS = 100, 64, 4
PROCESSES = "\n".join(f'[[node]]\nname = "n{i}"' for i in range(WORKERS))
AT_SERVER, BEHIND = '["gradient", "exchange"]', '["gradient", "apply", "exchange"]'
NOTHING = "exchanging nothing"

# Loop, settings of the exchange, and the shares of the speed that it must keep in one process and over four, or None.
WIRINGS = {
    NOTHING: (ALONE, "", None),
    "all_reduce": (TOGETHER, 'kind = "all_reduce"', (0.90, 0.85)),
    "gossip, ring": (TOGETHER, 'kind = "gossip"\ngraph = "ring"', (0.90, 0.80)),
    "parameter_server, all": (AT_SERVER, 'kind = "parameter_server"\napply = "all"', (0.90, 0.80)),
    "parameter_server, each (ASGD)": (AT_SERVER, 'kind = "parameter_server"\napply = "each"', (0.90, 0.80)),
    "model averaging, every 8": (BEHIND, 'kind = "all_reduce"\nsends = "parameters"\nevery = 8', None),
    "elastic, all, every 4": (TOGETHER, 'kind = "elastic"\napply = "all"\nevery = 4', None),
    "elastic, each, every 4": (TOGETHER, 'kind = "elastic"\napply = "each"\nevery = 4', None),
}
PLACES = {"one process": "", "four processes": PROCESSES}


def run(loop, exchange, nodes):
    exchange = f"[exchange]\n{exchange}" if exchange else ""
    return lambda: troupe_rate(steps=STEPS, batch=BATCH, workers=WORKERS, loop=loop, exchange=exchange, nodes=nodes)


results = interleave({(place, name): run(loop, exchange, nodes) for place, nodes in PLACES.items()
                      for name, (loop, exchange, _) in WIRINGS.items()}, repetitions())
setting()
for (place, name), runs in results.items():
    # The centre of elastic averaging follows the workers slowly; the loss here is that of the workers.
    assert all(loss < 2.25 for _, loss in runs), f"{place}, {name} did not learn: {runs}"
    show(f"{place}, {name}", [rate for rate, _ in runs], "samples/s")
for index, place in enumerate(PLACES):
    alone = [rate for rate, _ in results[place, NOTHING]]
    for name, (_, _, promises) in WIRINGS.items():
        if name == NOTHING:
            continue
        median, deviation = spread([rate / base for (rate, _), base in zip(results[place, name], alone)])
        verdict = "" if promises is None else f" of at least {promises[index]:.2f}"
        print(f"  kept of the speed without exchange, {place}, {name:<30} {median:.3f} ± {deviation:.3f}{verdict}")
