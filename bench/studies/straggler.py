#!/usr/bin/env python3
"""What does one slow worker cost under every wiring?

Eight workers with a gradient of 20 ms and a network of 1 Gbit/s, of which one is 1 to 16 times slower; only times are
simulated. The throughput is that of all workers together, compared with the same wiring without a slow worker. If the
others never waited, it would be (7 + 1/s) / 8.

    bench/studies/straggler.py
"""

from chart import Axis, Panel, write_chart
from study import Run, arguments, print_table, write_csv

BATCH = 16
TOPOLOGY = """
[run]
seed = 1
steps = {steps}
{run}
[model]
name = "convnet"
[data]
name = "digits"
batch_size = {batch}
[workers]
count = {workers}
slowdown = {slowdown}
loop = {loop}
[evaluate]
every = "{steps} steps"
[simulate]
gradient = "20ms"
[[link]]
at = "*"
bandwidth = "1Gbit/s"
latency = "0.1ms"
[exchange]
{exchange}
"""
TOGETHER, SERVED = '["gradient", "exchange", "apply"]', '["gradient", "exchange"]'
TOTAL = 'budget = "total"'
WIRINGS = {
    "all-reduce": ("", TOGETHER, 'kind = "all_reduce"'),
    "D-PSGD, ring": ("", TOGETHER, 'kind = "gossip"\ngraph = "ring"'),
    "model averaging, 8 steps": ("", '["gradient", "apply", "exchange"]', 'kind = "all_reduce"\nsends = "parameters"\nevery = 8'),
    "EASGD, 4 steps": ("", TOGETHER, 'kind = "elastic"\nevery = 4'),
    "server, first 7 of 8": ("", SERVED, 'kind = "parameter_server"\napply = "first"\nfirst = {all_but_one}'),
    "server, 4 steps ahead": ("", SERVED, 'kind = "parameter_server"\napply = "each"\nstaleness_bound = 4'),
    "asynchronous EASGD": (TOTAL, TOGETHER, 'kind = "elastic"\napply = "each"\nevery = 4'),
    "asynchronous SGD": (TOTAL, SERVED, 'kind = "parameter_server"\napply = "each"'),
}


def rate(wiring, factor, workers, steps):
    """Returns the number of gradients applied per second."""
    run, loop, exchange = WIRINGS[wiring]
    text = TOPOLOGY.format(run=run, loop=loop, exchange=exchange.format(all_but_one=workers - 1), workers=workers, batch=BATCH, steps=steps,
                           slowdown=[1] * (workers - 1) + [factor])
    done = Run(text, compute="none")
    refused = done.end["gradients_refused"] or 0
    return (sum(int(row["samples"]) for row in done.workers) / BATCH - refused) / done.end["train_seconds"]


given = arguments(__doc__)
workers, steps, factors = (4, 16, (1, 4)) if given.small else (8, 400, (1, 1.5, 2, 3, 4, 6, 8, 12, 16))
panel = Panel("Throughput with one slow worker", Axis("times slower", low=1), Axis("throughput, without it = 1"))
rows, table = [], []
for wiring in WIRINGS:
    rates = [rate(wiring, factor, workers, steps) for factor in factors]
    shares = [each / rates[0] for each in rates]
    panel.series[wiring] = list(zip(factors, shares))
    rows += [{"wiring": wiring, "factor": factor, "gradients_per_second": each, "share": share}
             for factor, each, share in zip(factors, rates, shares)]
    table.append([wiring, f"{rates[0]:.0f}", *(f"{share:.2f}" for factor, share in zip(factors, shares) if factor in (2, 4, 16))])
panel.series["no worker waits"] = [(factor, (workers - 1 + 1 / factor) / workers) for factor in factors]
table.append(["no worker waits", "", *(f"{share:.2f}" for factor, share in panel.series["no worker waits"] if factor in (2, 4, 16))])
write_csv(given.out / "straggler.csv", rows)
write_chart(given.out / "straggler.svg", [panel])
print_table(["wiring", "gradients per second", *(f"{factor} × slower" for factor in factors if factor in (2, 4, 16))], table)
