"""Parameters that a step does not use are skipped in that step, as PyTorch skips those whose grad is None: under every
wiring, with every optimizer, for modules with layers that forward() never uses, or only in evaluations, or only for
some batches of some workers.

Where gradients are averaged, a parameter that no worker has used has no gradient, and one that some workers have used
gets the mean with zeros for the others, as in PyTorch's DistributedDataParallel with find_unused_parameters."""

import random
import re
import sys
from concurrent.futures import ThreadPoolExecutor

try:
    import plain
    import torch
    from plain_novograd import NovoGrad
except ImportError as error:
    print(f"SKIPPED: {error}; scripts/setup --python installs what the parity tests import")
    sys.exit(77)

from torch import nn
from torch.nn import functional
from torch.optim import SGD, Adam, AdamW
from trained import BATCH, TOGETHER, compare, exported, file_of, run, run_in_order, state_of
from troupe_command import main, thorough, troupe

STEPS, WORKERS = 30, 4
NEVER = ("idle.weight", "idle.bias", "evaluated")
APPLY_FIRST = "gradient, apply, exchange"


class Partial(nn.Module):
    """In the middle of the layout, a layer that is never used, a parameter of evaluations, and a layer that is used for
    about half of the batches; and a bias under two names."""

    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(49, 16)
        self.idle = nn.Linear(16, 5)
        self.evaluated = nn.Parameter(torch.full((10,), 0.5))
        self.rare = nn.Linear(16, 10)
        self.fc2 = nn.Linear(16, 10)
        self.rare.bias = self.fc2.bias

    def forward(self, x):
        x = functional.avg_pool2d(x, 4).flatten(1)
        h = torch.tanh(self.fc1(x))
        if bool(x[0, :24].mean() > x[0, 25:].mean()):
            y = self.rare(h) + self.fc2(h)
        else:
            y = self.fc2(h)
        if not self.training:
            y = y * self.evaluated
        return y

    loss = staticmethod(functional.cross_entropy)


# What the file says, and the textbook's.
RECIPES = {
    "sgd": ({"lr": 0.05, "momentum": 0.9, "weight_decay": 0.02},
            lambda each: SGD(each, lr=0.05, momentum=0.9, weight_decay=0.02)),
    "adam": ({"name": '"adam"', "lr": 0.002, "weight_decay": 0.01},
             lambda each: Adam(each, lr=0.002, weight_decay=0.01)),
    "adamw": ({"name": '"adamw"', "lr": 0.002, "weight_decay": 0.1},
              lambda each: AdamW(each, lr=0.002, weight_decay=0.1)),
    "novograd": ({"name": '"novograd"', "lr": 0.005, "weight_decay": 0.001, "betas": [0.95, 0.98],
                  "grad_averaging": "true", "moment_start": '"gradient"'},
                 lambda each: NovoGrad(each, lr=0.005, weight_decay=0.001)),
}


def grads_of(worker):
    return [each.grad for each in worker.model.parameters()]


def step_along(replica, grads):
    for each, grad in zip(replica.model.parameters(), grads, strict=True):
        each.grad = None if grad is None else grad.clone()
    replica.step()


def mean_of(grads):
    """The mean over the workers by parameter: none where no worker has a gradient, else with zeros for those."""
    means = []
    for of_one in zip(*grads, strict=True):
        there = [each for each in of_one if each is not None]
        means.append(sum(there) / len(of_one) if there else None)
    return means


def all_reduce(workers, _):
    for step in range(STEPS):
        for worker in workers:
            worker.gradient(step)
        mean = mean_of([grads_of(worker) for worker in workers])
        for worker in workers:
            step_along(worker, mean)


def asgd(order):
    def algorithm(workers, server):
        done = [0] * len(workers)
        for rank in order:
            workers[rank].gradient(done[rank])
            step_along(server, grads_of(workers[rank]))
            workers[rank].x = server.x
            done[rank] += 1
        return server.x

    return algorithm


def begin(count, batch=BATCH, make=None):
    """The samples and the model; in some steps no worker uses the layer `rare`, in others some do."""
    samples, _ = plain.write_mnist(".")
    model = exported(Partial)
    workers = plain.workers_of(model, samples, count, batch, make=make)
    uses = []
    for step in range(STEPS):
        for worker in workers:
            worker.gradient(step)
        uses.append(sum(worker.model.rare.weight.grad is not None for worker in workers))
        assert all(worker.model.idle.weight.grad is None for worker in workers)
    assert 0 in uses and max(uses) > count // 4 and (count == 1 or set(uses) - {0, count}), uses
    return samples, model


def check(algorithm, exchange, loop=TOGETHER, count=WORKERS, order=None, data="", without=()):
    samples, model = begin(count)

    def found(name):
        wiring = {"exchange": exchange, "loop": loop, "workers": count, "steps": STEPS, "sgd": RECIPES[name][0],
                  "data": data}
        return run_in_order(name, order, **wiring) if order else run(name, **wiring)

    names = [name for name in RECIPES if name not in without]
    with ThreadPoolExecutor(2) as pool:
        results = dict(zip(names, pool.map(found, names), strict=True))
    for name in names:
        make = RECIPES[name][1]
        workers = plain.workers_of(model, samples, count, BATCH, make=make)
        server = plain.Replica(model, make=make)
        result = algorithm(workers, server)
        expected = plain.state_of(model, plain.mean_of(workers) if result is None else result)
        start = state_of(model)
        compare(results[name], expected, start, name, still=NEVER)
        same = [each for each in NEVER if torch.equal(results[name][each], start[each])]
        # A mean of parameters over the workers, and a mixture, may round parameters that are equal.
        assert len(same) == len(NEVER) or "gossip" in exchange or "elastic" in exchange, same


def test_one_worker():
    check(all_reduce, "", count=1, loop="gradient, apply")


def test_all_reduce():
    check(all_reduce, '[exchange]\nkind = "all_reduce"')


def test_all_reduce_around_a_ring_in_buckets():
    check(all_reduce, '[exchange]\nkind = "all_reduce"\nroute = "ring"\nsend = "bucket"\nbucket_mb = 0.001')


def test_star():
    check(all_reduce, '[exchange]\nkind = "star"')


def test_parameter_server_of_three_shards():
    check(all_reduce, '[exchange]\nkind = "parameter_server"\napply = "all"\nshards = 3', loop="gradient, exchange",
          without=["novograd"])  # which needs whole layers


def test_asynchronous_parameter_server():
    order = list(range(WORKERS)) * STEPS
    random.Random(plain.seeded(21)).shuffle(order)
    check(asgd(order), '[exchange]\nkind = "parameter_server"\napply = "each"', loop="gradient, exchange", order=order)


def test_gossip():
    check(lambda workers, _: plain.dpsgd(workers, STEPS, plain.ring(WORKERS)), '[exchange]\nkind = "gossip"')


def test_model_averaging():
    check(lambda workers, _: plain.local_sgd(workers, STEPS, every=4),
          '[exchange]\nkind = "all_reduce"\nsends = "parameters"\nevery = 4', loop=APPLY_FIRST)


def test_elastic_averaging():
    check(lambda workers, _: plain.easgd(workers, STEPS, every=3, alpha=0.15),
          '[exchange]\nkind = "elastic"\napply = "all"\nalpha = 0.15\nevery = 3')


def test_pairs_that_average_their_gradients_and_then_mix():
    def algorithm(workers, _):
        pairs = [workers[:2], workers[2:]]
        for step in range(STEPS):
            for pair in pairs:
                for worker in pair:
                    worker.gradient(step)
                mean = mean_of([grads_of(worker) for worker in pair])
                for worker in pair:
                    step_along(worker, mean)
            if plain.due(step + 1, 3):
                plain.mix(workers, plain.complete(len(workers)))

    pairs = "".join(f'[[exchange]]\nname = "{name}"\nkind = "all_reduce"\nmembers = {members}\n'
                    for name, members in (("a", '["w0", "w1"]'), ("b", '["w2", "w3"]')))
    check(algorithm, pairs + '[[exchange]]\nname = "all"\nkind = "all_reduce"\nsends = "parameters"\nevery = 3\n',
          loop="gradient, a, b, apply, all")


def test_shared_memory_with_one_worker():
    for setting in "", "atomic = true", "lock = true", "local_steps = 3":
        check(all_reduce, f'[exchange]\nkind = "shared"\n{setting}', loop="gradient, apply", count=1)


class Halves(Partial):
    """Uses the layer `rare` for some micro-batches of two samples, if any."""

    def forward(self, x):
        x = functional.avg_pool2d(x, 4).flatten(1)
        h = torch.tanh(self.fc1(x))
        y = self.fc2(h)
        if bool(x[0].mean() > x[1].mean()):
            y = y + functional.linear(h, self.rare.weight)
        if not self.training:
            y = y * self.evaluated
        return y


def test_micro_batches_use_together_what_each_of_them_uses():
    samples, _ = plain.write_mnist(".")
    model = exported(Halves)
    for name, (recipe, make) in RECIPES.items():
        worker = plain.Worker(model, samples, 0, 1, BATCH, make=make)
        for step in range(STEPS):
            first = step % worker.per_epoch * BATCH
            worker.optimizer.zero_grad()
            for rows in (slice(at, at + 2) for at in range(first, first + BATCH, 2)):
                (model.loss(worker.model(worker.images[rows]), worker.labels[rows]) / (BATCH // 2)).backward()
            worker.step()
        found = run(name, loop="gradient, apply", workers=1, steps=STEPS, sgd=recipe, data="micro_batch_size = 2")
        compare(found, worker.model.state_dict(), state_of(model), name, still=NEVER)


def test_a_resumed_run_continues_bit_for_bit():
    begin(WORKERS)
    for name, exchange, loop in (("sgd", "all_reduce", TOGETHER), ("adam", "parameter_server", "gradient, exchange"),
                                 ("adamw", "all_reduce", TOGETHER), ("novograd", "all_reduce", TOGETHER)):
        def text(steps, name=name, exchange=exchange, loop=loop):
            return {"exchange": f'[exchange]\nkind = "{exchange}"', "loop": loop, "steps": steps,
                    "sgd": RECIPES[name][0], "evaluate": '[checkpoint]\nevery = "7 steps"\n'}

        whole = run("whole", **text(STEPS))
        run("cut", **text(14))
        troupe("run", file_of("more", **text(STEPS)), "--resume", "cut")
        again = plain.weights("cut")
        assert all(torch.equal(whole[each], again[each]) for each in whole), name


@thorough
def test_parameters_that_no_step_uses_keep_their_bits_at_every_wiring():
    _, model = begin(WORKERS)
    start = state_of(model)
    server = "gradient, exchange"
    for settings, loop in (
            ('kind = "all_reduce"\nencoding = "bf16"', TOGETHER),
            ('kind = "all_reduce"\nencoding = "bf16"\nroute = "ring"\nsend = "bucket"\nbucket_mb = 0.001', TOGETHER),
            ('kind = "star"\nsend = "parameter"', TOGETHER),
            ('kind = "parameter_server"\napply = "each"\nshards = 2', server),
            ('kind = "parameter_server"\napply = "each"\nstaleness_bound = 1', server),
            ('kind = "parameter_server"\napply = "first"\nfirst = 2', server),
            ('kind = "shared"', "gradient, apply"),
            ('kind = "shared"\natomic = true', "gradient, apply"),
            ('kind = "shared"\nlock = true', "gradient, apply"),
            ('kind = "shared"\nlocal_steps = 3', "gradient, apply")):
        for name in "sgd", "adam":
            found = run("kept", exchange=f"[exchange]\n{settings}", loop=loop, steps=STEPS, sgd=RECIPES[name][0])
            assert all(torch.equal(found[each], start[each]) for each in NEVER), (settings, name)
            assert not torch.equal(found["fc1.weight"], start["fc1.weight"]), (settings, name)


def test_a_note_says_how_many_parameters_get_no_gradient():
    begin(1)
    said = troupe("check", file_of("noted", workers=1, loop="gradient, apply")).stdout
    note = re.search(r"(\d+) of 8 tensors \(([\d,]+) of 1,225 parameters\) get no gradient in a trial step: (.*);", said)
    assert note and "idle.weight" in note[3] and int(note[1]) in (3, 4), said


main(globals())
