"""Fifty steps of the sparse models equal plain PyTorch on dense tensors: steps directly on the rows (plain SGD) and
steps with backward passes (momentum, exchanged gradients). Weight decay of the former equals its formula.

Shuffle off, one intra-op thread."""

import functools
import itertools
import pathlib
import sys

try:
    import plain
except ImportError as error:
    print(f"SKIPPED: {error}; scripts/setup --python installs what the parity tests import")
    sys.exit(77)

import numpy
import torch
from torch import nn
from torch.nn import functional
from troupe_command import main, metrics, thorough, troupe, write

STEPS = 50
ROWS, COLUMNS = 100, 24  # one row of which has nothing
USERS, ITEMS, RANK = 9, 7, 4
FILE = """
[run]
seed = {seed}
steps = {steps}
[model]
name = "{model}"
{rank}
[data]
name = "{data}"
file = "samples"
batch_size = {batch}
shuffle = false
[optimizer]
{optimizer}
[workers]
count = {workers}
loop = [{loop}]
{exchange}
[evaluate]
every = "1000000 steps"  # no worker gets further ahead than two evaluations
"""
ALONE, TOGETHER, STEP_FIRST = "gradient, apply", "gradient, exchange, apply", "gradient, apply, exchange"
PLAIN = {"lr": 0.1}
HEAVY = {"lr": 0.02, "momentum": 0.9, "weight_decay": 0.01}


class Linear(nn.Module):
    """One score for each row; class 1 where it is positive."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1, COLUMNS))

    def forward(self, rows):
        return (rows @ self.weight.t()).squeeze(1)


class Logistic(Linear):
    loss = staticmethod(functional.binary_cross_entropy_with_logits)


class Svm(Linear):
    nearest = 1.0  # how near a margin has come to the hinge, where its gradient jumps

    @staticmethod
    def loss(score, target):
        margin = 1 - (2 * target - 1) * score
        Svm.nearest = min(Svm.nearest, margin.abs().min().item())
        return margin.clamp(min=0).mean()


class MatrixCompletion(nn.Module):
    """The dot product of the factors of the user and of the item that a row names."""

    def __init__(self):
        super().__init__()
        self.users = nn.Linear(RANK, USERS, bias=False)
        self.items = nn.Linear(RANK, ITEMS, bias=False)

    def forward(self, rows):
        return ((rows[:, :USERS] @ self.users.weight) * (rows[:, USERS:] @ self.items.weight)).sum(1)

    loss = staticmethod(functional.mse_loss)


MODELS = {"logistic": Logistic, "svm": Svm, "matrix_completion": MatrixCompletion}


def write_libsvm(seed):
    """Writes seeded rows on two sides of a plane; returns them as dense tensors."""
    random = numpy.random.default_rng(seed)
    plane = random.normal(size=COLUMNS)
    rows, targets, text = numpy.zeros((ROWS, COLUMNS), numpy.float32), [], ["# rows of two classes\n"]
    for index, row in enumerate(rows):
        columns = sorted(random.choice(COLUMNS, 0 if index == 3 else random.integers(1, 8), replace=False))
        row[columns] = random.normal(size=len(columns))
        targets.append(float(row @ plane > 0))
        pairs = "".join(f" {column + 1}:{row[column]!s}" for column in columns)
        text.append(f"{int(2 * targets[-1] - 1):+d}{pairs}\n")
    write("samples", "".join(text))
    return torch.from_numpy(rows), torch.tensor(targets)


def write_triplets(seed):
    """Writes three quarters of a matrix of rank two, in random order; returns its entries as rows and ratings."""
    random = numpy.random.default_rng(seed)
    ratings = (random.normal(size=(USERS, 2)) @ random.normal(size=(2, ITEMS))).astype(numpy.float32)
    everything = list(itertools.product(range(USERS), range(ITEMS)))
    known = sorted(random.choice(len(everything), 3 * len(everything) // 4, replace=False))
    known = [everything[index] for index in random.permutation([*known, len(everything) - 1])]
    rows = torch.zeros(len(known), USERS + ITEMS)
    for row, (user, item) in zip(rows, known, strict=True):
        row[user] = row[USERS + item] = 1
    write("samples", "".join(f"{user} {item} {ratings[user, item]!s}\n" for user, item in known))
    return rows, torch.tensor([ratings[pair] for pair in known])


def run(out, model, exchange="", loop=ALONE, workers=1, batch=8, steps=STEPS, sgd=None):
    """Trains and returns the weights by name."""
    ratings = model == "matrix_completion"
    file = write(f"{out}.toml", FILE.format(
        seed=plain.seeded(5), steps=steps, model=model, rank=f"rank = {RANK}" if ratings else "",
        data="triplets" if ratings else "libsvm", batch=batch, workers=workers, exchange=exchange,
        loop=", ".join(f'"{word}"' for word in loop.split(", ")),
        optimizer="\n".join(f"{key} = {value}" for key, value in (sgd or PLAIN).items())))
    troupe("run", file, "--out", out, "--overwrite")
    return plain.weights(out)


@functools.cache
def initial(name):
    """The weights that a run begins with: a function of model and seed."""
    write_samples(name)
    return run("initial", name, steps=0)


def write_samples(name, attempt=0):
    return write_triplets(plain.seeded(8) + attempt) if name == "matrix_completion" \
        else write_libsvm(plain.seeded(7) + attempt)


def begin(name, textbook):
    """Writes samples; returns what textbook(model, samples) makes of them, and the state that it began with. With these
    samples no margin comes within rounding of the hinge, where the gradient jumps."""
    start = initial(name)
    for attempt in range(100):
        Svm.nearest = 1.0
        samples = write_samples(name, attempt)
        model = MODELS[name]()
        model.load_state_dict(start)
        result = textbook(model, samples)
        if Svm.nearest > 1e-5:
            return result, start
    raise AssertionError("no samples keep their distance from the hinge")


def content(out):
    return pathlib.Path(out, "model.safetensors").read_bytes()


def check_alone(sgd, exchanges, batches=(1, 8), textbook=plain.train):
    """One worker comes to what textbook(model, samples, …) does, with each of these exchanges to the same bytes."""
    for name, batch in itertools.product(MODELS, batches):
        def train(model, samples, batch=batch):
            textbook(model, samples, STEPS, batch, **{"momentum": 0, "weight_decay": 0, **sgd})
            return model.state_dict()

        expected, start = begin(name, train)
        largest = plain.assert_equal(run("alone", name, batch=batch, sgd=sgd), expected, start)
        moved = max((values - start[key]).abs().max().item() for key, values in expected.items())
        print(f"  {name}, batch {batch}: largest difference {largest:.1e}, moved by up to {moved:.2f}")
        assert moved > 0.1, "it hardly trained"
        for exchange in exchanges:
            run("other", name, batch=batch, sgd=sgd, exchange=exchange)
            assert content("other") == content("alone"), f"{name}, batch {batch}: other bytes with {exchange}"


def shared(settings=""):
    return f'[exchange]\nkind = "shared"\n{settings}'


@thorough
def test_steps_on_the_rows():
    check_alone(PLAIN, ["", shared(), shared("lock = true"), shared("atomic = true")])


def test_steps_by_backward_passes():
    check_alone(HEAVY, ["", shared(), shared("lock = true")])


def test_nesterov_by_backward_passes():
    sgd = {"lr": 0.02, "momentum": 0.9, "nesterov": True}

    def nesterov(model, samples):
        worker = plain.workers_of(model, samples, 1, 8, **sgd)[0]
        for step in range(STEPS):
            worker.gradient(step)
            worker.step()
        return worker.model.state_dict()

    for name in MODELS:
        expected, start = begin(name, nesterov)
        plain.assert_equal(run("alone", name, sgd={**sgd, "nesterov": "true"}), expected, start)


def decaying_where_touched(model, samples, steps, batch, lr, weight_decay, **_):
    """A coordinate of a row decays by weight_decay times all rows over those that have it; an epoch decays every
    coordinate alike. (Niu, Recht, Re, Wright 2011, section 2, equation 3, whose mu/2 is divided so.)"""
    rows, targets = samples
    touched = (rows != 0).float()
    share = len(rows) / touched.sum(0)
    parameters = list(model.parameters())
    for step in range(steps):
        first = step % (len(rows) // batch) * batch
        now = slice(first, first + batch)
        pull = weight_decay * (touched[now] * share).mean(0)  # by column
        pulls = pull.split([len(each) for each in parameters]) if len(parameters) > 1 else [pull]
        model.zero_grad()
        model.loss(model(rows[now]), targets[now]).backward()
        with torch.no_grad():
            for x, decay in zip(parameters, pulls, strict=True):
                x -= lr * (x.grad + (decay if len(parameters) == 1 else decay.unsqueeze(1)) * x)


def test_weight_decay_of_steps_on_the_rows():
    check_alone({"lr": 0.1, "weight_decay": 0.02}, [shared(), shared("atomic = true")],
                textbook=decaying_where_touched)


def test_weight_decay_moves_every_coordinate_alike_in_an_epoch():
    """With a rate so small that x hardly moves within the epoch: first order in it, the plain weight decay."""
    sgd = {"lr": 1e-3, "weight_decay": 0.5}
    write_samples("svm")
    x = initial("svm")["weight"]
    found = run("decayed", "svm", batch=1, steps=ROWS, sgd=sgd)["weight"]
    without = run("kept", "svm", batch=1, steps=ROWS, sgd={"lr": 1e-3})["weight"]
    lost = (without - found) / (sgd["lr"] * sgd["weight_decay"] * ROWS)
    apart = (lost - x).abs().max().item()
    print(f"  apart by {apart:.3f} of {x.abs().max():.3f}")
    assert apart < 0.1 * x.abs().max(), apart


def check_workers(algorithm, exchange, loop, sgd, batch=8, count=3):
    """Compares the mean of the workers, and how far they are apart, with those of algorithm(workers)."""
    for name in MODELS:
        wiring = {"exchange": exchange, "loop": loop, "workers": count, "sgd": sgd, "batch": batch}

        def train(model, samples):
            workers = plain.workers_of(model, samples, count, batch, **sgd)
            algorithm(workers)
            return workers

        workers, start = begin(name, train)
        expected = plain.state_of(workers[0].model, plain.mean_of(workers))
        largest = plain.assert_equal(run("trained", name, **wiring), expected, start)
        expected, found = plain.consensus_distance(workers), metrics("trained")[-1]["consensus_distance"] or 0
        print(f"  {name}: largest difference {largest:.1e}, consensus distance {found:.4f}")
        assert abs(found - expected) <= 1e-3 * expected + 1e-4, (found, expected)


def reduced(workers):
    """Every worker steps with the mean gradient."""
    for step in range(STEPS):
        for worker in workers:
            worker.gradient(step)
        g = plain.mean([worker.g for worker in workers])
        for worker in workers:
            worker.step(g)


def test_three_workers_under_all_reduce():
    for sgd in PLAIN, HEAVY:
        check_workers(reduced, '[exchange]\nkind = "all_reduce"', TOGETHER, sgd)


def test_three_workers_under_all_reduce_of_one_row_each():
    check_workers(reduced, '[exchange]\nkind = "all_reduce"', TOGETHER, PLAIN, batch=1)


GOSSIP = '[exchange]\nkind = "gossip"\ngraph = "ring"'


def test_four_workers_that_gossip_before_their_step():
    check_workers(lambda workers: plain.dpsgd(workers, STEPS, plain.ring(4)), GOSSIP, TOGETHER, HEAVY, count=4)


def test_four_workers_that_gossip_after_steps_on_the_rows():
    check_workers(lambda workers: plain.step_then_mix(workers, STEPS, plain.ring(4)), GOSSIP, STEP_FIRST, PLAIN,
                  count=4)


def test_three_workers_that_average_every_fourth_step_on_the_rows():
    check_workers(lambda workers: plain.local_sgd(workers, STEPS, every=4),
                  '[exchange]\nkind = "all_reduce"\nsends = "parameters"\nevery = 4', STEP_FIRST, PLAIN)


main(globals())
