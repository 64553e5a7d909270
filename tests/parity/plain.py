"""The textbook, in plain PyTorch: models, data in MNIST's format, SGD, and the comparison. No Troupe in here."""

import pathlib
import struct

import numpy
import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional

torch.set_num_threads(1)


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


class Convnet(nn.Module):
    """The network of PyTorch's MNIST example as it was until 2019."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 10, 5)
        self.conv2 = nn.Conv2d(10, 20, 5)
        self.fc1 = nn.Linear(320, 50)
        self.fc2 = nn.Linear(50, 10)

    def forward(self, x):
        x = functional.relu(functional.max_pool2d(self.conv1(x), 2))
        x = functional.relu(functional.max_pool2d(functional.dropout2d(self.conv2(x), 0.5, self.training), 2))
        x = functional.dropout(functional.relu(self.fc1(x.flatten(1))), 0.5, self.training)
        return functional.log_softmax(self.fc2(x), 1)

    loss = staticmethod(functional.nll_loss)


MODELS = {"lenet": Lenet, "convnet": Convnet}
MEAN, STD = 0.1307, 0.3081


def write_mnist(folder, training=480, test=64):
    """Writes seeded noise with a pattern for each class into `folder`/mnist; returns ((images, labels), …) as read."""
    random = numpy.random.default_rng(7)
    patterns = random.integers(0, 160, (10, 28, 28))
    where = pathlib.Path(folder, "mnist")
    where.mkdir(parents=True)
    sets = []
    for name, count in (("train", training), ("t10k", test)):
        labels = random.integers(0, 10, count).astype(numpy.uint8)
        images = (patterns[labels] + random.integers(0, 96, (count, 28, 28))).astype(numpy.uint8)
        (where / f"{name}-images-idx3-ubyte").write_bytes(struct.pack(">iiii", 2051, count, 28, 28) + images.tobytes())
        (where / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">ii", 2049, count) + labels.tobytes())
        pixels = torch.from_numpy(images).unsqueeze(1).float()
        sets.append(((pixels / 255 - MEAN) / STD, torch.from_numpy(labels).long()))
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


def weights(folder):
    """The tensors of a run's model.safetensors by name."""
    return load_file(pathlib.Path(folder, "model.safetensors"))


def assert_equal(found, expected, absolute=1e-5, relative=1e-5):
    """max |d| <= absolute + relative |p|, for every tensor of a state dict, by name; returns the largest |d|."""
    assert set(found) == set(expected), set(found) ^ set(expected)
    largest = 0.0
    for name, right in expected.items():
        difference = (found[name] - right).abs()
        largest = max(largest, difference.max().item())
        beyond = (difference - absolute - relative * right.abs()).max().item()
        assert beyond <= 0, f"{name}: off by {difference.max().item():.2e}"
    return largest
