"""Modules of many kinds in plain PyTorch, and samples for them. Each takes the probability of its dropout. Independent of
Troupe."""

import torch
from torch import nn
from torch.nn import functional


class Mlp(nn.Sequential):
    def __init__(self, p):
        super().__init__(nn.Linear(20, 32), nn.GELU(), nn.Dropout(p), nn.LayerNorm(32), nn.Linear(32, 5))


class Lenet(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.drop = nn.Dropout2d(p)
        self.fc1 = nn.Linear(400, 32)
        self.fc2 = nn.Linear(32, 5)

    def forward(self, x):
        x = functional.max_pool2d(torch.tanh(self.conv1(x)), 2)
        x = self.drop(functional.avg_pool2d(functional.elu(self.conv2(x)), 2))
        return self.fc2(functional.silu(self.fc1(x.view(x.size(0), -1))))


class Block(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.downsample = None
        if stride > 1:
            self.downsample = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x):
        y = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)), inplace=True)))
        y += x if self.downsample is None else self.downsample(x)
        return functional.relu(y, inplace=True)


class Resnet20(nn.Module):
    """He et al. 2015, section 4.2, with shortcuts of option B."""

    def __init__(self, p, channels=3, classes=5):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(channels, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        stages = ((16, 16, 1), (16, 32, 2), (32, 64, 2))
        self.blocks = nn.Sequential(*(Block(before if first else after, after, stride if first else 1)
                                      for before, after, stride in stages for first in (True, False, False)))
        self.drop = nn.Dropout(p)
        self.fc = nn.Linear(64, classes)

    def forward(self, x):
        return self.fc(self.drop(functional.adaptive_avg_pool2d(self.blocks(self.stem(x)), 1).flatten(1)))


class Vgg(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2, ceil_mode=True))
        self.classifier = nn.Sequential(nn.Linear(256, 32), nn.Dropout(p, inplace=True), nn.ReLU(inplace=True),
                                        nn.Linear(32, 5))

    def forward(self, x):
        return self.classifier(torch.flatten(self.features(x), 1))


class Unet(nn.Module):
    """A U of two levels; its map is averaged to one score for each class."""

    def __init__(self, p):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.SiLU(),
                                  nn.BatchNorm2d(8, affine=False, track_running_stats=False))
        self.bottom = nn.Sequential(nn.Conv2d(8, 16, 3, 2, 1), nn.InstanceNorm2d(16, affine=True, track_running_stats=True),
                                    nn.SiLU(), nn.Dropout2d(p))
        self.up = nn.ConvTranspose2d(16, 8, 2, 2)
        self.out = nn.Conv2d(16, 5, 1)

    def forward(self, x):
        kept = self.down(x)
        return self.out(torch.cat([kept, self.up(self.bottom(kept))], 1)).mean((2, 3))


class Lstm(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.table = nn.Embedding(20, 8)
        self.lstm = nn.LSTM(8, 12, num_layers=2, batch_first=True, dropout=p, bidirectional=True)
        self.fc = nn.Linear(24, 5)

    def forward(self, x):
        return self.fc(self.lstm(self.table(x))[0][:, -1])


class Gru(nn.Module):
    """Scores for each position."""

    def __init__(self, p):
        super().__init__()
        self.table = nn.Embedding(20, 8)
        self.gru = nn.GRU(8, 12, num_layers=3, batch_first=True, dropout=p)
        self.fc = nn.Linear(12, 20)

    def forward(self, x):
        return self.fc(self.gru(self.table(x))[0])


class GptBlock(nn.Module):
    def __init__(self, width, heads, p):
        super().__init__()
        self.heads, self.p = heads, p
        self.ln_1 = nn.LayerNorm(width)
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(),
                                 nn.Linear(4 * width, width), nn.Dropout(p))

    def forward(self, x):
        samples, length, width = x.shape
        q, k, v = (each.view(samples, length, self.heads, width // self.heads).transpose(1, 2)
                   for each in self.c_attn(self.ln_1(x)).split(width, 2))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.p if self.training else 0.0)
        x = x + self.c_proj(y.transpose(1, 2).reshape(samples, length, width))
        return x + self.mlp(x)


class Gpt(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.wte = nn.Embedding(20, 16)
        self.wpe = nn.Embedding(12, 16)
        self.h = nn.Sequential(GptBlock(16, 2, p), GptBlock(16, 2, p))
        self.head = nn.Linear(16, 20, bias=False)

    def forward(self, x):
        return self.head(self.h(self.wte(x) + self.wpe(torch.arange(x.shape[1], device=x.device))))


class Vit(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 4, 4)
        self.token = nn.Parameter(torch.randn(1, 1, 16))
        self.places = nn.Parameter(torch.randn(1, 17, 16) * 0.02)
        layer = nn.TransformerEncoderLayer(16, 2, 32, p, functional.gelu, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.encoder(x)[:, 0])


class Bag(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.bag = nn.EmbeddingBag(20, 8, mode="mean")
        self.rest = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Dropout(p), nn.Linear(16, 5))

    def forward(self, x):
        return self.rest(self.bag(x))


class Tied(nn.Module):
    """The table of tokens is also the weights of the output; attention with a mask that is written out."""

    def __init__(self, p):
        super().__init__()
        self.table = nn.Embedding(20, 16)
        self.middle = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Dropout(p))
        self.head = nn.Linear(16, 20, bias=False)
        self.head.weight = self.table.weight

    def forward(self, x):
        places = torch.arange(x.shape[1], device=x.device)
        seen = (places[None] <= places[:, None]) & (places[None] > places[:, None] - 4)
        x = self.table(x)
        scores = (x @ x.transpose(1, 2)).masked_fill(seen.logical_not(), float("-inf"))
        return self.head(self.middle(scores.softmax(-1) @ x))


class Frozen(nn.Module):
    """With a frozen layer, a buffer of doubles, one of integers, one that is not in the state_dict, and a layer with two
    names."""

    def __init__(self, p):
        super().__init__()
        self.frozen = nn.Linear(20, 16)
        for each in self.frozen.parameters():
            each.requires_grad = False
        self.register_buffer("scale", torch.linspace(0.5, 1.5, 16, dtype=torch.float64))
        self.register_buffer("order", torch.arange(15, -1, -1))
        self.register_buffer("shift", torch.linspace(-1, 1, 16), persistent=False)
        self.norm = self.same_norm = nn.BatchNorm1d(16)
        self.rest = nn.Sequential(nn.Dropout(p), nn.Linear(16, 5))

    def forward(self, x):
        x = (self.frozen(x) * self.scale).float()[:, self.order] + self.shift
        return self.rest(self.norm(x))


MODELS = {"mlp": Mlp, "lenet": Lenet, "resnet20": Resnet20, "vgg": Vgg, "unet": Unet, "lstm": Lstm, "gru": Gru, "gpt": Gpt,
          "vit": Vit, "bag": Bag, "tied": Tied, "frozen": Frozen}
SHAPES = {"lenet": (1, 28, 28), "resnet20": (3, 16, 16), "vgg": (3, 16, 16), "unet": (3, 16, 16), "vit": (3, 16, 16)}
TOKENS = ("lstm", "gru", "gpt", "bag", "tied")   # take texts of 12 tokens
EACH = ("gru", "gpt", "tied")                    # return scores for each of their positions


def samples(name, count, seed):
    """Inputs and targets for a model: (inputs, targets)."""
    drawn = torch.Generator().manual_seed(seed)
    if name in TOKENS:
        inputs = torch.randint(0, 20, (count, 12), generator=drawn)
        return inputs, (inputs + 1) % 20 if name in EACH else inputs.sum(1) % 5
    inputs = torch.randn(count, *SHAPES.get(name, (20,)), generator=drawn)
    return inputs, torch.randint(0, 5, (count,), generator=drawn)


def loss_of(output, targets):
    return functional.cross_entropy(output.flatten(0, -2), targets.flatten())


def export(model, inputs, path):
    """Writes the file that a user would write."""
    program = torch.export.export(model.train(), (inputs[:4],), dynamic_shapes=({0: torch.export.Dim("batch")},))
    torch.export.save(program, path)
