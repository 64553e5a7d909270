"""The networks of the published experiments A, B, D and E and the NovoGrad of E, in plain PyTorch, as their texts
describe them. No Troupe in here. Each network asserts its number of parameters where the text states it."""

import torch
from torch import nn
from torch.nn import functional


def parameters_of(network):
    return sum(each.numel() for each in network.parameters())


class PaddedBlock(nn.Module):
    """Two convolutions; where the size changes, the shortcut takes every second pixel and pads the new channels with
    zeros (He et al. 2016, section 4.2, option A)."""

    def __init__(self, width, to, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(width, to, 3, stride, 1, bias=False), nn.BatchNorm2d(to)
        self.conv2, self.bn2 = nn.Conv2d(to, to, 3, 1, 1, bias=False), nn.BatchNorm2d(to)
        self.stride, self.added = stride, to - width

    def forward(self, x):
        y = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)))))
        return functional.relu(y + functional.pad(x[:, :, ::self.stride, ::self.stride], (0, 0, 0, 0, 0, self.added)))


def resnet20():
    """He et al. 2016, section 4.2: three stages of three blocks, Kaiming's initial weights."""
    blocks = [PaddedBlock(width, to, stride) for width, to, stride in
              ((16, 16, 1), (16, 16, 1), (16, 16, 1), (16, 32, 2), (32, 32, 1), (32, 32, 1), (32, 64, 2), (64, 64, 1),
               (64, 64, 1))]
    network = nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), *blocks,
                            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    for each in network.modules():
        if isinstance(each, nn.Conv2d):
            nn.init.kaiming_normal_(each.weight, mode="fan_out", nonlinearity="relu")
    assert parameters_of(network) == 269_722
    return network


def vgg11():
    """Simonyan and Zisserman 2015, table 1, column A, for CIFAR-10: batch norm, one linear layer."""
    layers, channels = [], 3
    for width in (64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0):
        if width == 0:
            layers.append(nn.MaxPool2d(2))
        else:
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
            channels = width
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 10))


def normal_weights(network, zero_biases):
    for each in network.modules():
        if isinstance(each, (nn.Conv2d, nn.Linear)):
            nn.init.normal_(each.weight, std=0.01)
            if zero_biases:
                nn.init.zeros_(each.bias)
    return network


def lenet():
    return normal_weights(nn.Sequential(
        nn.Conv2d(1, 20, 3), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(20, 50, 5), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(),
        nn.Linear(800, 128), nn.ReLU(), nn.Linear(128, 10)), zero_biases=True)


class BiasedBlock(nn.Module):
    """Convolutions with biases; the shortcut of a stride of 2 is a 1×1 convolution with a bias, without batch norm."""

    def __init__(self, width, to, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(width, to, 3, stride, 1), nn.BatchNorm2d(to)
        self.conv2, self.bn2 = nn.Conv2d(to, to, 3, 1, 1), nn.BatchNorm2d(to)
        self.shortcut = nn.Conv2d(width, to, 1, stride) if stride != 1 else nn.Identity()

    def forward(self, x):
        y = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)))))
        return functional.relu(y + self.shortcut(x))


def resnet18():
    blocks = [BiasedBlock(width, to, stride) for width, to, stride in
              ((64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2),
               (512, 512, 1))]
    network = nn.Sequential(nn.Conv2d(1, 64, 3, 1, 1), nn.BatchNorm2d(64), nn.ReLU(), *blocks, nn.AdaptiveAvgPool2d(1),
                            nn.Flatten(), nn.Linear(512, 10))
    assert parameters_of(network) == 11_175_818
    return normal_weights(network, zero_biases=False)


def normed(width, to):
    return nn.Sequential(nn.Conv2d(width, to, 3, padding=1, bias=False), nn.BatchNorm2d(to), nn.ReLU())


class WideBlock(nn.Module):
    """Two times convolution, batch norm, ReLU; no ReLU after the sum."""

    def __init__(self, width, to):
        super().__init__()
        self.layers = nn.Sequential(normed(width, to), nn.Dropout(0.01), normed(to, to))
        self.shortcut = nn.Conv2d(width, to, 1) if width != to else nn.Identity()

    def forward(self, x):
        return self.layers(x) + self.shortcut(x)


def wide_resnet(channels):
    network = nn.Sequential(
        normed(channels, 16), WideBlock(16, 160), WideBlock(160, 160), nn.MaxPool2d(2), WideBlock(160, 320),
        WideBlock(320, 320), nn.MaxPool2d(2), WideBlock(320, 640), WideBlock(640, 640), nn.AvgPool2d(7), nn.Flatten(),
        nn.Linear(640, 10))
    assert channels != 1 or parameters_of(network) == 17_117_466
    return network


class NovoGrad(torch.optim.Optimizer):
    """As in torch_optimizer, weight decay 0: v = |g|² at first, then βv + (1 − β)|g|²; d = g/(√v + ε), times 1 − β₁
    with grad_averaging; m ← β₁m + d from m = 0; p ← p − lr·m."""

    def __init__(self, parameters, lr, betas=(0.95, 0.0), eps=1e-8):
        super().__init__(parameters, {"lr": lr, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            first, second = group["betas"]
            for p in group["params"]:
                its, squared = self.state[p], p.grad.square().sum()
                its["v"] = second * its["v"] + (1 - second) * squared if its else squared
                its.setdefault("m", torch.zeros_like(p))
                its["m"].mul_(first).add_(p.grad / (its["v"].sqrt() + group["eps"]), alpha=1 - first)
                p.sub_(its["m"], alpha=group["lr"])
