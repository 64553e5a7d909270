#!/usr/bin/env python3
"""How fast do gossiping workers agree, and does the spectral gap of the graph predict it?

Workers move apart in one step of SGD on different samples. The learning rate is zero from then on, so that every
further step only mixes parameters. Theory: the consensus distance shrinks by |λ₂| in each round in the long run, where
1 - |λ₂| is the spectral gap of the mixing matrix (Xiao, Boyd 2004, "Fast linear iterations for distributed averaging").

    bench/studies/consensus.py
"""

from math import isqrt, log

from chart import Axis, Panel, write_chart
from study import Run, arguments, planned, print_table, write_csv

TOPOLOGY = """
[run]
seed = 1
steps = {steps}
[model]
name = "mlp"
layers = 1
width = 2
[data]
name = "digits"
split = "all"
batch_size = 1
[optimizer]
lr = 0.5
schedule = "step"
decay_epochs = [{once}]
decay_factor = 0
[workers]
count = {peers}
loop = ["gradient", "exchange", "apply"]
[evaluate]
every = "1 step"
[simulate]
gradient = "1ms"
[exchange]
kind = "gossip"
graph = "{graph}"
"""
GRAPHS = ("ring", "torus", "exponential")


def topology(graph, peers, steps, epoch):
    text = TOPOLOGY.format(graph=graph, peers=peers, steps=steps, once=1 / epoch)
    side = isqrt(peers)
    return text + (f"rows = {side}\ncolumns = {peers // side}\n" if graph == "torus" else "")


def rounds_to(distances, share):
    """Returns the first round after which the distance is at most `share` of the first one, or None."""
    return next((i for i, distance in enumerate(distances) if distance <= share * distances[0]), None)


def study(graph, peers, steps):
    """Returns the consensus distance after each round of mixing, and the spectral gap."""
    epoch = planned(topology(graph, peers, 2, 2))["steps_per_epoch"]
    text = topology(graph, peers, steps + 1, epoch)
    lines = [line for line in Run(text).lines if line["event"] in ("evaluation", "epoch")]
    distances = {line["step"]: line["consensus_distance"] for line in lines}
    return [distances[step] for step in sorted(distances)], planned(text)["exchanges"][0]["spectral_gap"]


given = arguments(__doc__)
sizes, steps = ((16,), 5) if given.small else ((16, 64, 256, 1024), 120)
panels, rows, table = [], [], []
for peers in sizes:
    panel = Panel(f"{peers} peers", Axis("rounds of mixing"), Axis("consensus distance, first = 1", log=True, low=1e-6))
    for graph in GRAPHS:
        distances, gap = study(graph, peers, steps)
        shares = [distance / distances[0] for distance in distances]
        panel.series[graph] = [(i, share) for i, share in enumerate(shares) if share > 1e-6]
        panel.series[f"theory {graph}"] = [(i, (1 - gap)**i) for i in range(len(shares)) if (1 - gap)**i > 1e-6]
        rows += [{"graph": graph, "peers": peers, "round": i, "distance": distance, "bound": distances[0] * (1 - gap)**i}
                 for i, distance in enumerate(distances)]
        reached = rounds_to(distances, 0.01)
        predicted = log(0.01) / log(1 - gap) if 0 < gap < 1 else 1
        table.append([graph, peers, f"{gap:.4g}", f"{predicted:.0f}", reached if reached is not None else f"over {steps}"])
    panels.append(panel)
write_csv(given.out / "consensus.csv", rows)
write_chart(given.out / "consensus.svg", panels)
print_table(["graph", "peers", "spectral gap", "rounds to 1 %, by the gap alone", "rounds to 1 %, simulated"], table)
