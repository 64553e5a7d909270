"""How many images per second does a worker train on one GPU, compared with PyTorch's eager loop?

resnet18_small_images, whose step is bound by the GPU's arithmetic rather than by launches (854 GFLOP for a batch of
256 random 3x32x32 images in CIFAR-10's format), with SGD with momentum, float32, in alternating rounds. Both run
without TF32, which Troupe never uses; PyTorch also runs with its default, TF32 in convolutions. The last line of the
output is JSON with the medians of the rounds. bfloat16 is not measured.
"""

import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

import torch
from torch.nn import functional

BATCH, STEPS, ROUNDS = 256, 60, 3
EPOCHS = 4  # Troupe's, of STEPS each; the first, which initialises the GPU, is not counted
IMAGES = BATCH * STEPS


def random_cifar(folder):
    path = pathlib.Path(folder, "cifar-10-batches-bin")
    path.mkdir()
    generator = torch.Generator().manual_seed(1)
    for name, count in [(f"data_batch_{i}", IMAGES // 5) for i in range(1, 6)] + [("test_batch", 256)]:
        records = torch.randint(0, 256, (count, 3073), dtype=torch.uint8, generator=generator)
        records[:, 0] %= 10
        (path / f"{name}.bin").write_bytes(records.numpy().tobytes())


def ours(folder):
    file = pathlib.Path(folder, "bench.toml")
    file.write_text(f"""
[run]
epochs = {EPOCHS}
[model]
name = "resnet18_small_images"
[data]
name = "cifar10"
dir = "{folder}"
batch_size = {BATCH}
[optimizer]
lr = 0.01
momentum = 0.9
[workers]
device = "cuda:0"
[evaluate]
every = "{EPOCHS} epochs"
""")
    out = pathlib.Path(folder, "out")
    subprocess.run([os.environ["TROUPE_BINARY"], "run", file, "--out", out, "--overwrite", "--quiet"], check=True)
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    epochs = [line["samples_per_second"] for line in lines if line["event"] == "epoch"]
    return statistics.median(epochs[1:])


def eager(tf32):
    from plain_published import Resnet18SmallImages  # of tests/parity

    torch.backends.cudnn.allow_tf32 = tf32
    model = Resnet18SmallImages(channels=3).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images = torch.rand(BATCH, 3, 32, 32).pin_memory()
    labels = torch.randint(0, 10, (BATCH,)).pin_memory()

    def step():
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(images.cuda(non_blocking=True)), labels.cuda(non_blocking=True))
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(10):
        step()
    torch.cuda.synchronize()
    begin = time.monotonic()
    for _ in range(STEPS):
        loss = step()
    loss.item()
    torch.cuda.synchronize()
    return BATCH * STEPS / (time.monotonic() - begin)


def main():
    result = {"subject": f"resnet18_small_images, batch {BATCH}, 3x32x32, float32, images a second"}
    with tempfile.TemporaryDirectory() as folder:
        random_cifar(folder)
        rounds = [(ours(folder), eager(False), eager(True)) for _ in range(ROUNDS)]
    names = ("troupe", "PyTorch eager", "PyTorch eager with TF32")
    for name, values in zip(names, zip(*rounds)):
        result[name] = round(statistics.median(values), 1)
    print(json.dumps(result))


main()
