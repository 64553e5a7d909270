#!/usr/bin/env python3
"""On which networks does decentralised SGD beat all-reduce, and when does a central server become the bottleneck?

Sixteen workers, a model of 0.5 MB, a gradient of 20 ms; only times are simulated. The first figure varies the bandwidth
of every worker and server at a latency of 0.1 ms, the second the latency at 1 Gbit/s. Lian et al. 2017, figure 2, made
the same comparison with real networks and more parameters.

    bench/studies/networks.py
"""

from chart import Axis, Panel, write_chart
from study import Run, arguments, planned, print_table, write_csv

TOPOLOGY = """
[run]
seed = 1
steps = {steps}
[model]
name = "lenet"
[data]
name = "digits"
batch_size = 16
[workers]
count = {workers}
loop = {loop}
[evaluate]
every = "{steps} steps"
[simulate]
gradient = "20ms"
jitter = 0
[[link]]
at = "*"
bandwidth = "{bandwidth}Mbit/s"
latency = "{latency}us"
[exchange]
{exchange}
"""
TOGETHER, SERVED = '["gradient", "exchange", "apply"]', '["gradient", "exchange"]'
WIRINGS = {
    "D-PSGD, ring": (TOGETHER, 'kind = "gossip"\ngraph = "ring"'),
    "D-PSGD, exponential": (TOGETHER, 'kind = "gossip"\ngraph = "exponential"'),
    "all-reduce, direct": (TOGETHER, 'kind = "all_reduce"\nroute = "direct"'),
    "all-reduce, ring": (TOGETHER, 'kind = "all_reduce"\nroute = "ring"'),
    "parameter server": (SERVED, 'kind = "parameter_server"\napply = "all"'),
    "4 parameter servers": (SERVED, 'kind = "parameter_server"\napply = "all"\nshards = 4'),
}


def topology(wiring, bandwidth, latency, workers, steps):
    loop, exchange = WIRINGS[wiring]
    return TOPOLOGY.format(loop=loop, exchange=exchange, bandwidth=bandwidth, latency=latency, workers=workers, steps=steps)


given = arguments(__doc__)
workers, steps = (4, 2) if given.small else (16, 20)
bandwidths = (10, 10_000) if given.small else (10, 30, 100, 300, 1_000, 3_000, 10_000)
latencies = (100_000,) if given.small else (0, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
rows = []
by_bandwidth = Panel("latency 0.1 ms", Axis("bandwidth of each interface, Mbit/s", log=True), Axis("ms per step", log=True))
by_latency = Panel("bandwidth 1 Gbit/s", Axis("latency, ms (0 is drawn at 0.05)", log=True), Axis("ms per step", log=True))
found = {}


def milliseconds(wiring, bandwidth, latency):
    """Returns the time of a step; cached, because both figures share some."""
    key = wiring, bandwidth, latency
    if key not in found:
        end = Run(topology(wiring, bandwidth, latency, workers, steps), compute="none").end
        found[key] = 1000 * end["train_seconds"] / steps
        rows.append({"wiring": wiring, "mbit_per_second": bandwidth, "latency_ms": latency / 1000, "ms_per_step": found[key]})
    return found[key]


for wiring in WIRINGS:
    by_bandwidth.series[wiring] = [(each, milliseconds(wiring, each, 100)) for each in bandwidths]
    by_latency.series[wiring] = [(max(each, 50) / 1000, milliseconds(wiring, 1_000, each)) for each in latencies]
write_csv(given.out / "networks.csv", rows)
write_chart(given.out / "networks.svg", [by_bandwidth, by_latency])
table = []
for wiring in WIRINGS:
    plan = planned(topology(wiring, 1_000, 100, workers, steps))
    table.append([wiring, f"{plan['bytes_per_step'] / workers / 1e6:.2f} MB",
                  *(f"{found[wiring, each, 100]:.4g}" for each in (bandwidths[0], bandwidths[-1])),
                  f"{found[wiring, 1_000, latencies[-1]]:.4g}"])
print_table(["wiring", "sent per worker and step", f"ms at {bandwidths[0]} Mbit/s", f"ms at {bandwidths[-1]:,} Mbit/s",
             f"ms at {latencies[-1] / 1000:g} ms latency"], table)
