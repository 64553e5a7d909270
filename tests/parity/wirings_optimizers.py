"""Every optimizer, clipping and a schedule of the learning rate, each under every wiring, equal the same in plain
PyTorch after thirty steps. Asynchronous wirings are compared in a forced order of arrivals. optimizers.py tests more
settings of the optimizers with reduced gradients.

The model is smooth; shuffle off, one intra-op thread."""

import itertools
import random
import sys
from concurrent.futures import ThreadPoolExecutor

try:
    import plain
    import torch
    from plain_novograd import NovoGrad
except ImportError as error:
    print(f"SKIPPED: {error}; scripts/setup --python installs what the parity tests import")
    sys.exit(77)

from torch.optim import SGD, Adam, AdamW
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR
from trained import BATCH, TOGETHER, compare, exported, run, run_in_order, state_of
from troupe_command import main

STEPS, WORKERS = 30, 4
PER_EPOCH = 480 // (WORKERS * BATCH)
APPLY_FIRST = "gradient, apply, exchange"


def rates(lr):
    """Those of a warm-up through the first epoch, then half a cosine to the end of the run."""
    optimizer = SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)
    schedule = SequentialLR(optimizer, [LinearLR(optimizer, 0.25, total_iters=PER_EPOCH),
                                        CosineAnnealingLR(optimizer, STEPS - PER_EPOCH)], [PER_EPOCH])
    made = []
    for _ in range(STEPS):
        made.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return made


# What the file says, and the textbook's.
RECIPES = {
    "nesterov": ({"lr": 0.02, "momentum": 0.9, "nesterov": "true", "weight_decay": 0.001},
                 {"make": lambda each: SGD(each, lr=0.02, momentum=0.9, nesterov=True, weight_decay=0.001)}),
    "adam": ({"name": '"adam"', "lr": 0.002, "weight_decay": 0.01},
             {"make": lambda each: Adam(each, lr=0.002, weight_decay=0.01)}),
    "adamw": ({"name": '"adamw"', "lr": 0.002, "betas": [0.8, 0.95], "weight_decay": 0.1},
              {"make": lambda each: AdamW(each, lr=0.002, betas=(0.8, 0.95), weight_decay=0.1)}),
    "novograd": ({"name": '"novograd"', "lr": 0.005, "weight_decay": 0.001, "betas": [0.95, 0.98],
                  "grad_averaging": "true", "moment_start": '"gradient"'},
                 {"make": lambda each: NovoGrad(each, lr=0.005, weight_decay=0.001)}),
    "clipping": ({"lr": 0.02, "momentum": 0.9, "clip_norm": 0.5},
                 {"make": lambda each: SGD(each, lr=0.02, momentum=0.9), "clip_norm": 0.5}),
    "schedule": ({"lr": 0.05, "momentum": 0.9, "warmup_epochs": 1, "warmup_start": 0.25, "schedule": '"cosine"'},
                 {"make": lambda each: SGD(each, lr=0.05, momentum=0.9), "rates": rates(0.05)}),
}


def begin(count, batch):
    """The samples, and a model in whose first step no weight has a gradient within rounding of zero: Adam would make a
    whole step of it, to either side."""
    samples, _ = plain.write_mnist(".")
    for attempt in itertools.count():
        model = exported(plain.Small, attempt)
        workers = plain.workers_of(model, samples, count, batch, lr=1.0)
        for worker in workers:
            worker.gradient(0)
        if min(worker.g.abs().min() for worker in workers) > 1e-6:
            return samples, model


def check(algorithm, exchange, loop=TOGETHER, count=WORKERS, batch=BATCH, order=None):
    """Compares with algorithm(workers, server) for every recipe: a vector, or nothing where it is the workers' mean."""
    samples, model = begin(count, batch)

    def found(name):
        wiring = {"exchange": exchange, "loop": loop, "workers": count, "batch": batch, "steps": STEPS,
                  "sgd": RECIPES[name][0]}
        return run_in_order(name, order, **wiring) if order else run(name, **wiring)

    with ThreadPoolExecutor(2) as pool:
        results = dict(zip(RECIPES, pool.map(found, RECIPES), strict=True))
    for name, (_, recipe) in RECIPES.items():
        workers = plain.workers_of(model, samples, count, batch, **recipe)
        server = plain.Replica(model, **recipe)
        result = algorithm(workers, server)
        assert ("clip_norm" in recipe) == any(each.clipped for each in (*workers, server)), "no gradient was that long"
        expected = plain.state_of(model, plain.mean_of(workers) if result is None else result)
        compare(results[name], expected, state_of(model), name)


def order_of(times):
    """An order in which each worker comes so many times."""
    order = list(range(WORKERS)) * times
    random.Random(plain.seeded(21)).shuffle(order)
    return order


def test_star():
    def algorithm(workers, _):
        for step in range(STEPS):
            for worker in workers:
                worker.gradient(step)
            g = plain.mean([worker.g for worker in workers])
            for worker in workers:
                worker.step(g)

    check(algorithm, '[exchange]\nkind = "star"')


def test_gossip():
    check(lambda workers, _: plain.dpsgd(workers, STEPS, plain.ring(WORKERS)), '[exchange]\nkind = "gossip"')


def test_model_averaging():
    check(lambda workers, _: plain.local_sgd(workers, STEPS, every=4),
          '[exchange]\nkind = "all_reduce"\nsends = "parameters"\nevery = 4', loop=APPLY_FIRST)


def test_elastic_averaging():
    check(lambda workers, _: plain.easgd(workers, STEPS, every=3, alpha=0.15),
          '[exchange]\nkind = "elastic"\napply = "all"\nalpha = 0.15\nevery = 3')


def test_asynchronous_elastic_averaging():
    order = order_of(sum(plain.due(step, 3, from_start=True) for step in range(STEPS)))
    check(lambda workers, _: plain.asynchronous_easgd(workers, STEPS, 3, 0.15, order),
          '[exchange]\nkind = "elastic"\napply = "each"\nalpha = 0.15\nevery = 3', order=order)


def test_asgd():
    order = order_of(STEPS)

    def algorithm(workers, server):
        plain.asgd(server, workers, order)
        return server.x

    check(algorithm, '[exchange]\nkind = "parameter_server"\napply = "each"', loop="gradient, exchange", order=order)


def test_shared_memory_with_one_worker():
    def algorithm(workers, _):
        for step in range(STEPS):
            workers[0].gradient(step)
            workers[0].step()

    check(algorithm, '[exchange]\nkind = "shared"', loop="gradient, apply", count=1, batch=WORKERS * BATCH)


main(globals())
