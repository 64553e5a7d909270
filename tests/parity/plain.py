"""The reference in plain PyTorch: models, data in MNIST's format, SGD in one process and distributed, and comparisons.
Independent of Troupe."""

import copy
import os
import pathlib
import struct

import numpy
import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional
from torch.nn.utils import parameters_to_vector, vector_to_parameters

torch.set_num_threads(1)


def seeded(number):
    """Returns the seed to use where a script names `number`: another one for each TROUPE_PARITY_SEED, 0 by default."""
    return number + 1000 * int(os.environ.get("TROUPE_PARITY_SEED", "0"))


class Lenet(nn.Module):
    """20@3x3, 50@5x5, average pools, 800 -> 128 -> 10; nothing random."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 20, 3)
        self.conv2 = nn.Conv2d(20, 50, 5)
        self.fc1 = nn.Linear(800, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x):
        x = functional.avg_pool2d(functional.relu(self.conv1(x)), 2)
        x = functional.avg_pool2d(functional.relu(self.conv2(x)), 2)
        return self.fc2(functional.relu(self.fc1(x.flatten(1))))

    loss = staticmethod(functional.cross_entropy)


class Smooth(Lenet):
    """Lenet with a tanh or softplus for each rectifier. Its gradient is continuous, so a difference in rounding stays
    small; a rectifier can turn it into another gradient."""

    def forward(self, x):
        x = functional.avg_pool2d(torch.tanh(self.conv1(x)), 2)
        x = functional.avg_pool2d(functional.softplus(self.conv2(x)), 2)
        return self.fc2(torch.tanh(self.fc1(x.flatten(1))))


class Small(nn.Module):
    """970 parameters: pixels averaged 4 by 4, one layer of tanh."""

    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(49, 16)
        self.fc2 = nn.Linear(16, 10)

    def forward(self, x):
        return self.fc2(torch.tanh(self.fc1(functional.avg_pool2d(x, 4).flatten(1))))

    loss = staticmethod(functional.cross_entropy)


class Convnet(nn.Module):
    """The network of PyTorch's MNIST example as it was until 2019. Dropout draws from `generator`, or else the default
    one, in float32 whatever the precision of the rest."""

    generator = None

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 10, 5)
        self.conv2 = nn.Conv2d(10, 20, 5)
        self.fc1 = nn.Linear(320, 50)
        self.fc2 = nn.Linear(50, 10)

    def dropped(self, x, shape):
        """x, half of it zeroed and the rest doubled; `shape` is that of the mask."""
        return x * torch.empty(shape).bernoulli_(0.5, generator=self.generator).div_(0.5) if self.training else x

    def forward(self, x):
        x = functional.relu(functional.max_pool2d(self.conv1(x), 2))
        x = self.conv2(x)
        x = functional.relu(functional.max_pool2d(self.dropped(x, (*x.shape[:2], 1, 1)), 2))
        x = functional.relu(self.fc1(x.flatten(1)))
        return functional.log_softmax(self.fc2(self.dropped(x, x.shape)), 1)

    loss = staticmethod(functional.nll_loss)


MODELS = {"lenet": Lenet, "convnet": Convnet}
MEAN, STD = 0.1307, 0.3081


def write_mnist(folder, training=480, test=64):
    """Writes seeded noise with a pattern for each class into `folder`/mnist; returns ((images, labels), …) as read."""
    random = numpy.random.default_rng(seeded(7))
    patterns = random.integers(0, 160, (10, 28, 28))
    where = pathlib.Path(folder, "mnist")
    where.mkdir(parents=True, exist_ok=True)
    sets = []
    for name, count in (("train", training), ("t10k", test)):
        labels = random.integers(0, 10, count).astype(numpy.uint8)
        images = (patterns[labels] + random.integers(0, 96, (count, 28, 28))).astype(numpy.uint8)
        (where / f"{name}-images-idx3-ubyte").write_bytes(struct.pack(">iiii", 2051, count, 28, 28) + images.tobytes())
        (where / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">ii", 2049, count) + labels.tobytes())
        pixels = torch.from_numpy(images).unsqueeze(1).float()
        sets.append(((pixels / 255 - MEAN) / STD, torch.from_numpy(labels).long()))
    return sets


CIFAR_MEAN, CIFAR_STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


def write_cifar10(folder, training=480, test=64):
    """As write_mnist(), in CIFAR-10's binary format: five training files and one for the test."""
    random = numpy.random.default_rng(seeded(7))
    patterns = random.integers(0, 160, (10, 3, 32, 32))
    mean, std = (torch.tensor(each).view(3, 1, 1) for each in (CIFAR_MEAN, CIFAR_STD))
    where = pathlib.Path(folder, "cifar-10-batches-bin")
    where.mkdir(parents=True, exist_ok=True)
    sets = []
    for names, count in (([f"data_batch_{number}" for number in range(1, 6)], training), (["test_batch"], test)):
        labels = random.integers(0, 10, count).astype(numpy.uint8)
        images = (patterns[labels] + random.integers(0, 96, (count, 3, 32, 32))).astype(numpy.uint8)
        records = numpy.concatenate([labels[:, None], images.reshape(count, -1)], axis=1)
        for name, part in zip(names, numpy.array_split(records, len(names)), strict=True):
            (where / f"{name}.bin").write_bytes(part.tobytes())
        pixels = torch.from_numpy(images).float()
        sets.append(((pixels / 255 - mean) / std, torch.from_numpy(labels).long()))
    return sets


def train(model, samples, steps, batch, lr, momentum, weight_decay):
    """Textbook SGD: `batch` consecutive samples a step, from the front again where an epoch has no further full batch."""
    images, labels = samples
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=momentum, weight_decay=weight_decay)
    per_epoch = len(labels) // batch
    model.train()
    for step in range(steps):
        first = step % per_epoch * batch
        optimizer.zero_grad()
        model.loss(model(images[first:first + batch]), labels[first:first + batch]).backward()
        optimizer.step()


class Replica:
    """A model with an optimizer of its own, make(parameters) or SGD; `x` is all its parameters as one vector. `rates`:
    learning rates by step, where they are not all the same. `l2_penalty`: how much of x is added to a gradient at once."""

    def __init__(self, model, make=None, rates=None, clip_norm=None, l2_penalty=0.0, **sgd):
        self.model = copy.deepcopy(model)
        self.model.train()
        self.optimizer = make(self.model.parameters()) if make else torch.optim.SGD(self.model.parameters(), **sgd)
        self.rates, self.clip_norm, self.l2_penalty = rates, clip_norm, l2_penalty
        self.steps, self.clipped = 0, 0

    @property
    def x(self):
        return parameters_to_vector(self.model.parameters()).detach().clone()

    @x.setter
    def x(self, values):
        vector_to_parameters(values.clone(), self.model.parameters())

    @property
    def g(self):
        return parameters_to_vector([each.grad for each in self.model.parameters()])

    def step(self, g=None, at=None):
        """Steps along the gradient last computed here, or the one that is given, with the learning rate of step `at`."""
        if g is not None:
            first = 0
            for each in self.model.parameters():
                each.grad = g[first:first + each.numel()].view_as(each).clone()
                first += each.numel()
        if self.clip_norm:
            norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip_norm)
            self.clipped += int(norm > self.clip_norm)
        for group in self.optimizer.param_groups if self.rates else ():
            group["lr"] = self.rates[self.steps if at is None else at]
        self.optimizer.step()
        self.steps += 1


class Worker(Replica):
    """Sees the samples rank, rank + n, rank + 2n, ... of each epoch, `batch` at a step; every epoch has as many steps as
    the smallest share fills."""

    def __init__(self, model, samples, rank, workers, batch, **recipe):
        super().__init__(model, **recipe)
        self.images, self.labels = (each[rank::workers] for each in samples)
        self.batch, self.per_epoch = batch, len(samples[1]) // workers // batch

    def gradient(self, step):
        rows = slice(step % self.per_epoch * self.batch, (step % self.per_epoch + 1) * self.batch)
        self.optimizer.zero_grad()
        self.model.loss(self.model(self.images[rows]), self.labels[rows]).backward()
        for each in self.model.parameters() if self.l2_penalty else ():
            each.grad += self.l2_penalty * each.detach()


def workers_of(model, samples, count, batch, **recipe):
    return [Worker(model, samples, rank, count, batch, **recipe) for rank in range(count)]


def mean(vectors):
    """Added one by one, in order: a network with rectifiers turns the rounding of another order into another result."""
    return sum(vectors) / len(vectors)


def mean_of(workers):
    return mean([worker.x for worker in workers])


def mix(workers, W):
    """x_i <- sum_j W[i][j] x_j, all at once."""
    before = [worker.x for worker in workers]
    for worker, row in zip(workers, W, strict=True):
        worker.x = sum(weight * x for weight, x in zip(row, before, strict=True))


def due(step, every, from_start=False):
    """Before step `step`, which is as many as are completed; at 0 only if every = 1, or from the start."""
    return every == 1 or ((from_start or step > 0) and step % every == 0)


def dpsgd(workers, steps, W, every=1):
    """Decentralised SGD: the gradient at x_i, x_i <- sum_j W[i][j] x_j, the step. (Lian et al. 2017, algorithm 1.)"""
    for step in range(steps):
        for worker in workers:
            worker.gradient(step)
        if due(step, every):
            mix(workers, W)
        for worker in workers:
            worker.step()


def step_then_mix(workers, steps, W, every=1):
    """Adapt, then combine."""
    for step in range(steps):
        for worker in workers:
            worker.gradient(step)
            worker.step()
        if due(step + 1, every):
            mix(workers, W)


def local_sgd(workers, steps, every):
    """Model averaging: each for himself; after every `every` steps all take the mean. Momentum stays where it is."""
    step_then_mix(workers, steps, complete(len(workers)), every)


def pairs_then_gossip(pairs, steps, every):
    """Each pair steps with its mean gradient; after every `every` steps all take the mean over the pairs."""
    everybody = [worker for pair in pairs for worker in pair]
    for step in range(steps):
        for pair in pairs:
            for worker in pair:
                worker.gradient(step)
            g = mean([worker.g for worker in pair])
            for worker in pair:
                worker.step(g)
        if due(step + 1, every):
            mix(everybody, complete(len(everybody)))


def easgd(workers, steps, every, alpha):
    """Synchronous elastic averaging: x_i <- x_i - a (x_i - c), c <- c + a sum_i (x_i - c), from the values before; then
    the step with the gradient at x_i before. Returns c. (Zhang, Choromanska, LeCun 2015, section 3.)"""
    centre = workers[0].x
    for step in range(steps):
        for worker in workers:
            worker.gradient(step)
        if due(step, every):
            apart = [worker.x - centre for worker in workers]
            for worker, difference in zip(workers, apart, strict=True):
                worker.x = worker.x - alpha * difference
            centre = centre + alpha * sum(apart)
        for worker in workers:
            worker.step()
    return centre


def asynchronous_easgd(workers, steps, every, alpha, order):
    """Elastic averaging where the centre moves at each arrival; `order` are the workers in the order in which it takes
    their parameters: before the steps 0, every, 2 every, … Returns c. (Zhang, Choromanska, LeCun 2015, algorithm 1.)"""
    centre = workers[0].x
    done = [0] * len(workers)

    def go_on(rank):
        """Steps until there is something to exchange, with the gradient of that step at hand; or to the end."""
        while done[rank] < steps:
            workers[rank].gradient(done[rank])
            if due(done[rank], every, from_start=True):
                return
            workers[rank].step()
            done[rank] += 1

    for rank in range(len(workers)):
        go_on(rank)
    for rank in order:
        pull = alpha * (workers[rank].x - centre)
        workers[rank].x = workers[rank].x - pull
        centre = centre + pull
        workers[rank].step()
        done[rank] += 1
        go_on(rank)
    assert done == [steps] * len(workers), "an order in which all workers come to their end"
    return centre


def parameter_server(server, workers, steps):
    """Synchronous: the server steps with the mean of all gradients; all go on from what it has then."""
    for step in range(steps):
        for worker in workers:
            worker.gradient(step)
        server.step(mean([worker.g for worker in workers]))
        for worker in workers:
            worker.x = server.x


def asgd(server, workers, order):
    """Asynchronous: the server steps with each gradient as it comes, in `order`, and answers with what it has then.
    Returns how many updates each gradient lay behind. (Dean et al. 2012, section 4.1.)"""
    done, read = [0] * len(workers), [0] * len(workers)
    staleness = []
    for version, rank in enumerate(order):
        staleness.append(version - read[rank])
        workers[rank].gradient(done[rank])  # its x is still that of its last answer
        server.step(workers[rank].g, at=done[rank])
        workers[rank].x = server.x
        done[rank], read[rank] = done[rank] + 1, version + 1
    return staleness


def complete(n):
    return [[1 / n] * n for _ in range(n)]


def metropolis(n, edges):
    """W[i][j] = 1 / (1 + max(d_i, d_j)) for neighbours, the rest of each row on its diagonal."""
    degree = [sum(node in edge for edge in edges) for node in range(n)]
    W = [[0.0] * n for _ in range(n)]
    for i, j in edges:
        W[i][j] = W[j][i] = 1 / (1 + max(degree[i], degree[j]))
    for i in range(n):
        W[i][i] = 1 - sum(W[i])
    return W


def ring(n):
    return metropolis(n, [(i, (i + 1) % n) for i in range(n)])


def exponential(n):
    """Directed: i sends to i + 1, i + 2, i + 4, ... (mod n), and so hears i - 1, i - 2, ...; all with the same weight."""
    offsets = [2 ** k for k in range(n) if 2 ** k < n]
    W = [[0.0] * n for _ in range(n)]
    for i in range(n):
        for offset in (0, *offsets):
            W[i][(i - offset) % n] += 1 / (1 + len(offsets))
    return W


def consensus_distance(workers):
    """How far the workers are apart: sqrt(mean_i |x_i - mean|^2)."""
    x = mean_of(workers)
    return mean([(worker.x - x).double().square().sum() for worker in workers]).sqrt().item()


def state_of(model, x):
    """The vector x as a state dict of `model`."""
    filled = copy.deepcopy(model)
    vector_to_parameters(x, filled.parameters())
    return filled.state_dict()


def weights(folder):
    """The tensors of a run's model.safetensors by name."""
    return load_file(pathlib.Path(folder, "model.safetensors"))


def has_moved(before, after, absolute=1e-5, relative=1e-5, clear=5):
    """Whether an element has moved by `clear` times the tolerance of a comparison."""
    after = after.double()
    return ((after - before.double()).abs() > clear * (absolute + relative * after.abs())).any().item()


def assert_equal(found, expected, start, absolute=1e-5, relative=1e-5, still=(), band=None, clear=20):
    """max |d| <= absolute + relative |p|, for every tensor of a state dict, by name; returns the largest |d|.

    `start` is the state that both began with. Every tensor that is not named in `still` must have moved away from it by
    `clear` times the tolerance, or else the comparison shows nothing. `band`: what to add to the tolerance, by name."""
    assert set(found) == set(expected), set(found) ^ set(expected)
    largest = 0.0
    for name, right in expected.items():
        difference = (found[name].double() - right.double()).abs()
        allowed = absolute + relative * right.double().abs()
        largest = max(largest, difference.max().item())
        within = (difference <= allowed + (band or {}).get(name, 0)).all()
        assert within, f"{name}: off by {difference.max().item():.2e}"
        assert name in still or has_moved(start[name], right, absolute, relative, clear), f"{name} has hardly moved"
    return largest
