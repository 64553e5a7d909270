#!/usr/bin/env python3
"""How stale are the gradients of asynchronous SGD, by the number of workers and the spread of their speeds?

A gradient's staleness is the number of updates between the parameters from which it was computed and those to which it
is applied. In a long run each worker makes one update per cycle, so the mean over all gradients is n - 1, whatever the
speeds: while the gradient of one worker is computed, the others make theirs. The speeds only decide the spread.

    bench/studies/staleness.py
"""

from chart import Axis, Panel, write_chart
from study import Run, arguments, print_table, write_csv

TOPOLOGY = """
[run]
seed = 1
steps = {steps}
budget = "total"
[model]
name = "convnet"
[data]
name = "digits"
batch_size = 16
[workers]
count = {workers}
slowdown = {slowdown}
loop = ["gradient", "exchange"]
[evaluate]
every = "{steps} steps"
[simulate]
gradient = "20ms"
jitter = 0.1
[exchange]
kind = "parameter_server"
apply = "each"
"""


def speeds(workers, spread):
    """Returns factors from 1 to `spread`, evenly spaced on a logarithmic scale."""
    return [round(spread ** (rank / max(workers - 1, 1)), 4) for rank in range(workers)]


def study(workers, spread, steps):
    """Returns the number of gradients with staleness 0, 1, 2, … and the mean."""
    text = TOPOLOGY.format(workers=workers, steps=steps, slowdown=speeds(workers, spread))
    end = Run(text, compute="none").end
    return end["staleness_counts"], end["staleness_mean"], end["staleness_max"]


def percentile(counts, share):
    total, seen = sum(counts), 0
    for staleness, count in enumerate(counts):
        seen += count
        if seen >= share * total:
            return staleness
    return len(counts) - 1


given = arguments(__doc__)
sizes, spreads, steps = ((4,), (1, 4), 20) if given.small else ((2, 4, 8, 16, 32, 64), (1, 2, 4, 16), 400)
shown = sizes[-3] if len(sizes) > 3 else sizes[-1]
shares = Panel(f"{shown} workers", Axis("staleness"), Axis("share of the gradients"))
highest = Panel("95th percentile", Axis("workers", log=True), Axis("staleness", log=True))
rows, table = [], []
for spread in spreads:
    name = "equal speeds" if spread == 1 else f"slowest {spread} × slower"
    highest.series[name] = []
    for workers in sizes:
        counts, mean, most = study(workers, spread, steps)
        highest.series[name].append((workers, percentile(counts, 0.95)))
        if workers == shown:
            shares.series[name] = [(i, count / sum(counts)) for i, count in enumerate(counts) if i <= 3 * workers]
        rows += [{"workers": workers, "spread": spread, "staleness": i, "gradients": count} for i, count in enumerate(counts)]
        table.append([workers, name, f"{mean:.2f}", *(percentile(counts, share) for share in (0.05, 0.5, 0.95)), round(most)])
highest.series["mean of all"] = [(workers, workers - 1) for workers in sizes]
write_csv(given.out / "staleness.csv", rows)
write_chart(given.out / "staleness.svg", [shares, highest])
print_table(["workers", "speeds", "mean", "5th percentile", "median", "95th percentile", "highest"], sorted(table, key=lambda r: r[0]))
