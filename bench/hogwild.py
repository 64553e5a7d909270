#!/usr/bin/env python3
"""How fast is Hogwild! on a dense network, compared with PyTorch's own example? Four workers on one machine.

Both train as mnist_hogwild of github.com/pytorch/examples does: the convnet with dropout, batch 64, SGD with a learning
rate of 0.01 and a momentum of 0.5 for each worker, each on the whole training set in its own order. Troupe: four
workers of one process under `shared`. PyTorch: the example, four processes on one model in shared memory. The example
prepares each sample in the process that trains, so it runs twice: as published, and with normalised tensors from
memory. One intra-op thread each. Runs alternate. Prints samples per second of all workers, training only.
    .venv/bin/python bench/hogwild.py [repetitions]
    (scripts/setup --python installs the packages that it imports)
As published, samples are prepared by torchvision if it is installed, and otherwise by the same operations in PyTorch,
which takes less time.
To measure accuracy after ten epochs of the real MNIST in TROUPE_DATA, with several runs of each:
    .venv/bin/python bench/hogwild.py accuracy [runs] [epochs] [Troupe|PyTorch]
"""

import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy
import torch
from torch import multiprocessing
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

try:
    from PIL import Image
    from torchvision import transforms
except ImportError:
    transforms = None  # Published then prepares samples itself, in less than half the time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests/parity"))
from measure import ALONE, BUILD, ROOT, interleave, repetitions, setting, show, spread, troupe_rate  # noqa: E402
from plain import MEAN, STD, Convnet, write_mnist  # noqa: E402

WORKERS, BATCH, LR, MOMENTUM = 4, 64, 0.01, 0.5
WARM, STEPS = 5, 150  # steps before and during the timed part of a run
SHARED = '[exchange]\nkind = "shared"'


def troupe(folder, exchange=""):
    """Returns samples per second over all workers, without evaluation."""
    return troupe_rate(data=f'name = "mnist"\ndir = "{folder}"\nsplit = "all"', batch=BATCH, steps=STEPS, lr=LR,
                       workers=WORKERS, loop=ALONE, exchange=exchange)[0]


def troupe_accuracy(seed, epochs):
    values = {"run.epochs": epochs, "run.seed": seed, "model.name": "convnet", "data.name": "mnist",
              "data.split": "all", "data.batch_size": BATCH, "optimizer.lr": LR, "optimizer.momentum": MOMENTUM,
              "workers.count": WORKERS, "evaluate.every": f"{epochs} epochs"}
    more = [word for key, value in values.items() for word in ("--set", f"{key}={value}")]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([BUILD / "troupe", "run", ROOT / "topologies/hogwild.toml", "--out", f"{folder}/out", "--quiet",
                        *more], check=True)
        end = json.loads(pathlib.Path(folder, "out/metrics.jsonl").read_text().splitlines()[-1])
    return end["val_accuracy"], end["seconds"]


def normalised(images):
    """Returns bytes [N, 28, 28] as normalised floats [N, 1, 28, 28]."""
    return (images.unsqueeze(1).float() / 255 - MEAN) / STD


class Published(Dataset):
    """Prepares a sample when it is requested, as torchvision's MNIST does: image, ToTensor, Normalize."""

    def __init__(self, images, labels):
        self.images, self.labels = images, labels
        if transforms:
            self.transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((MEAN,), (STD,))])

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        image, label = self.images[index], int(self.labels[index])
        if transforms:
            return self.transform(Image.fromarray(image.numpy())), label
        sample = image.clone().view(28, 28, 1).permute(2, 0, 1).contiguous().float().div(255)
        mean, std = torch.as_tensor((MEAN,)).view(-1, 1, 1), torch.as_tensor((STD,)).view(-1, 1, 1)
        return sample.clone().sub_(mean).div_(std), label


class InMemory:
    """Iterates over an epoch of batches, gathered from tensors in random order; the last batch may be smaller."""

    def __init__(self, images, labels):
        self.images, self.labels = images, labels

    def __len__(self):
        return -(-len(self.labels) // BATCH)

    def __iter__(self):
        for chosen in torch.randperm(len(self.labels)).split(BATCH):
            yield self.images[chosen], self.labels[chosen]


def published(images, labels):
    # On a CPU, the example uses no loader processes: the worker prepares its own samples.
    return DataLoader(Published(images, labels), batch_size=BATCH, shuffle=True)


def work(rank, model, samples, feed, steps, seed, barrier, seconds):
    """Runs one process of the example: `steps` steps after some that are not timed. Rank 0 records the seconds of the
    slowest process."""
    torch.set_num_threads(1)
    torch.manual_seed(seed + rank)
    batches = feed(*samples)
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=MOMENTUM)
    model.train()

    def train(source, count):
        for _ in range(count):
            try:
                images, labels = next(source)
            except StopIteration:
                source = iter(batches)
                images, labels = next(source)
            optimizer.zero_grad()  # to None, so that each process has its own gradients
            functional.nll_loss(model(images), labels).backward()
            optimizer.step()
        return source

    source = train(iter(batches), WARM if barrier else 0)
    if barrier:
        barrier.wait()
    begin = time.monotonic()
    train(source, steps or len(batches))
    if barrier:
        barrier.wait()
    if rank == 0:
        seconds[0] = time.monotonic() - begin


def pytorch(samples, feed):
    torch.manual_seed(1)
    model = Convnet().share_memory()
    seconds = torch.zeros(1, dtype=torch.float64).share_memory_()
    barrier = multiprocessing.get_context("spawn").Barrier(WORKERS)
    multiprocessing.spawn(work, (model, samples, feed, STEPS, 1, barrier, seconds), nprocs=WORKERS)
    return WORKERS * BATCH * STEPS / seconds.item()


def pytorch_accuracy(training, test, seed, epochs):
    torch.manual_seed(seed)
    model = Convnet().share_memory()
    seconds = torch.zeros(1, dtype=torch.float64).share_memory_()
    steps = epochs * len(InMemory(*training))
    multiprocessing.spawn(work, (model, training, InMemory, steps, seed, None, seconds), nprocs=WORKERS)
    model.eval()
    with torch.no_grad():
        correct = sum((model(images).argmax(1) == labels).sum().item()
                      for images, labels in zip(test[0].split(1000), test[1].split(1000), strict=True))
    return correct / len(test[1]), seconds.item()


def read_idx(path):
    """Returns the bytes of a file of the MNIST family, packed or not, as a tensor of any shape."""
    packed = path.with_name(path.name + ".gz")
    content = path.read_bytes() if path.exists() else gzip.decompress(packed.read_bytes())
    dimensions = content[3]
    shape = numpy.frombuffer(content, ">i4", dimensions, 4).tolist()
    return torch.from_numpy(numpy.frombuffer(content, numpy.uint8, offset=4 + 4 * dimensions).reshape(shape).copy())


def read_mnist(folder):
    """Returns [(images, labels), …] for training set and test set; images are bytes."""
    return [(read_idx(folder / f"{name}-images-idx3-ubyte"), read_idx(folder / f"{name}-labels-idx1-ubyte").long())
            for name in ("train", "t10k")]


def compare_speed():
    with tempfile.TemporaryDirectory() as folder:
        write_mnist(folder, training=60_000, test=1000)
        (images, labels), _ = read_mnist(pathlib.Path(folder, "mnist"))
        in_memory = normalised(images), labels
        results = interleave({
            "Troupe, each alone": lambda: troupe(folder),
            "Troupe, shared": lambda: troupe(folder, SHARED),
            "PyTorch's example, fed from memory": lambda: pytorch(in_memory, InMemory),
            "PyTorch's example, as published": lambda: pytorch((images, labels), published),
        }, repetitions())
    setting()
    print(f"PyTorch {torch.__version__}; samples as published {'with' if transforms else 'without'} torchvision")
    print(f"convnet, batch {BATCH}, {STEPS} steps, {WORKERS} workers, each on all of 60,000 samples")
    for variant, rates in results.items():
        show(variant, rates, "samples/s")
    alone, shared, memory, as_published = results.values()
    for text, below in (("Troupe's shared memory over no exchange", alone),
                        ("Troupe over PyTorch's example, fed from memory", memory),
                        ("Troupe over PyTorch's example, as published", as_published)):
        median, deviation = spread([a / b for a, b in zip(shared, below, strict=True)])
        print(f"  {text}: {median:.3f} ± {deviation:.3f} (median of pairs)")


def compare_accuracy(runs=5, epochs=10, *sides):
    folder = pathlib.Path(os.environ.get("TROUPE_DATA", "nowhere"), "mnist")
    if not folder.is_dir():
        sys.exit("TROUPE_DATA does not name a folder that contains mnist/; troupe data fetch mnist downloads it")
    training, test = ((normalised(images), labels) for images, labels in read_mnist(folder))
    variants = {"Troupe": troupe_accuracy, "PyTorch": lambda seed, count: pytorch_accuracy(training, test, seed, count)}
    results = {name: [] for name in sides or variants}
    for run in range(int(runs)):
        for name, found in results.items():
            found.append(variants[name](1 + 100 * run, int(epochs)))  # a worker's seed is this plus its rank
            print(f"{name}: {100 * found[-1][0]:.2f} % in {found[-1][1]:.0f} s", file=sys.stderr, flush=True)
    setting()
    print(f"PyTorch {torch.__version__}")
    print(f"MNIST, convnet, batch {BATCH}, {epochs} epochs, {WORKERS} workers, each on all of it")
    for name, found in results.items():
        show(f"{name}, shared memory", [100 * accuracy for accuracy, _ in found], "% of the test set")
        show(f"{name}, training", [seconds for _, seconds in found], "s")


if __name__ == "__main__":
    if sys.argv[1:2] == ["accuracy"]:
        compare_accuracy(*sys.argv[2:])
    else:
        compare_speed()
