"""Models as their sources define them, in plain PyTorch. Independent of Troupe."""

import math

import torch
from torch import nn
from torch.nn import functional


class Vgg11(nn.Module):
    """github.com/kuangliu/pytorch-cifar, models/vgg.py."""

    def __init__(self, channels=3, classes=10, norm=False):
        super().__init__()
        layers = []
        for width in (64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"):
            if width == "M":
                layers.append(nn.MaxPool2d(kernel_size=2, stride=2))
                continue
            layers.append(nn.Conv2d(channels, width, kernel_size=3, padding=1))
            if norm:
                layers.append(nn.BatchNorm2d(width))
            layers.append(nn.ReLU(inplace=True))
            channels = width
        self.features = nn.Sequential(*layers, nn.AvgPool2d(kernel_size=1, stride=1))
        self.classifier = nn.Linear(512, classes)

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))

    loss = staticmethod(functional.cross_entropy)


class WideBlock(nn.Module):
    def __init__(self, before, after, stride, dropout):
        super().__init__()
        self.bn1 = nn.BatchNorm2d(before)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(before, after, kernel_size=3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.relu2 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(after, after, kernel_size=3, stride=1, padding=1, bias=False)
        self.dropout = dropout
        self.same = before == after
        self.convShortcut = None if self.same else nn.Conv2d(before, after, kernel_size=1, stride=stride, bias=False)

    def forward(self, x):
        if not self.same:
            x = self.relu1(self.bn1(x))
        else:
            out = self.relu1(self.bn1(x))
        out = self.relu2(self.bn2(self.conv1(out if self.same else x)))
        if self.dropout > 0:
            out = functional.dropout(out, p=self.dropout, training=self.training)
        return torch.add(x if self.same else self.convShortcut(x), self.conv2(out))


class WideGroup(nn.Module):
    def __init__(self, blocks, before, after, stride, dropout):
        super().__init__()
        self.layer = nn.Sequential(*[WideBlock(before if i == 0 else after, after, stride if i == 0 else 1, dropout)
                                     for i in range(blocks)])

    def forward(self, x):
        return self.layer(x)


class WideResnet(nn.Module):
    """github.com/xternalz/WideResNet-pytorch, wideresnet.py; the last pooling is over what there is."""

    def __init__(self, channels=3, classes=10, blocks=2, factor=10, dropout=0.0):
        super().__init__()
        widths = [16, 16 * factor, 32 * factor, 64 * factor]
        self.conv1 = nn.Conv2d(channels, widths[0], kernel_size=3, stride=1, padding=1, bias=False)
        self.block1 = WideGroup(blocks, widths[0], widths[1], 1, dropout)
        self.block2 = WideGroup(blocks, widths[1], widths[2], 2, dropout)
        self.block3 = WideGroup(blocks, widths[2], widths[3], 2, dropout)
        self.bn1 = nn.BatchNorm2d(widths[3])
        self.relu = nn.ReLU(inplace=True)
        self.fc = nn.Linear(widths[3], classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(module, nn.BatchNorm2d):
                module.weight.data.fill_(1)
                module.bias.data.zero_()
            elif isinstance(module, nn.Linear):
                module.bias.data.zero_()

    def forward(self, x):
        out = self.block3(self.block2(self.block1(self.conv1(x))))
        out = self.relu(self.bn1(out))
        return self.fc(functional.adaptive_avg_pool2d(out, 1).flatten(1))

    loss = staticmethod(functional.cross_entropy)


class Mlp(nn.Module):
    def __init__(self, inputs=784, classes=10, layers=2, width=128):
        super().__init__()
        widths = [inputs] + [width] * layers + [classes]
        self.layers = len(widths) - 1
        for i in range(self.layers):
            setattr(self, f"fc{i + 1}", nn.Linear(widths[i], widths[i + 1]))

    def forward(self, x):
        x = x.flatten(1)
        for i in range(1, self.layers):
            x = functional.relu(getattr(self, f"fc{i}")(x))
        return getattr(self, f"fc{self.layers}")(x)

    loss = staticmethod(functional.cross_entropy)


class GptAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)
        self.heads = heads

    def forward(self, x):
        count, length, width = x.size()
        q, k, v = (each.view(count, length, self.heads, width // self.heads).transpose(1, 2)
                   for each in self.c_attn(x).split(width, dim=2))
        y = functional.scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=0, is_causal=True)
        return self.c_proj(y.transpose(1, 2).contiguous().view(count, length, width))


class GptMlp(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.c_fc = nn.Linear(width, 4 * width)
        self.gelu = nn.GELU()
        self.c_proj = nn.Linear(4 * width, width)

    def forward(self, x):
        return self.c_proj(self.gelu(self.c_fc(x)))


class GptBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = GptAttention(width, heads)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = GptMlp(width)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    """github.com/karpathy/nanoGPT, model.py."""

    def __init__(self, characters, length, layers=4, width=128, heads=4):
        super().__init__()
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(characters, width),
            "wpe": nn.Embedding(length, width),
            "h": nn.ModuleList([GptBlock(width, heads) for _ in range(layers)]),
            "ln_f": nn.LayerNorm(width)})
        self.lm_head = nn.Linear(width, characters, bias=False)
        self.transformer.wte.weight = self.lm_head.weight
        self.apply(self.initialise)
        for name, parameter in self.named_parameters():
            if name.endswith("c_proj.weight"):
                nn.init.normal_(parameter, mean=0.0, std=0.02 / math.sqrt(2 * layers))

    @staticmethod
    def initialise(module):
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, mean=0.0, std=0.02)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, mean=0.0, std=0.02)

    def forward(self, x):
        places = torch.arange(0, x.size(1), dtype=torch.long, device=x.device)
        x = self.transformer.wte(x) + self.transformer.wpe(places)
        for block in self.transformer.h:
            x = block(x)
        return self.lm_head(self.transformer.ln_f(x))

    @staticmethod
    def loss(scores, targets):
        return functional.cross_entropy(scores.flatten(0, 1), targets.flatten())
