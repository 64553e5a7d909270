"""The networks of the published experiments, in plain PyTorch, written layer by layer from their descriptions. The
names of their parameters are arbitrary. Independent of Troupe."""

from torch import nn
from torch.nn import functional

STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


def named_as(model, state):
    """The tensors of `state` under the names of `model`: parameters and buffers in order of registration."""
    named, ours = {}, model.state_dict()
    for counts in (False, True):
        theirs = [name for name in state if name.endswith(STATISTICS) == counts]
        names = [name for name in ours if name.endswith(STATISTICS) == counts]
        for name, other in zip(names, theirs, strict=True):
            assert state[other].shape == ours[name].shape, f"{other} {state[other].shape}: {name} {ours[name].shape}"
            named[name] = state[other]
    return named


class Lenet(nn.Module):
    """Dive into Deep Learning, "Training on Multiple GPUs"."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 20, kernel_size=3), nn.ReLU(), nn.AvgPool2d(2),
            nn.Conv2d(20, 50, kernel_size=5), nn.ReLU(), nn.AvgPool2d(2),
            nn.Flatten(), nn.Linear(800, 128), nn.ReLU(), nn.Linear(128, 10))

    def forward(self, x):
        return self.layers(x)

    loss = staticmethod(functional.cross_entropy)


class BiasedBlock(nn.Module):
    """Convolutions with bias; where the stride is 2, a shortcut of one by one with bias and without batch norm."""

    def __init__(self, before, after, stride):
        super().__init__()
        self.first = nn.Conv2d(before, after, kernel_size=3, stride=stride, padding=1)
        self.first_norm = nn.BatchNorm2d(after)
        self.second = nn.Conv2d(after, after, kernel_size=3, padding=1)
        self.second_norm = nn.BatchNorm2d(after)
        self.shortcut = nn.Conv2d(before, after, kernel_size=1, stride=stride) if stride > 1 else nn.Identity()

    def forward(self, x):
        y = functional.relu(self.first_norm(self.first(x)))
        return functional.relu(self.second_norm(self.second(y)) + self.shortcut(x))


class Resnet18SmallImages(nn.Module):
    """Dive into Deep Learning, "Concise Implementation for Multiple GPUs"; without pooling after the stem."""

    def __init__(self, channels=1, classes=10):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(channels, 64, kernel_size=3, padding=1), nn.BatchNorm2d(64), nn.ReLU())
        blocks, before = [], 64
        for stage, after in enumerate((64, 128, 256, 512)):
            blocks += [BiasedBlock(before, after, stride=2 if stage else 1), BiasedBlock(after, after, stride=1)]
            before = after
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(512, classes)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))

    loss = staticmethod(functional.cross_entropy)


def conv_norm_relu(before, after):
    convolution = nn.Conv2d(before, after, kernel_size=3, padding=1, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(after), nn.ReLU())


class WideBlock(nn.Module):
    """The sum is not followed by a rectifier."""

    def __init__(self, before, after, dropout):
        super().__init__()
        self.first = conv_norm_relu(before, after)
        self.dropout = nn.Dropout(dropout)
        self.second = conv_norm_relu(after, after)
        self.shortcut = nn.Identity() if before == after else nn.Conv2d(before, after, kernel_size=1)

    def forward(self, x):
        return self.second(self.dropout(self.first(x))) + self.shortcut(x)


class WideResnetPooled(nn.Module):
    """Six blocks in pairs, the largest of two by two between the pairs, the mean of seven by seven."""

    def __init__(self, channels=1, classes=10, width=10, dropout=0.0):
        super().__init__()
        widths = [16 * width, 32 * width, 64 * width]
        layers, before = [conv_norm_relu(channels, 16)], 16
        for pair, after in enumerate(widths):
            layers += [nn.MaxPool2d(2)] if pair else []
            layers += [WideBlock(before, after, dropout), WideBlock(after, after, dropout)]
            before = after
        self.layers = nn.Sequential(*layers, nn.AvgPool2d(7), nn.Flatten())
        self.head = nn.Linear(before, classes)

    def forward(self, x):
        return self.head(self.layers(x))

    loss = staticmethod(functional.cross_entropy)


class CifarBlock(nn.Module):
    """`ahead`: how many of the new channels' zeros are put in front of the input's channels; the rest goes behind."""

    def __init__(self, before, after, projection, ahead):
        super().__init__()
        self.stride, self.zeros = (1 if before == after else 2), (ahead, after - before - ahead)
        self.first = nn.Conv2d(before, after, kernel_size=3, stride=self.stride, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(after)
        self.second = nn.Conv2d(after, after, kernel_size=3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(after)
        self.projection = nn.Sequential(nn.Conv2d(before, after, kernel_size=1, stride=self.stride, bias=False),
                                        nn.BatchNorm2d(after)) if projection and before != after else None

    def shortcut(self, x):
        if self.projection:
            return self.projection(x)
        return functional.pad(x[:, :, ::self.stride, ::self.stride], (0, 0, 0, 0, *self.zeros))

    def forward(self, x):
        y = functional.relu(self.first_norm(self.first(x)))
        return functional.relu(self.second_norm(self.second(y)) + self.shortcut(x))


class Resnet20(nn.Module):
    """He et al. 2016, section 4.2, n = 3: shortcuts of option A, zeros for new channels, or of option B, projections.
    The paper does not say where the zeros go: `ahead` is the share of them in front of the input's channels."""

    def __init__(self, channels=3, classes=10, projection=False, ahead=0.0):
        super().__init__()
        self.stem = conv_norm_relu(channels, 16)
        widths = [16, 16, 16, 16, 32, 32, 32, 64, 64, 64]
        self.blocks = nn.Sequential(*(CifarBlock(before, after, projection, int(ahead * (after - before)))
                                      for before, after in zip(widths, widths[1:], strict=False)))
        self.head = nn.Linear(64, classes)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))

    loss = staticmethod(functional.cross_entropy)
