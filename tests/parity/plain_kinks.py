"""Gradients of networks with kinks, and the part of them that depends on rounding. Independent of Troupe.

If the input of a rectifier is within rounding error of zero, or two values of a pooling window are within rounding
error of each other, two correct programs may differ by the whole contribution of that unit to the gradient. This module
computes gradients in double precision, finds such units and switches each to its other side. The resulting change is
the band within which the gradient of another program may differ. Without such a unit, the band is zero."""

import copy

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

GROUPS = 8  # units near a kink are taken to their other side in at most so many groups
MARGIN = 4  # how many times the largest rounding error of a layer, as measured, counts as near


class Kinks(TorchFunctionMode):
    """Runs rectifiers and max pools with the units in `flips` (a mask for each call, or none) on their other side."""

    def __init__(self, flips=None):
        super().__init__()
        self.flips = flips
        self.apart = []  # of each call: how far its units are from their kinks

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in (functional.relu, torch.relu, torch.relu_, torch.Tensor.relu):
            return self.relu(args[0])
        if func is functional.max_pool2d or func is torch.max_pool2d:
            return self.max_pool(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))

    def flipped(self, apart):
        self.apart.append(apart.detach())
        return self.flips[len(self.apart) - 1] if self.flips else torch.zeros_like(apart, dtype=torch.bool)

    def relu(self, x):
        flip = self.flipped(x)
        right = torch.where(x > 0, x, torch.zeros_like(x))
        other = torch.where(x > 0, torch.zeros_like(x), x - 2 * x.detach())  # as small a value on the other side
        return torch.where(flip, other, right)

    def max_pool(self, x, kernel_size, stride=None, padding=0, **_):
        stride = stride or kernel_size
        x = functional.pad(x, [padding] * 4, value=-torch.inf)
        windows = x.unfold(2, kernel_size, stride).unfold(3, kernel_size, stride).flatten(-2)
        first, second = windows.topk(2).values.unbind(-1)
        return torch.where(self.flipped(first - second), second, first)


def exactly(model, buffers, images, labels, flips=None, before=None):
    """Returns the gradient in double precision, and how far each call's units are from their kinks."""
    with torch.no_grad():
        for name, values in model.named_buffers():
            values.copy_(buffers[name])
    if before:
        before(model)
    model.zero_grad()
    with Kinks(flips) as kinks:
        model.loss(model(images), labels).backward()
    return [each.grad.clone() for each in model.parameters()], kinks.apart


def near(model, images, exact, before=None):
    """Returns masks of the units that rounding may have on either side of their kinks: those within some rounding
    errors, as float32 shows them, of each call. Exactly at a kink in double precision are what dropout has zeroed and
    what rectifiers have, which pass no gradient on."""
    model = copy.deepcopy(model)
    if before:
        before(model)
    with torch.no_grad(), Kinks() as kinks:
        model(images)
    masks = []
    for single, double in zip(kinks.apart, exact, strict=True):
        error = (single.double() - double).abs().max()
        masks.append((double != 0) & (double.abs() <= MARGIN * error))
    return masks


class Gradient:
    """That of a float32 `model` in training mode at (images, labels), in double precision: `values` in the order of its
    parameters, and the `buffers` after the pass by name. `before(model)` is called before each pass."""

    def __init__(self, model, images, labels, before=None):
        self.model, self.labels, self.before = copy.deepcopy(model).double(), labels, before
        self.images = images.double() if images.is_floating_point() else images
        self.single = model, images
        self.start = {name: each.clone() for name, each in self.model.named_buffers()}
        self.values, self.apart = exactly(self.model, self.start, self.images, labels, before=before)
        self.buffers = {name: each.clone() for name, each in self.model.named_buffers()}

    def band(self):
        """Returns by how much each tensor of the gradient may differ, and how many units are near a kink. It is one
        figure for all elements of a tensor: in a single one, the units of a group may cancel."""
        masks = near(*self.single, self.apart, self.before)
        units = [(call, place) for call, mask in enumerate(masks) for place in mask.flatten().nonzero().flatten()]
        band = [0.0] * len(self.values)
        for group in [units[first::GROUPS] for first in range(min(GROUPS, len(units)))]:
            flips = [torch.zeros_like(mask) for mask in masks]
            for call, place in group:
                flips[call].view(-1)[place] = True
            other, _ = exactly(self.model, self.start, self.images, self.labels, flips, self.before)
            changes = [(one - two).abs().max().item() for one, two in zip(self.values, other, strict=True)]
            band = [width + change for width, change in zip(band, changes, strict=True)]
        return band, len(units)
