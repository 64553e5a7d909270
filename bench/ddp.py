#!/usr/bin/env python3
"""How fast is Troupe's distributed data parallelism, compared with PyTorch's? Four ranks on one machine, with the same
network, batch and data.

Troupe: four workers of one process, all_reduce in buckets. PyTorch: four processes, DistributedDataParallel over gloo,
as PyTorch recommends. One intra-op thread each; both also without exchange. Runs alternate.
    .venv/bin/python bench/ddp.py [repetitions] [convnet|resnet20]
    (scripts/setup --python installs the packages that it imports)
"""

import pathlib
import sys
import tempfile
import time

import torch
from torch import distributed, multiprocessing
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests/parity"))
from measure import ALONE, TOGETHER, interleave, repetitions, setting, show, spread, troupe_rate  # noqa: E402
from plain import Convnet, write_cifar10, write_mnist  # noqa: E402
from plain_resnet import resnet20  # noqa: E402

WORKERS = 4
#         network, loss, data set, function that writes the data, batch per rank, steps per run
TASKS = {"convnet": (Convnet, functional.nll_loss, "mnist", write_mnist, 64, 150),
         "resnet20": (lambda: resnet20(3), functional.cross_entropy, "cifar10", write_cifar10, 32, 40)}
BUCKETS = '[exchange]\nkind = "all_reduce"\nsend = "bucket"\nbucket_mb = 0.25'


def troupe(name, folder, loop, exchange=""):
    """Returns samples per second over all workers, without evaluation."""
    _, _, data, _, batch, steps = TASKS[name]
    return troupe_rate(model=name, data=f'name = "{data}"\ndir = "{folder}"', batch=batch, steps=steps, workers=WORKERS,
                       loop=loop, exchange=exchange)[0]


def work(rank, name, folder, wrapped, samples, answer):
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{answer}.store", rank=rank, world_size=WORKERS)
    network, loss, _, _, batch, steps = TASKS[name]
    torch.manual_seed(rank)
    images, labels = (each[rank::WORKERS] for each in samples)
    model = network()
    if wrapped:
        model = DistributedDataParallel(model, bucket_cap_mb=0.25)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.5)

    def train(count):
        for _ in range(count):
            chosen = torch.randint(0, len(labels), (batch,))
            optimizer.zero_grad()
            loss(model(images[chosen]), labels[chosen]).backward()
            optimizer.step()

    train(2)  # the first steps build buckets and kernels
    distributed.barrier()
    begin = time.monotonic()
    train(steps)
    distributed.barrier()
    if rank == 0:
        pathlib.Path(answer).write_text(str(WORKERS * batch * steps / (time.monotonic() - begin)))
    distributed.destroy_process_group()


def pytorch(name, folder, wrapped, samples):
    with tempfile.TemporaryDirectory() as own:
        multiprocessing.spawn(work, (name, folder, wrapped, samples, f"{own}/rate"), nprocs=WORKERS)
        return float(pathlib.Path(own, "rate").read_text())


def compare(name, rounds):
    with tempfile.TemporaryDirectory() as folder:
        _, _, _, write, batch, steps = TASKS[name]
        samples, _ = write(folder, training=WORKERS * batch * 8)
        results = interleave({
            "Troupe, exchanging nothing": lambda: troupe(name, folder, ALONE),
            "Troupe, all_reduce in buckets": lambda: troupe(name, folder, TOGETHER, BUCKETS),
            "PyTorch, exchanging nothing": lambda: pytorch(name, folder, False, samples),
            "PyTorch, DDP over gloo": lambda: pytorch(name, folder, True, samples),
        }, rounds)
    print(f"{name}, batch {batch} a rank, {steps} steps, {WORKERS} ranks")
    for variant, rates in results.items():
        show(variant, rates, "samples/s")
    ours_alone, ours, theirs_alone, theirs = results.values()
    for text, above, below in (("Troupe's buckets over PyTorch's DDP", ours, theirs),
                               ("Troupe keeps of its speed without exchange", ours, ours_alone),
                               ("PyTorch keeps of its speed without exchange", theirs, theirs_alone)):
        median, deviation = spread([a / b for a, b in zip(above, below, strict=True)])
        print(f"  {text}: {median:.3f} ± {deviation:.3f} (median of pairs)")


if __name__ == "__main__":
    setting()
    print(f"PyTorch {torch.__version__}")
    for task in sys.argv[2:] or TASKS:
        compare(task, repetitions())
