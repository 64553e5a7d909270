"""Fifty steps with each outer optimizer equal the same algorithm in plain PyTorch: DiLoCo and outer momentum with
torch.optim.SGD on the outer gradient, SlowMo and FedAdam as their papers write them. So do post-local SGD, and gossip with
periodic averages."""

import sys

try:
    import plain
except ImportError as error:
    print(f"SKIPPED: {error}; scripts/setup --python installs what the parity tests import")
    sys.exit(77)

import math

import torch
from trained import BATCH, SGD, STEPS, compare, exported, run, state_of
from troupe_command import main

EVERY = 5


def exchange(rule, **settings):
    lines = [f"{key} = {value}" for key, value in settings.items()]
    return "\n".join(['[exchange]\nkind = "all_reduce"\nsends = "parameters"', f"every = {EVERY}", f'outer = "{rule}"', *lines])


def train(workers, outer_step):
    """Local steps; after every EVERY of them, outer_step(a, mean of the workers, completed steps) is what all have."""
    a = workers[0].x
    for step in range(STEPS):
        for worker in workers:
            worker.gradient(step)
            worker.step()
        if (step + 1) % EVERY == 0:
            a = outer_step(a, plain.mean_of(workers), step + 1)
            for worker in workers:
                worker.x = a
    return a


def check(outer_step, text, sgd=None, rates=None):
    training, _ = plain.write_mnist(".")
    model = exported(plain.Smooth)
    workers = plain.workers_of(model, training, 4, BATCH, rates=rates, **(SGD if sgd is None else {
        key: value for key, value in sgd.items() if key in ("lr", "momentum", "weight_decay")}))
    result = train(workers, outer_step)
    compare(run("trained", exchange=text, sgd=sgd, loop="gradient, apply, exchange"), plain.state_of(model, result),
            state_of(model))


def by_sgd(**options):
    """The outer step of torch.optim.SGD."""
    weights = torch.nn.Parameter(torch.zeros(1))
    sgd = []

    def step(a, mean, _):
        if not sgd:
            weights.data = a.clone()
            sgd.append(torch.optim.SGD([weights], **options))
        weights.grad = a - mean
        sgd[0].step()
        return weights.detach().clone()
    return step


def test_diloco_is_nesterov_on_the_outer_gradient():
    check(by_sgd(lr=0.7, momentum=0.9, nesterov=True), exchange("nesterov"))


def test_diloco_with_a_rate_and_momentum_of_ones_own():
    check(by_sgd(lr=0.5, momentum=0.8, nesterov=True), exchange("nesterov", outer_lr=0.5, outer_momentum=0.8))


def test_outer_momentum():
    check(by_sgd(lr=1.0, momentum=0.9), exchange("momentum"))


def test_slowmo_under_a_falling_rate():
    """SlowMo, algorithm 1: u <- beta u + (x_0 - x_tau) / gamma; x <- x_0 - alpha gamma u, with gamma of the last step."""
    rates = [0.1 * (1 + math.cos(math.pi * step / STEPS)) / 2 for step in range(STEPS)]
    state = {"u": None}

    def step(a, mean, completed):
        gamma = rates[completed - 1]
        u = (a - mean) / gamma + (0 if state["u"] is None else 0.5 * state["u"])
        state["u"] = u
        return a - gamma * u
    check(step, exchange("slowmo"), sgd={"lr": 0.1, "momentum": 0.9, "schedule": '"cosine"', "schedule_by": '"step"'},
          rates=rates)


def test_fedadam_has_no_bias_correction():
    m, v = torch.zeros(1), torch.full((1,), 1e-6)

    def step(a, mean, _):
        nonlocal m, v
        delta = mean - a
        m = 0.9 * m + 0.1 * delta
        v = 0.99 * v + 0.01 * delta ** 2
        return a + 0.01 * m / (v.sqrt() + 1e-3)
    check(step, exchange("adam"))


# When to average. ----------------------------------------------------------------------------------------------------------

def check_local(text, loop, after, together=0):
    """Steps of four workers, along the mean gradient in the first `together`; after(completed, workers) is what follows a
    step."""
    training, _ = plain.write_mnist(".")
    model = exported(plain.Smooth)
    start = state_of(model)
    workers = plain.workers_of(model, training, 4, BATCH, **SGD)
    for step in range(STEPS):
        for worker in workers:
            worker.gradient(step)
        mean = plain.mean([worker.g for worker in workers]) if step < together else None
        for worker in workers:
            worker.step(mean)
        after(step + 1, workers)
    compare(run("trained", exchange=text, loop=loop), plain.state_of(model, plain.mean_of(workers)), start)


def averaged(workers):
    x = plain.mean_of(workers)
    for worker in workers:
        worker.x = x


def test_post_local_sgd():
    first, every = 22, 4

    def after(completed, workers):
        if completed > first and (completed - first) % every == 0:
            averaged(workers)
    check_local(f"""
[[exchange]]
name = "sum"
kind = "all_reduce"
until = {first}
[[exchange]]
name = "average"
kind = "all_reduce"
sends = "parameters"
from = {first}
every = {every}
""", "gradient, sum, apply, average", after, together=first)


def test_gossip_with_periodic_averages():
    ring = [[1 / 3 if (i - j) % 4 != 2 else 0 for j in range(4)] for i in range(4)]

    def after(completed, workers):
        plain.mix(workers, ring)
        if completed % 5 == 0:
            averaged(workers)
    check_local("""
[[exchange]]
name = "mix"
kind = "gossip"
graph = "ring"
[[exchange]]
name = "average"
kind = "all_reduce"
sends = "parameters"
every = 5
""", "gradient, apply, mix, average", after)


main(globals())
