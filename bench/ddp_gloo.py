#!/usr/bin/env python3
"""The neighbour's figure for bench/all_reduce_scaling.py: what do four processes of PyTorch's DistributedDataParallel
with gloo keep of the speed of the same four without it? Same convnet, batch 64 a process, one thread each.

    .venv/bin/python bench/ddp_gloo.py [repetitions]      (scripts/setup --python installs what it imports)
"""

import pathlib
import sys
import tempfile
import time

import torch
from torch import distributed, multiprocessing
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests/parity"))
from measure import repetitions, setting, show, spread  # noqa: E402
from plain import Convnet  # noqa: E402

WORKERS, BATCH, STEPS = 4, 64, 200


def work(rank, store, rounds, answers):
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=WORKERS)
    torch.manual_seed(rank)
    images, labels = torch.randn(4096, 1, 28, 28), torch.randint(0, 10, (4096,))
    for round_number in range(rounds):
        for wrapped in (False, True):
            model = Convnet()
            if wrapped:
                model = DistributedDataParallel(model)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.5)
            distributed.barrier()
            begin = time.monotonic()
            for _ in range(STEPS):
                chosen = torch.randint(0, 4096, (BATCH,))
                optimizer.zero_grad()
                Convnet.loss(model(images[chosen]), labels[chosen]).backward()
                optimizer.step()
            distributed.barrier()
            if rank == 0 and round_number:  # the first round warms up
                answers.put((wrapped, WORKERS * BATCH * STEPS / (time.monotonic() - begin)))
    distributed.destroy_process_group()


if __name__ == "__main__":
    rounds = repetitions()
    answers = multiprocessing.get_context("spawn").SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(work, (f"{folder}/store", rounds + 1, answers), nprocs=WORKERS)
    results = {False: [], True: []}
    for _ in range(2 * rounds):
        wrapped, rate = answers.get()
        results[wrapped].append(rate)
    setting()
    print(f"PyTorch {torch.__version__}")
    show("four processes exchanging nothing", results[False], "samples/s")
    show("four processes under DDP with gloo", results[True], "samples/s")
    median, deviation = spread([with_it / without for without, with_it in zip(results[False], results[True])])
    print(f"  kept of the speed without exchange: {median:.3f} ± {deviation:.3f}")
