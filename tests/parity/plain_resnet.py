"""The residual networks of He et al. 2015 in plain PyTorch, as torchvision (resnet18) and the usual port to CIFAR
(resnet20, shortcuts of option B) define them. Independent of Troupe."""

from torch import nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, before, after, stride, downsample):
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.downsample = downsample

    def forward(self, x):
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        y += x if self.downsample is None else self.downsample(x)
        return self.relu(y)


class Resnet(nn.Module):
    """Stem, stages called layer1, layer2, …, the mean of each channel, a linear layer."""

    def __init__(self, stem, pool, widths, blocks, classes):
        super().__init__()
        self.conv1 = stem
        self.bn1 = nn.BatchNorm2d(widths[0])
        self.relu = nn.ReLU(inplace=True)
        self.pool = pool
        before = widths[0]
        self.stages = []
        for index, after in enumerate(widths, 1):
            self.stages.append(f"layer{index}")
            setattr(self, self.stages[-1], self.stage(before, after, 1 if index == 1 else 2, blocks))
            before = after
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(before, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(module, nn.BatchNorm2d):
                nn.init.constant_(module.weight, 1)
                nn.init.constant_(module.bias, 0)

    @staticmethod
    def stage(before, after, stride, blocks):
        downsample = None
        if stride != 1 or before != after:
            downsample = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))
        first = Block(before, after, stride, downsample)
        return nn.Sequential(first, *(Block(after, after, 1, None) for _ in range(1, blocks)))

    def forward(self, x):
        x = self.pool(self.relu(self.bn1(self.conv1(x))))
        for stage in self.stages:
            x = getattr(self, stage)(x)
        return self.fc(self.avgpool(x).flatten(1))

    loss = staticmethod(functional.cross_entropy)


def resnet20(channels=1, classes=10):
    return Resnet(nn.Conv2d(channels, 16, 3, 1, 1, bias=False), nn.Identity(), (16, 32, 64), 3, classes)


def resnet18(channels=1, classes=10):
    return Resnet(nn.Conv2d(channels, 64, 7, 2, 3, bias=False), nn.MaxPool2d(3, 2, 1), (64, 128, 256, 512), 2, classes)


MODELS = {"resnet20": resnet20, "resnet18": resnet18}
