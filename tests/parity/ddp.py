"""Troupe's buckets, synchronised batch norm and running statistics against PyTorch's own DistributedDataParallel and
SyncBatchNorm, over four ranks and gloo; shuffle off, one intra-op thread on both sides.

ResNet-20 has rectifiers, which can turn rounding into a different gradient, and batch norms, which spread it. Each of
its steps is therefore compared from the state that Troupe reached. A smooth network is compared after twenty steps.
LibTorch has no CPU kernels for SyncBatchNorm's statistics, so this script computes them with the textbook formulas; the
layer, its gradient and its messages are PyTorch's."""

import functools
import sys
import tempfile

try:
    import torch
    from own_state import Comparison, Step, states_of
    from plain import assert_equal, seeded, weights, write_cifar10
    from plain_resnet import resnet20
    from torch import distributed, multiprocessing, nn
    from torch.nn.modules import _functions
    from torch.nn.parallel import DistributedDataParallel
except ImportError as error:
    print(f"SKIPPED: {error}; scripts/setup --python installs what the parity tests import")
    sys.exit(77)

from torch.nn import functional
from troupe_command import main, thorough, troupe, write

RANKS, BATCH, STEPS, SMOOTH_STEPS = 4, 8, 3, 20
SGD = {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.0001}
FILE = """
[run]
seed = {seed}
steps = {steps}
[model]
{model}
sync_batch_norm = {synchronised}
[data]
name = "cifar10"
dir = "."
batch_size = {batch}
{micro}
shuffle = false
[optimizer]
lr = 0.05
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
{evaluate}
"""
DEFAULTS = {"synchronised": False, "micro": None, "clip": None}
WAYS = {"buckets": DEFAULTS, "synchronised": {**DEFAULTS, "synchronised": True},
        "accumulated": {"synchronised": True, "micro": 4, "clip": 2.0}}


class SmoothResnet(nn.Module):
    """Two residual blocks with batch norm, a softplus or tanh for each rectifier."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8)
        self.conv2, self.bn2 = nn.Conv2d(8, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8)
        self.conv3, self.bn3 = nn.Conv2d(8, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8)
        self.fc = nn.Linear(8 * 4 * 4, 10)

    def forward(self, x):
        x = functional.softplus(self.bn1(self.conv1(x)))
        x = x + torch.tanh(self.bn2(self.conv2(x)))
        x = x + torch.tanh(self.bn3(self.conv3(x)))
        return self.fc(functional.avg_pool2d(x, 4).flatten(1))


def run(out, steps=STEPS, send="bucket", synchronised=False, micro=None, clip=None, model='name = "resnet20"',
        evaluate=""):
    troupe("run", write(f"{out}.toml", FILE.format(
        seed=seeded(5), steps=steps, send=send, synchronised=str(synchronised).lower(), batch=BATCH, model=model,
        micro=f"micro_batch_size = {micro}" if micro else "", clip=f"clip_norm = {clip}" if clip else "",
        evaluate=evaluate)), "--out", out, "--overwrite")
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


def one_step(wrapped, optimizer, rows, micro=None, clip=None):
    """A step of DDP: gradients accumulate over micro-batches, and are reduced with the last."""
    images, labels = rows
    optimizer.zero_grad()
    micro = micro or BATCH
    for first in range(0, BATCH, micro):
        part = slice(first, first + micro)
        wrapped.require_backward_grad_sync = first + micro == BATCH
        (functional.cross_entropy(wrapped(images[part]), labels[part]) * micro / BATCH).backward()
    if clip:
        norm = nn.utils.clip_grad_norm_(wrapped.parameters(), clip).item()
        assert norm > clip, f"a gradient of length {norm} is not clipped"
    optimizer.step()


def averaged(model):
    """The state, with the mean of the running statistics, which DDP without broadcast_buffers leaves to each rank."""
    state = {name: values.clone() for name, values in model.state_dict().items()}
    for name, values in state.items():
        if "running" in name:
            distributed.all_reduce(values)
            values /= RANKS
    return state


def single_steps(rows, states, synchronised, micro, clip):
    """What DDP makes of each of the states but the last."""
    model = resnet20(3)
    if synchronised:
        synchronise(model)
    model.train()
    wrapped = DistributedDataParallel(model, bucket_cap_mb=0.25, broadcast_buffers=False)
    results = []
    for step, state in enumerate(states[:-1]):
        model.load_state_dict(state)
        optimizer = torch.optim.SGD(model.parameters(), **SGD)
        if step > 0:  # what led to this state from the one before
            for name, each in model.named_parameters():
                optimizer.state[each]["momentum_buffer"] = (states[step - 1][name] - state[name]) / SGD["lr"]
        one_step(wrapped, optimizer, rows(step), micro, clip)
        results.append(averaged(model))
    return results


def many_steps(rows, state, broadcast):
    """What DDP makes of the smooth network; `broadcast`: with the running statistics of rank 0, else the mean."""
    model = SmoothResnet()
    model.load_state_dict(state)
    model.train()
    wrapped = DistributedDataParallel(model, bucket_cap_mb=0.25, broadcast_buffers=broadcast)
    optimizer = torch.optim.SGD(model.parameters(), **SGD)
    for step in range(SMOOTH_STEPS):
        one_step(wrapped, optimizer, rows(step))
    return model.state_dict() if broadcast else averaged(model)


def rank_main(rank, store, samples, states, smooth, answers):
    torch.set_num_threads(1)
    library = kernels()
    assert library
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)

    def rows(step):
        return rows_of(samples, rank, step)

    found = {way: single_steps(rows, states[way], **WAYS[way]) for way in WAYS}
    found |= {broadcast: many_steps(rows, smooth, broadcast) for broadcast in (False, True)}
    if rank == 0:
        torch.save(found, answers)
    distributed.barrier()
    distributed.destroy_process_group()


def rows_of(samples, rank, step):
    return tuple(each[rank::RANKS][step * BATCH:(step + 1) * BATCH] for each in samples)


@functools.cache
def everything():
    """The samples, the smooth network, Troupe's states by way and step, and what DDP made of them."""
    samples, _ = write_cifar10(".", training=RANKS * BATCH * SMOOTH_STEPS)
    states = {way: states_of(lambda steps, way=way: run(f"{way}{steps}", steps, **WAYS[way]), STEPS) for way in WAYS}
    torch.manual_seed(seeded(5))
    smooth = SmoothResnet()
    start = {name: values.clone() for name, values in smooth.state_dict().items()}
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(rank_main, (f"{folder}/store", samples, states, start, f"{folder}/ddp.pt"), nprocs=RANKS)
        return samples, smooth, states, torch.load(f"{folder}/ddp.pt")


def band(samples, states, step, synchronised, micro, clip):
    """By how much kinks may have the results of a step differ. Clipping makes that less; it is not considered."""
    micro, batches = micro or BATCH, []
    for first in range(0, BATCH, micro):
        parts = [tuple(each[first:first + micro] for each in rows_of(samples, rank, step)) for rank in range(RANKS)]
        batches += [tuple(torch.cat(each) for each in zip(*parts, strict=True))] if synchronised else parts
    return Step(resnet20(3), states[step], None, batches, SGD["lr"]).band()


def check(way):
    samples, _, states, theirs = everything()
    compared = Comparison(states[way][0])
    for step, expected in enumerate(theirs[way]):
        before, after = states[way][step:step + 2]
        compared.step(step, after, expected, before,
                      functools.partial(band, samples, states[way], step, **WAYS[way]))
    compared.close()


@thorough
def test_buckets():
    check("buckets")


def test_buckets_and_synchronised_batch_norm():
    check("synchronised")


def test_micro_batches_with_synchronised_batch_norm_and_clipping():
    check("accumulated")


def check_smooth(broadcast, evaluate):
    samples, smooth, _, theirs = everything()
    write_cifar10(".", training=len(samples[1]))
    start = smooth.state_dict()
    torch.jit.script(smooth).save("model.pt")
    found = run("smooth", SMOOTH_STEPS, model='script = "model.pt"', evaluate=evaluate)
    print(f"  largest difference {assert_equal(found, theirs[broadcast], start):.1e}")


def test_twenty_steps_of_a_smooth_network():
    check_smooth(broadcast=False, evaluate="")


def test_running_statistics_of_the_first_rank():
    _, smooth, _, theirs = everything()
    mean = {name: values for name, values in theirs[False].items() if "running" in name}
    first = {name: theirs[True][name] for name in mean}
    assert_equal(first, first, mean)  # they differ clearly from the mean
    check_smooth(broadcast=True, evaluate='buffers = "first"')


def test_the_same_bits_however_it_is_sent():
    write_cifar10(".", training=RANKS * BATCH * SMOOTH_STEPS)
    for synchronised in (False, True):
        whole = run("whole", send="whole", synchronised=synchronised)
        for send in ("bucket", "parameter"):
            other = run(send, send=send, synchronised=synchronised)
            assert all(torch.equal(whole[name], other[name]) for name in whole), f"{send}: the weights differ"


if __name__ == "__main__":  # its own processes read this file too
    main(globals())
