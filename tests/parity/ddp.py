"""Troupe's buckets and synchronised batch norm against PyTorch's own DistributedDataParallel and SyncBatchNorm.

ResNet-20, four ranks, twenty steps, gloo; shuffle off, one intra-op thread on both sides. LibTorch has no CPU kernels
for SyncBatchNorm's statistics, so this script brings the textbook's; the layer, its gradient and its messages are
PyTorch's. The steps are small: gloo adds in an order of its own, and rectifiers under batch norms multiply a difference by
two or three in each (1e-7 after the first step, 1e-4 after twenty, with a rate of 0.001)."""

import pathlib
import sys
import tempfile

try:
    import torch
    from plain import assert_equal, weights, write_cifar10
    from plain_resnet import resnet20
    from torch import distributed, multiprocessing, nn
    from torch.nn.modules import _functions
    from torch.nn.parallel import DistributedDataParallel
except ImportError as error:
    print(f"SKIPPED: {error}; scripts/setup --python installs what the parity tests import")
    sys.exit(77)

from troupe_command import main, troupe, write

RANKS, BATCH, STEPS = 4, 8, 20
SGD = {"lr": 0.0003, "momentum": 0.9, "weight_decay": 0.0001}
FILE = """
[run]
seed = 5
steps = {steps}
[model]
name = "resnet20"
sync_batch_norm = {synchronised}
[data]
name = "cifar10"
dir = "."
batch_size = {batch}
{micro}
shuffle = false
[optimizer]
lr = 0.0003
momentum = 0.9
weight_decay = 0.0001
{clip}
[workers]
count = 4
[exchange]
kind = "all_reduce"
send = "{send}"
bucket_mb = 0.25
[evaluate]
every = "1000000 steps"
"""


def run(out, steps=STEPS, send="bucket", synchronised=False, micro=None, clip=None, batch=BATCH):
    troupe("run", write(f"{out}.toml", FILE.format(
        steps=steps, send=send, synchronised=str(synchronised).lower(), batch=batch,
        micro=f"micro_batch_size = {micro}" if micro else "", clip=f"clip_norm = {clip}" if clip else "")), "--out", out,
           "--overwrite")
    return weights(out)


def kernels():
    """The statistics of torch.nn.SyncBatchNorm on the CPU."""
    library = torch.library.Library("aten", "IMPL")

    def over_channels(x):
        return x.transpose(0, 1).reshape(x.size(1), -1)

    def shaped(x):
        return x.view(1, -1, 1, 1)

    def stats(x, eps):
        rows = over_channels(x)
        return rows.mean(1), (rows.var(1, unbiased=False) + eps).rsqrt()

    def gather(x, means, invstds, running_mean, running_var, momentum, eps, counts):
        share = (counts / counts.sum()).unsqueeze(1)
        mean = (share * means).sum(0)
        variance = (share * (invstds.pow(-2) - eps + (means - mean) ** 2)).sum(0)
        if running_mean is not None:
            running_mean.mul_(1 - momentum).add_(momentum * mean)
            running_var.mul_(1 - momentum).add_(momentum * variance * counts.sum() / (counts.sum() - 1))
        return mean, (variance + eps).rsqrt()

    def elemt(x, weight, bias, mean, invstd, eps):
        return (x - shaped(mean)) * shaped(invstd) * shaped(weight) + shaped(bias)

    def backward_reduce(dy, x, mean, invstd, weight, *_):
        sum_dy = over_channels(dy).sum(1)
        sum_dy_xmu = over_channels(dy * (x - shaped(mean))).sum(1)
        return sum_dy, sum_dy_xmu, sum_dy_xmu * invstd, sum_dy

    def backward_elemt(dy, x, mean, invstd, weight, sum_dy, sum_dy_xmu, counts):
        n = counts.sum()
        return ((dy - shaped(sum_dy / n) - (x - shaped(mean)) * shaped(invstd ** 2 * sum_dy_xmu / n))
                * shaped(invstd * weight))

    for name, kernel in (("batch_norm_stats", stats), ("batch_norm_gather_stats_with_counts", gather),
                         ("batch_norm_elemt", elemt), ("batch_norm_backward_reduce", backward_reduce),
                         ("batch_norm_backward_elemt", backward_elemt)):
        library.impl(name, kernel, "CPU")
    return library


class SyncBatchNorm(nn.BatchNorm2d):
    """PyTorch's, without its refusal (and DDP's) of CPU tensors."""

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        self.num_batches_tracked.add_(1)
        return _functions.SyncBatchNorm.apply(x, self.weight, self.bias, self.running_mean, self.running_var, self.eps,
                                              self.momentum, distributed.group.WORLD, distributed.get_world_size())


def synchronise(model):
    for name, child in model.named_children():
        if isinstance(child, nn.BatchNorm2d):
            replacement = SyncBatchNorm(child.num_features)
            replacement.load_state_dict(child.state_dict())
            setattr(model, name, replacement)
        else:
            synchronise(child)


def train(rank, store, options, samples, initial, answers):
    torch.set_num_threads(1)
    library = kernels()
    assert library
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    model = resnet20(3)
    model.load_state_dict(initial)
    if options["synchronised"]:
        synchronise(model)
    model.train()
    wrapped = DistributedDataParallel(model, bucket_cap_mb=0.25, broadcast_buffers=False)
    optimizer = torch.optim.SGD(model.parameters(), **SGD)
    images, labels = (each[rank::RANKS] for each in samples)
    batch = options["batch"]
    micro = options["micro"] or batch
    for step in range(STEPS):
        optimizer.zero_grad()
        for first in range(step * batch, (step + 1) * batch, micro):
            rows = slice(first, first + micro)
            wrapped.require_backward_grad_sync = first + micro == (step + 1) * batch
            loss = nn.functional.cross_entropy(wrapped(images[rows]), labels[rows]) * micro / batch
            loss.backward()
        if options["clip"]:
            nn.utils.clip_grad_norm_(model.parameters(), options["clip"])
        optimizer.step()
    state = model.state_dict()
    for name, values in state.items():  # what DDP leaves to each rank: running statistics
        if "running" in name:
            distributed.all_reduce(values)
            values /= RANKS
    if rank == 0:
        torch.save(state, answers)
    distributed.barrier()
    distributed.destroy_process_group()


def check(**given):
    options = {"synchronised": False, "micro": None, "clip": None, "batch": BATCH, **given}
    samples, _ = write_cifar10(".", training=RANKS * options["batch"] * STEPS)
    initial = run("initial", steps=0, **options)
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(train, (f"{folder}/store", options, samples, initial, f"{folder}/ddp.pt"), nprocs=RANKS)
        theirs = torch.load(f"{folder}/ddp.pt")
    ours = run("trained", **options)
    largest = assert_equal(ours, theirs, absolute=1e-4, relative=1e-4)
    moved = max((ours[name] - values).abs().max().item() for name, values in initial.items() if "weight" in name)
    print(f"  largest difference {largest:.1e}, where weights moved by {moved:.1e}")
    assert moved > 20 * largest, (moved, largest)


def test_buckets():
    check()


def test_buckets_and_synchronised_batch_norm():
    check(synchronised=True)


def test_accumulation_and_clipping():
    check(micro=4, clip=0.5)


def test_the_same_bits_however_it_is_sent():
    write_cifar10(".", training=RANKS * BATCH * STEPS)
    for synchronised in (False, True):
        whole = run("whole", send="whole", synchronised=synchronised)
        for send in ("bucket", "parameter"):
            other = run(send, send=send, synchronised=synchronised)
            assert all(torch.equal(whole[name], other[name]) for name in whole), f"{send}: the weights differ"


if __name__ == "__main__":  # its own processes read this file too
    main(globals())
