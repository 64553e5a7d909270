#!/usr/bin/env python3
"""How many local steps between two averages cost how much accuracy, and how many bytes do they save?

Eight workers train the convnet on the digits by model averaging (local SGD), with all workers' samples alike, and with
two classes or so for each worker. Every run takes the same number of steps; medians of the seeds.

    bench/studies/local_steps.py
"""

from statistics import median

from chart import Axis, Panel, write_chart
from study import Run, arguments, print_table, write_csv

TOPOLOGY = """
[run]
seed = {seed}
steps = {steps}
[model]
name = "convnet"
[data]
name = "digits"
batch_size = 8
{split}
[optimizer]
lr = 0.05
momentum = 0.5
[workers]
count = {workers}
loop = ["gradient", "apply", "exchange"]
[evaluate]
every = "{steps} steps"
[simulate]
gradient = "5ms"
[exchange]
kind = "all_reduce"
sends = "parameters"
every = {every}
"""
SPLITS = {"same mixture of classes": 'split = "strided"', "few classes each": 'split = "dirichlet"\nalpha = 0.1'}

given = arguments(__doc__)
workers, steps = (2, 8) if given.small else (8, 256)
intervals, seeds = ((1, 4), (1,)) if given.small else ((1, 2, 4, 8, 16, 32, 64, 128), (1, 2, 3))
accuracy = Panel("Accuracy of the mean", Axis("local steps between averages", log=True), Axis("validation errors, %", log=True))
sent = Panel("Accuracy against bytes", Axis("MB sent by all workers", log=True), Axis("validation errors, %", log=True))
rows, table = [], []
for name, split in SPLITS.items():
    accuracy.series[name], sent.series[name] = [], []
    for every in intervals:
        ends = [Run(TOPOLOGY.format(seed=seed, steps=steps, split=split, workers=workers, every=every)).end for seed in seeds]
        rows += [{"split": name, "every": every, "seed": seed, "val_accuracy": end["val_accuracy"],
                  "val_loss": end["val_loss"], "bytes_sent": end["bytes_sent"],
                  "consensus_distance_max": end["consensus_distance_max"]} for seed, end in zip(seeds, ends)]
        right, megabytes = median(end["val_accuracy"] for end in ends), ends[0]["bytes_sent"] / 1e6
        errors = max(100 * (1 - right), 0.05)
        accuracy.series[name].append((every, errors))
        sent.series[name].append((megabytes, errors))
        table.append([every, name, f"{megabytes:.4g}", f"{100 * right:.2f} %",
                      f"{100 * min(end['val_accuracy'] for end in ends):.2f} to {100 * max(end['val_accuracy'] for end in ends):.2f} %"])
write_csv(given.out / "local_steps.csv", rows)
write_chart(given.out / "local_steps.svg", [accuracy, sent])
print_table(["local steps", "data", "MB sent", "accuracy", "range of the seeds"], sorted(table, key=lambda row: row[0]))
