"""Fifty steps of what sends less, but does not choose by value, equal the same algorithm in plain PyTorch: PowerSGD, values
at random coordinates, rounds that grow as the learning rate falls (QSR), and streaming DiLoCo. So does what a worker keeps for the next
exchange.

Steps of PowerSGD are compared one by one, each from the state that Troupe itself reached: a column of which little remains
when the others are taken out turns rounding into another direction. Each worker has classes of its own, so that gradients
differ by more than noise."""

import sys

try:
    import plain
except ImportError as error:
    print(f"SKIPPED: {error}; scripts/setup --python installs what the parity tests import")
    sys.exit(77)

import copy
import functools
import json
import math
import pathlib

import torch
from inside import COORDINATES, QUERY, keyed, sample, uniform, workers_in
from torch import nn
from torch.nn import functional
from trained import BATCH, STEPS, TOGETHER, checkpoints_of, compare, exported, run, state_of
from troupe_command import main, thorough

WORKERS, KEPT, EVERY = 4, 40, 5
SGD = {"lr": 0.02, "momentum": 0.9, "weight_decay": 0.001}
SEED = plain.seeded(5)
STEP_FIRST = "gradient, apply, exchange"


class Mixed(nn.Module):
    """Matrices [8, 9], [48, 288] and [10, 48], of which PowerSGD compresses all up to rank 2, and the last two at rank 4."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3)
        self.fc1 = nn.Linear(288, 48)
        self.fc2 = nn.Linear(48, 10)

    def forward(self, x):
        x = torch.tanh(self.conv(functional.avg_pool2d(x, 2)))
        return self.fc2(torch.tanh(self.fc1(functional.avg_pool2d(x, 2).flatten(1))))

    loss = staticmethod(functional.cross_entropy)


# What becomes of the vectors of the workers: the answer to them, and `left`, which is added to the next ones. --------------

class RandomK:
    """The mean at k coordinates, which are the same for all workers."""

    def __init__(self, parameters, ratio, feedback=True):
        self.ratio, self.feedback = ratio, feedback
        self.left = [torch.zeros(sum(each.numel() for each in parameters))] * WORKERS

    def __call__(self, vectors, step):
        vectors = [vector + left for vector, left in zip(vectors, self.left, strict=True)]
        size = len(vectors[0])
        where = sample(keyed(SEED, COORDINATES, 0, step), max(1, math.ceil(self.ratio * size)), size)
        answer = torch.zeros(size)
        answer[where] = plain.mean(vectors)[where]
        if self.feedback:
            self.left = vectors
            for vector in vectors:
                vector[where] = 0
        return answer


def orthonormal(P):
    """Modified Gram-Schmidt, in the order of the columns."""
    columns = list(P.double().unbind(1))
    for i, column in enumerate(columns):
        for before in columns[:i]:
            column = column - (before @ column) * before
        columns[i] = column / column.norm() if column.norm() >= 1e-20 else torch.zeros_like(column)
    return torch.stack(columns, 1).to(P.dtype)


class PowerSgd:
    """Vogels et al. 2019, algorithms 1 and 2, with the errors of the workers' own approximations. `sensitivity` is by how
    much a step can enlarge rounding: what remains of a column of P may be much less than what it was made of."""

    def __init__(self, parameters, rank, feedback=True):
        self.feedback, self.matrices, self.queries, end = feedback, [], [], 0
        for tensor, parameter in enumerate(parameters):
            where, end = slice(end, end + parameter.numel()), end + parameter.numel()
            if parameter.dim() < 2:
                continue
            rows, columns = parameter.flatten(1).shape
            r = min(rank, rows, columns)
            if rows * columns > 2 * r * (rows + columns):
                drawn = torch.from_numpy(2 * uniform(keyed(SEED, QUERY, 0, tensor), 0, r * columns) - 1)
                self.matrices.append((where, rows))
                self.queries.append(drawn.float().view(r, columns).T)
        self.left = [torch.zeros(end)] * WORKERS

    def __call__(self, vectors, _):
        vectors = [vector + left for vector, left in zip(vectors, self.left, strict=True)]
        answer, left = plain.mean(vectors), [torch.zeros_like(vector) for vector in vectors]
        self.sensitivity = 1.0
        for i, (where, rows) in enumerate(self.matrices):
            M = [vector[where].view(rows, -1) for vector in vectors]
            products = [own @ self.queries[i] for own in M]
            P = orthonormal(plain.mean(products))
            Q = [own.T @ P for own in M]
            remaining = (P * plain.mean(products)).sum(0)  # of each column
            self.sensitivity = max(self.sensitivity, *((each.norm(dim=0) / remaining).max().item() for each in products))
            self.queries[i] = plain.mean(Q)
            answer[where] = (P @ self.queries[i].T).flatten()
            for worker, own in enumerate(M):
                left[worker][where] = (own - P @ Q[worker].T).flatten()
        if self.feedback:
            self.left = left
        return answer

    def query(self):
        return torch.cat([query.T.flatten() for query in self.queries])

    def load(self, left, query):
        """Takes the place of another run: what its workers have left, and its Q."""
        parts = query.split([each.numel() for each in self.queries])
        self.queries = [part.view(each.T.shape).T for part, each in zip(parts, self.queries, strict=True)]
        self.left = left


class Pieces:
    """A rule for each piece of a vector of parameters. A piece is a range of parameters."""

    def __init__(self, model, rule, pieces=None):
        self.parameters = list(model.parameters())
        sizes = [each.numel() for each in self.parameters]
        self.pieces = [(piece, slice(sum(sizes[:piece.start]), sum(sizes[:piece.stop])),
                        rule(self.parameters[piece.start:piece.stop]))
                       for piece in pieces or [range(len(sizes))]]

    def __call__(self, vectors, step):
        answer = torch.zeros_like(vectors[0])
        for _, where, rule in self.pieces:
            answer[where] = rule([vector[where] for vector in vectors], step)
        return answer

    def kept(self, state, number):
        """What Troupe's worker keeps of a piece, by name."""
        bucket = f"bucket {number}/" if len(self.pieces) > 1 else ""
        return {key.split("codec/")[1]: torch.from_numpy(values) for key, values in state.items()
                if key.startswith(f"port exchange/member/{bucket}codec/")}

    def stored(self, vector, piece):
        """In storage, each parameter begins at a multiple of 16 elements."""
        each = vector.split([self.parameters[i].numel() for i in piece])
        return torch.cat([functional.pad(values, (0, -len(values) % 16)) for values in each])

    def unstored(self, values, piece):
        parts = values.split([-(-self.parameters[i].numel() // 16) * 16 for i in piece])
        return torch.cat([part[:self.parameters[i].numel()] for part, i in zip(parts, piece, strict=True)])


def difference(found, expected, scale=None):
    """In relation to the largest of `scale`, or of what is expected."""
    assert found.shape == expected.shape, (found.shape, expected.shape)
    return ((found - expected).abs().max() / (expected if scale is None else scale).abs().max()).item()


# Runs. --------------------------------------------------------------------------------------------------------------------

def samples_by_label():
    """Writes the data and returns it in an order in which every fourth sample is of the same block of classes."""
    (images, labels), _ = plain.write_mnist(".")
    order = labels.argsort(stable=True).view(WORKERS, -1).T.flatten()
    return images[order], labels[order]


def start(rates=None):
    samples, model = samples_by_label(), exported(Mixed)
    return model, plain.workers_of(model, samples, WORKERS, BATCH, rates=rates, **SGD)


def train(model, workers, rule):
    """Steps along what `rule` makes of the gradients; returns the state at the end, and the rule after KEPT steps."""
    for step in range(STEPS):
        for worker in workers:
            worker.gradient(step)
        answer = rule([worker.g for worker in workers], step)
        for worker in workers:
            worker.step(answer)
        if step + 1 == KEPT:
            kept = copy.deepcopy(rule)
    return plain.state_of(model, plain.mean_of(workers)), kept


def train_locally(model, workers, rule, outer_step):
    """Local steps; after every EVERY of them, `rule` makes the outer gradient of what the workers have changed."""
    a = workers[0].x
    for step in range(STEPS):
        for worker in workers:
            worker.gradient(step)
            worker.step()
        if (step + 1) % EVERY == 0:
            a = outer_step(a, rule([a - worker.x for worker in workers], step + 1))
            for worker in workers:
                worker.x = a
        if step + 1 == KEPT:
            kept = copy.deepcopy(rule)
    return plain.state_of(model, a), kept


def text(kind="all_reduce", **settings):
    lines = (f"{key} = {json.dumps(value)}" for key, value in settings.items())
    return "\n".join([f'[exchange]\nkind = "{kind}"', *lines])


def check(model, expected, rules, loop=TOGETHER, **settings):
    """Compares a run, and what is left over after KEPT of its steps; returns its weights."""
    what = settings.get("route", settings.get("kind", ""))
    found = run("trained", exchange=f"{text(**settings)}\n[checkpoint]\nevery = {KEPT}", sgd=SGD, loop=loop,
                split="by_label")
    compare(found, expected, state_of(model), what)
    for rank, state in enumerate(workers_in(pathlib.Path(f"trained/checkpoints/step-{KEPT:012}"))):
        for number, (piece, _, rule) in enumerate(rules.pieces):
            if rule.feedback:
                left = rules.stored(rule.left[rank], piece)
                apart = (rules.kept(state, number)["error"] - left).abs().max()
                assert apart < 2e-6 + 1e-5 * left.abs().max(), f"what worker {rank} has left is off by {apart:.1e}"
    return found


def buckets(model):
    """Settings by which fc2 and fc1 leave in one bucket and conv in another, and the pieces that these are."""
    linear = sum(each.numel() for each in [*model.fc1.parameters(), *model.fc2.parameters()])
    return {"send": "bucket", "bucket_mb": 4 * linear / 2**20}, [range(2, 6), range(2)]


def same(a, b):
    return all(torch.equal(a[name], b[name]) for name in a)


# PowerSGD. ----------------------------------------------------------------------------------------------------------------

def states_of(exchange):
    """The states of all workers by completed steps, of a run that waits for its checkpoints."""
    return {step: workers_in(folder) for step, folder in checkpoints_of(exchange, SGD, split="by_label").items()}


def check_powersgd(rank, feedback=True, in_buckets=False, **settings):
    model, workers = start()
    of_buckets, pieces = buckets(model) if in_buckets else ({}, None)
    rules = Pieces(model, functools.partial(PowerSgd, rank=rank, feedback=feedback), pieces)
    whole, x, momentum = range(len(rules.parameters)), workers[0].x, torch.zeros_like(workers[0].x)
    states = states_of(text(encoding="powersgd", rank=rank, feedback=feedback, **of_buckets, **settings))
    worst, compared = {"parameters": 0.0, "Q": 0.0, "left": 0.0}, 0

    def note(what, *values):
        worst[what] = max(worst[what], difference(*values))

    for step in [step for step in range(max(states)) if step + 1 in states and (step == 0 or step in states)]:
        if step > 0:
            before = states[step]
            x = rules.unstored(torch.from_numpy(before[0]["x/values"]), whole)
            momentum = rules.unstored(torch.from_numpy(before[0]["compute/optimizer/momentum_buffer"]), whole)
            for number, (piece, where, rule) in enumerate(rules.pieces):
                kept = [rules.kept(state, number) for state in before]
                rule.load([rules.unstored(each["error"], piece) if feedback else torch.zeros_like(x[where])
                           for each in kept], kept[0]["query"])
        for worker in workers:
            worker.x = x
            worker.gradient(step)
        g = [worker.g for worker in workers]
        given = [[own[where] + left for own, left in zip(g, rule.left, strict=True)] for _, where, rule in rules.pieces]
        direction = SGD["momentum"] * momentum + rules(g, step) + SGD["weight_decay"] * x
        after = states[step + 1]
        note("parameters", rules.unstored(torch.from_numpy(after[0]["x/values"]), whole), x - SGD["lr"] * direction,
             SGD["lr"] * direction)
        for number, (piece, _, rule) in enumerate(rules.pieces):
            for rank_of, state in enumerate(after):
                kept = rules.kept(state, number)
                note("Q", kept["query"], rule.query())
                if feedback:
                    note("left", kept["error"], rules.stored(rule.left[rank_of], piece),
                         given[number][rank_of] * max(1, rule.sensitivity / 10))
        compared += 1
    print(f"  {compared} steps: largest differences " + ", ".join(f"{what} {apart:.1e}" for what, apart in worst.items()))
    assert 1 in states and compared >= STEPS, f"only {compared} steps have a checkpoint before and after them"
    assert max(worst.values()) < 1e-5


def test_powersgd_of_rank_1():
    check_powersgd(1)


def test_powersgd_of_rank_2():
    check_powersgd(2)


def test_powersgd_of_rank_4():
    check_powersgd(4)


@thorough
def test_powersgd_without_feedback():
    check_powersgd(2, feedback=False)


def test_powersgd_in_buckets():
    check_powersgd(2, in_buckets=True)


@thorough
def test_powersgd_on_a_ring():
    check_powersgd(2, route="ring")


@thorough
def test_powersgd_has_the_same_bits_wherever_ranks_add_in_order():
    start()
    found = [run("trained", exchange=text(encoding="powersgd", rank=2, **wiring), sgd=SGD, split="by_label") for wiring in (
        {"route": "direct"}, {"route": "all_gather"}, {"route": "chain"}, {"kind": "star"})]
    assert all(same(each, found[0]) for each in found[1:])


# Random coordinates. ------------------------------------------------------------------------------------------------------

def check_random_k(*wirings, feedback=True):
    """Those that add in the order of ranks have the same bits."""
    model, workers = start()
    expected, kept = train(model, workers, Pieces(model, functools.partial(RandomK, ratio=0.1, feedback=feedback)))
    in_order = []
    for wiring in wirings:
        found = check(model, expected, kept, encoding="random_k", ratio=0.1, feedback=feedback, **wiring)
        if wiring.get("route") != "ring":
            in_order.append(found)
    for found in in_order[1:]:
        assert same(found, in_order[0]), "other bits"


def test_random_k():
    check_random_k({"route": "all_gather"}, {"route": "ring"}, {"kind": "star"})


@thorough
def test_random_k_by_other_routes():
    check_random_k({"route": "all_gather"}, {"route": "direct"}, {"route": "chain"})


def test_random_k_without_feedback():
    check_random_k({}, feedback=False)


def test_random_k_in_buckets():
    model, workers = start()
    settings, pieces = buckets(model)
    expected, kept = train(model, workers, Pieces(model, functools.partial(RandomK, ratio=0.1), pieces))
    check(model, expected, kept, encoding="random_k", ratio=0.1, **settings)


def check_differences(outer_step, **settings):
    model, workers = start()
    expected, kept = train_locally(model, workers, Pieces(model, functools.partial(RandomK, ratio=0.3)), outer_step)
    check(model, expected, kept, loop=STEP_FIRST, sends="parameters", every=EVERY, encoding="random_k", ratio=0.3,
          **settings)


def test_random_k_of_differences():
    check_differences(lambda a, change: a - change)


def test_random_k_of_outer_gradients():
    """DiLoCo's step: Nesterov momentum as torch.optim.SGD has it."""
    momentum = 0

    def step(a, change):
        nonlocal momentum
        momentum = 0.9 * momentum + change
        return a - 0.7 * (change + 0.9 * momentum)
    check_differences(step, outer="nesterov")


# Rounds that grow. --------------------------------------------------------------------------------------------------------

def ends_of_rounds(rates, every, growth, warm_up=0):
    """The steps after which workers exchange: a round that begins after t steps lasts max(every, floor((growth / rate)^2)),
    with the rate of the step after t, or of the end of the warm-up. The last one ends with the run. (Gu et al. 2024,
    section 2.)"""
    ends, t = [], 0
    while t < len(rates):
        rate = rates[max(t, warm_up)]
        t = min(t + max(every, math.floor((growth / rate) ** 2)), len(rates))
        ends.append(t)
    return ends


def cosine(lr, steps, warm_up=0):
    """By completed steps."""
    return [lr * step / warm_up if step < warm_up else
            lr * (1 + math.cos(math.pi * (step - warm_up) / (steps - warm_up))) / 2 for step in range(steps)]


def check_growth(W, ends, every, growth, lr=0.05, warm_up_epochs=0, **settings):
    """Mixes by W at the end of each round."""
    warm_up = warm_up_epochs * (480 // WORKERS // BATCH)
    rates = cosine(lr, STEPS, warm_up)
    assert ends_of_rounds(rates, every, growth, warm_up) == ends, ends_of_rounds(rates, every, growth, warm_up)
    model, workers = start(rates)
    for step in range(STEPS):
        for worker in workers:
            worker.gradient(step)
            worker.step()
        if step + 1 in ends:
            plain.mix(workers, W)
    found = run("trained", exchange=text(every=every, growth=growth, **settings), loop=STEP_FIRST, split="by_label",
                sgd={**SGD, "lr": lr, "schedule": '"cosine"', "schedule_by": '"step"', "warmup_epochs": warm_up_epochs})
    compare(found, plain.state_of(model, plain.mean_of(workers)), state_of(model))


def test_averages_after_rounds_that_grow():
    check_growth(plain.complete(WORKERS), [4, 8, 12, 16, 20, 25, 35, 50], sends="parameters", every=4, growth=0.08)


def test_rounds_grow_after_a_warm_up():
    check_growth(plain.complete(WORKERS), [5, 10, 15, 20, 26, 35, 50], sends="parameters", every=2, growth=0.12,
                 warm_up_epochs=1)


@thorough
def test_gossip_after_rounds_that_grow():
    check_growth(plain.ring(WORKERS), [4, 8, 12, 16, 20, 25, 35, 50], kind="gossip", graph="ring", every=4, growth=0.08)


# Fragments at different times. --------------------------------------------------------------------------------------------

def check_streaming(fragments, every, delay, mix):
    """Streaming DiLoCo: Nesterov momentum along the mean of each fragment, used `delay` steps after it was sent."""
    model, workers = start()
    sizes = [each.numel() for each in model.parameters()]
    ranges = [slice(sum(sizes[:piece.start]), sum(sizes[:piece.stop])) for piece in fragments]
    firsts = [(index + 1) * every // len(ranges) for index in range(len(ranges))]
    anchors, momenta, means = [workers[0].x[each].clone() for each in ranges], [0] * len(ranges), [None] * len(ranges)
    for step in range(STEPS):
        for worker in workers:
            worker.gradient(step)
            worker.step()
        for p, (where, first) in enumerate(zip(ranges, firsts, strict=True)):
            since = step + 1 - first
            if since >= 0 and since % every == 0:
                means[p] = plain.mean_of(workers)[where]
            if since >= delay and (since - delay) % every == 0:
                change = anchors[p] - means[p]
                momenta[p] = 0.9 * momenta[p] + change
                anchors[p] = anchors[p] - 0.7 * (change + 0.9 * momenta[p])
                for worker in workers:
                    x = worker.x.clone()
                    x[where] = mix * x[where] + (1 - mix) * anchors[p]
                    worker.x = x
    found = run("trained", loop=STEP_FIRST, split="by_label", sgd=SGD,
                exchange=text(sends="parameters", every=every, outer="nesterov", fragments=len(ranges), delay=delay, mix=mix))
    compare(found, plain.state_of(model, plain.mean_of(workers)), state_of(model))


def test_streaming_diloco():
    check_streaming([range(3), range(3, 6)], every=8, delay=3, mix=0.25)


def test_fragments_without_delay():
    check_streaming([range(3), range(3, 6)], every=10, delay=0, mix=0)


def test_one_fragment_that_is_used_later():
    check_streaming([range(6)], every=6, delay=5, mix=0.5)


# What was worked out by hand. ---------------------------------------------------------------------------------------------

def test_small_cases():
    assert sample(keyed(1, COORDINATES, 0, 3), 4, 16) == [3, 7, 8, 15]
    assert ends_of_rounds(cosine(0.1, 100), 2, 0.2) == [4, 8, 12, 16, 20, 24, 29, 35, 42, 52, 70, 100]
    rule = PowerSgd([torch.zeros(2, 2)], 1)
    rule.matrices, rule.queries = [(slice(4), 2)], [torch.ones(2, 1)]
    answer = rule([torch.diag(torch.tensor([a, 1.0])).flatten() for a in (4.0, 2.0, 4.0, 2.0)], 0)
    assert torch.allclose(answer, torch.tensor([2.7, 0.3, 0.9, 0.1]), atol=1e-6)
    assert torch.allclose(rule.left[0], torch.tensor([0.4, -0.3, -1.2, 0.9]), atol=1e-6)


main(globals())
