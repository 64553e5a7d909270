"""The published experiments A, B, D and E in plain PyTorch, written from their texts. No Troupe in here.

These algorithms are synchronous, so that n workers are simulated in one process, one after the other; only the order of
additions could tell. run(recipe, …) trains and yields the mean training loss and the test accuracy of each epoch. The
networks are those of tests/parity."""

import copy
import math
import pathlib
import sys
from dataclasses import dataclass
from typing import Callable

import torch
from torch import nn
from torch.nn import functional
from torch.optim.lr_scheduler import LinearLR, MultiStepLR
from torch.utils.data import DistributedSampler
from torch_optimizer import NovoGrad

sys.path.append(str(pathlib.Path(__file__).parents[1] / "tests/parity"))
from plain_models import Vgg11  # noqa: E402
from plain_published import Lenet, Resnet18SmallImages, Resnet20, WideResnetPooled, named_as  # noqa: E402

CIFAR_MEAN = (0.4914, 0.4822, 0.4465)


@dataclass
class Experiment:
    """The settings that a text specifies, without images and epochs."""
    network: Callable[[], nn.Module]
    batch: int  # of one worker
    lr: float
    data: str
    workers: int = 1
    momentum: float = 0
    weight_decay: float = 0
    novograd: bool = False
    mean: tuple = ()
    std: tuple = ()
    augment: str = ""
    warmup: int = 0  # epochs
    halves: int = 1  # parts into which a batch is cut, each normalised separately (DataParallel)
    synchronised_norms: bool = False
    drop_last: bool = False
    sharded_evaluation: bool = False
    gossip: bool = False


CIFAR = {"data": "cifar10", "mean": CIFAR_MEAN}
VGG = Experiment(lambda: Vgg11(norm=True), 64, 0.1, workers=4, momentum=0.9, weight_decay=1e-4, std=(0.2470, 0.2435, 0.2616),
                 augment="crop_flip", **CIFAR)
LAB = Experiment(lambda: WideResnetPooled(dropout=0.01), 32, 0.01, "fashion_mnist", workers=4, drop_last=True, sharded_evaluation=True)


def changed(base, **values):
    return Experiment(**{**vars(base), **values})


EXPERIMENTS = {
    "a_dpsgd_resnet20": Experiment(Resnet20, 32, 0.1, workers=4, weight_decay=1e-4, std=(0.2023, 0.1994, 0.2010),
                                   augment="crop_flip", gossip=True, **CIFAR),
    "b_vgg11_single": changed(VGG, batch=256, workers=1),
    "b_vgg11_ddp": VGG,  # the three other recipes have the same arithmetic
    "d_lenet_one_device": Experiment(Lenet, 256, 0.2, "fashion_mnist"),
    "d_lenet_two_devices": Experiment(Lenet, 512, 0.3, "fashion_mnist", halves=2),
    "d_resnet18_one_device": Experiment(Resnet18SmallImages, 256, 0.1, "fashion_mnist"),
    "d_resnet18_two_devices": Experiment(Resnet18SmallImages, 512, 0.1, "fashion_mnist", halves=2),
    "e_lab_sgd": LAB,
    "e_lab_momentum": changed(LAB, momentum=0.9),
    "e_lab_novograd": changed(LAB, novograd=True),
    "e_assignment": changed(LAB, network=lambda: WideResnetPooled(3, dropout=0.01), data="cifar10", batch=256, lr=0.15, novograd=True,
                            warmup=5, synchronised_norms=True, augment="affine_jitter", mean=(0.5,) * 3,
                            std=(0.5,) * 3),
}


# Images: bytes, [N, C, H, W]; changed as torchvision's transforms would, then as floats.


def crop_flip(images):
    """RandomCrop(size, padding=4) and RandomHorizontalFlip()."""
    side = images.shape[-1]
    padded = functional.pad(images, (4, 4, 4, 4))
    top, left = torch.randint(0, 9, (2, len(images)))
    cut = torch.stack([one[:, y:y + side, x:x + side] for one, y, x in zip(padded, top, left, strict=True)])
    return torch.where(torch.rand(len(images), 1, 1, 1) < 0.5, cut.flip(3), cut)


def warped(images, matrices):
    """Applies inverse maps [N, 2, 2] about the centre; nearest pixel, black outside."""
    theta = functional.pad(matrices, (0, 1))
    return functional.grid_sample(images, functional.affine_grid(theta, list(images.shape), False), "nearest", "zeros",
                                  False)


def uniform(count, low, high):
    return torch.empty(count).uniform_(low, high)


def grey(image):
    return 0.2989 * image[0] + 0.587 * image[1] + 0.114 * image[2]


def jittered(image):
    """ColorJitter(0.2, 0.2, 0.2) of one image in [0, 1], in random order."""
    def other(which):
        if which == 0:
            return torch.zeros_like(image)
        return grey(image).mean() if which == 1 else grey(image)
    for which in torch.randperm(3).tolist():
        share = uniform(1, 0.8, 1.2)
        image = (share * image + (1 - share) * other(which)).clamp(0, 1)
    return image


def affine_jitter(images):
    """RandomHorizontalFlip(), RandomRotation(10), RandomAffine(0, shear=10, scale=(0.8, 1.2)), the colour jitter."""
    count, x = len(images), images.float() / 255
    x = torch.where(torch.rand(count, 1, 1, 1) < 0.5, x.flip(3), x)
    angle, shear = (uniform(count, -10, 10) * math.pi / 180 for _ in range(2))
    turn = torch.stack([angle.cos(), angle.sin(), -angle.sin(), angle.cos()], 1).view(-1, 2, 2)
    slant = torch.stack([torch.ones(count), shear.tan(), torch.zeros(count), torch.ones(count)], 1).view(-1, 2, 2)
    x = warped(warped(x, turn), slant / uniform(count, 0.8, 1.2).view(-1, 1, 1))
    return torch.stack([jittered(each) for each in x]) * 255


def as_input(images, it, training):
    if training and it.augment:
        images = {"crop_flip": crop_flip, "affine_jitter": affine_jitter}[it.augment](images)
    x = images.float() / 255
    if not it.mean:
        return x
    return (x - torch.tensor(it.mean).view(-1, 1, 1)) / torch.tensor(it.std).view(-1, 1, 1)


def epoch_of(it, samples, epoch):
    """Yields the batches of each step, as DistributedSampler assigns them: [workers] of (inputs, labels)."""
    images, labels = samples
    of_workers = []
    for rank in range(it.workers):
        sampler = DistributedSampler(range(len(labels)), it.workers, rank, shuffle=True)
        sampler.set_epoch(epoch)
        batches = torch.tensor(list(sampler)).split(it.batch)
        of_workers.append([each for each in batches if len(each) == it.batch or not it.drop_last])
    for chosen in zip(*of_workers, strict=True):
        yield [(as_input(images[each], it, True), labels[each]) for each in chosen]


# Steps.


def keep_statistics(network, kept):
    """Makes forward passes update the running statistics only if `kept`, which is so on rank 0."""
    for each in network.modules():
        if isinstance(each, nn.BatchNorm2d):
            each.momentum = 0.1 if kept else 0.0


def synchronous_step(network, optimizer, batches, it):
    """Steps with the mean gradient over all samples; returns the sum of their losses. Each worker normalises its own
    batch; with synchronised norms, all batches form one."""
    if it.synchronised_norms:
        batches = [tuple(torch.cat(each) for each in zip(*batches, strict=True))]
    if it.halves > 1:
        batches = list(zip(*(each.chunk(it.halves) for each in batches[0]), strict=True))
    total, losses = sum(len(labels) for _, labels in batches), 0.0
    optimizer.zero_grad()
    for rank, (inputs, labels) in enumerate(batches):
        keep_statistics(network, rank == 0)
        loss = functional.cross_entropy(network(inputs), labels, reduction="sum")
        (loss / total).backward()
        losses += loss.item()
    optimizer.step()
    return losses


def mix_with_neighbours(peers):
    """x_i ← (x_i + x_left + x_right) / 3, parameters only."""
    before = [[p.detach().clone() for p in peer.parameters()] for peer in peers]
    n = len(peers)
    with torch.no_grad():
        for i, peer in enumerate(peers):
            nearby = zip(peer.parameters(), before[i], before[i - 1], before[(i + 1) % n], strict=True)
            for p, own, left, right in nearby:
                p.copy_((own + left + right) / 3)


def decentralised_step(peers, optimizers, batches):
    """Adds 1e-4 x_i to the gradient at x_i, mixes, and steps by plain SGD with weight decay at the mixed x_i."""
    losses = 0.0
    for peer, optimizer, (inputs, labels) in zip(peers, optimizers, batches, strict=True):
        optimizer.zero_grad()
        loss = functional.cross_entropy(peer(inputs), labels)
        loss.backward()
        losses += loss.item() * len(labels)
        for p in peer.parameters():
            p.grad.add_(p.detach(), alpha=1e-4)
    mix_with_neighbours(peers)
    for optimizer in optimizers:
        optimizer.step()
    return losses


# What is evaluated.


def averaged(peers):
    """Returns a network with the mean of the peers' parameters and buffers."""
    result = copy.deepcopy(peers[0])
    states = [peer.state_dict() for peer in peers]
    result.load_state_dict({name: sum(state[name] for state in states) / len(states) if first.is_floating_point()
                            else first for name, first in states[0].items()})
    return result


@torch.no_grad()
def accuracy(network, samples, it):
    network.eval()
    images, labels = samples
    if it.sharded_evaluation:  # a share per worker, without its last batch; then the mean of the shares
        shares = [torch.tensor(list(DistributedSampler(range(len(labels)), it.workers, rank, shuffle=False)))
                  for rank in range(it.workers)]
        batches = [[each for each in share.split(it.batch) if len(each) == it.batch] for share in shares]
    else:
        batches = [torch.arange(len(labels)).split(100)]
    found = []
    for share in batches:
        right = [(network(as_input(images[each], it, False)).argmax(1) == labels[each]) for each in share]
        found.append(torch.cat(right).float().mean().item())
    network.train()
    return sum(found) / len(found)


def optimizer_of(network, it):
    if it.novograd:
        return NovoGrad(network.parameters(), it.lr, grad_averaging=True)
    return torch.optim.SGD(network.parameters(), it.lr, it.momentum, weight_decay=it.weight_decay)


def schedules_of(optimizers, it):
    """Returns the schedules, which are stepped once after each epoch."""
    if it.gossip:
        return [MultiStepLR(each, [80, 120], 0.1) for each in optimizers]
    return [LinearLR(each, 1 / it.workers, total_iters=it.warmup) for each in optimizers] if it.warmup else []


def run(name, initial, training, test, epochs, seed=1, **values):
    """Trains from `initial`, a state; yields (mean training loss, accuracy) after each epoch. Samples are (bytes [N, C,
    H, W], labels [N]); values stand in for those of the text: smaller batches, fewer workers."""
    it = changed(EXPERIMENTS[name], **values)
    torch.manual_seed(seed)
    networks = [it.network()]
    networks[0].load_state_dict(named_as(networks[0], initial))
    if it.gossip:
        networks += [copy.deepcopy(networks[0]) for _ in range(1, it.workers)]
    optimizers = [optimizer_of(each, it) for each in networks]
    schedules = schedules_of(optimizers, it)
    for epoch in range(epochs):
        losses = count = 0
        for batches in epoch_of(it, training, epoch):
            count += sum(len(labels) for _, labels in batches)
            if it.gossip:
                losses += decentralised_step(networks, optimizers, batches)
            else:
                losses += synchronous_step(networks[0], optimizers[0], batches, it)
        for each in schedules:
            each.step()
        yield losses / count, accuracy(averaged(networks) if it.gossip else networks[0], test, it)
