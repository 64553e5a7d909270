"""Batch norm under gossip and under model averaging, with running statistics local or mixed, equals PyTorch's after
fifty steps: weights, and running statistics of the first worker and of the mean.

The network is smooth; shuffle off, one intra-op thread."""

import sys

try:
    import plain
    import torch
except ImportError as error:
    print(f"SKIPPED: {error}; scripts/setup --python installs what the parity tests import")
    sys.exit(77)

from torch import nn
from torch.nn import functional
from trained import BATCH, SGD, STEPS, TOGETHER, compare, exported, run, state_of
from troupe_command import main

# Rows and columns sum to 1; its transpose is another matrix.
W = [[0.5, 0.3, 0.2, 0.0],
     [0.1, 0.6, 0.0, 0.3],
     [0.4, 0.0, 0.4, 0.2],
     [0.0, 0.1, 0.4, 0.5]]
EVERY = 4
GOSSIP = f'[exchange]\nkind = "gossip"\nweights = {W}'
AVERAGING = f'[exchange]\nkind = "all_reduce"\nsends = "parameters"\nevery = {EVERY}'
APPLY_FIRST = "gradient, apply, exchange"


class Normed(nn.Module):
    """Two convolutions with batch norm, the second one residual."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(1, 6, 5, 3, bias=False), nn.BatchNorm2d(6)
        self.conv2, self.bn2 = nn.Conv2d(6, 6, 3, 1, 1, bias=False), nn.BatchNorm2d(6)
        self.fc = nn.Linear(6 * 4 * 4, 10)

    def forward(self, x):
        x = functional.softplus(self.bn1(self.conv1(x)))
        x = x + torch.tanh(self.bn2(self.conv2(x)))
        return self.fc(functional.avg_pool2d(x, 2).flatten(1))

    loss = staticmethod(functional.cross_entropy)


def running(worker):
    return {name: values for name, values in worker.model.named_buffers() if values.is_floating_point()}


def mix(workers, matrix, mixed):
    """Mixes the parameters, and the running statistics if they are `mixed`."""
    plain.mix(workers, matrix)
    before = [{name: values.clone() for name, values in running(worker).items()} for worker in workers]
    for worker, row in zip(workers, matrix, strict=True):
        for name, values in running(worker).items() if mixed else ():
            values.copy_(sum(weight * each[name] for weight, each in zip(row, before, strict=True)))


def gossiped(workers, mixed, mix_first):
    for step in range(STEPS):
        for worker in workers:
            worker.gradient(step)
        if mix_first:
            mix(workers, W, mixed)
        for worker in workers:
            worker.step()
        if not mix_first:
            mix(workers, W, mixed)


def averaged(workers, mixed):
    for step in range(STEPS):
        for worker in workers:
            worker.gradient(step)
            worker.step()
        if (step + 1) % EVERY == 0:
            mix(workers, plain.complete(len(workers)), mixed)


def check(algorithm, exchange, loop):
    """Compares the mean of the weights, and the running statistics of the first worker and their mean. Mixing does not
    change the mean, so it shows in those of the first worker only."""
    training, _ = plain.write_mnist(".")
    model = exported(Normed)
    firsts = []
    for buffers in "local", "mix":
        workers = plain.workers_of(model, training, 4, BATCH, **SGD)
        algorithm(workers, buffers == "mix")
        expected = plain.state_of(workers[0].model, plain.mean_of(workers))
        wiring = {"exchange": f'{exchange}\nbuffers = "{buffers}"', "loop": loop}
        compare(run("first", evaluate='buffers = "first"', **wiring), expected, state_of(model), f"{buffers}, first")
        firsts.append({name: values.clone() for name, values in running(workers[0]).items()})
        expected |= {name: plain.mean([running(worker)[name] for worker in workers]) for name in running(workers[0])}
        compare(run("mean", **wiring), expected, state_of(model), f"{buffers}, mean")
    plain.assert_equal(firsts[0], firsts[0], firsts[1])  # local and mixed ones differ clearly


def test_gossip_before_the_step():
    check(lambda workers, mixed: gossiped(workers, mixed, mix_first=True), GOSSIP, TOGETHER)


def test_gossip_after_the_step():
    check(lambda workers, mixed: gossiped(workers, mixed, mix_first=False), GOSSIP, APPLY_FIRST)


def test_model_averaging():
    check(averaged, AVERAGING, APPLY_FIRST)


main(globals())
