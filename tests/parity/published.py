"""The networks and settings of the published experiments (plain_published.py): numbers of parameters, initial weights,
scores, and steps of training, each from the state that Troupe reached; and an epoch of MNIST with its smaller last
batch.
    published.py          5 steps of each network, 2 of the large ones
    published.py --full   20 steps of each
"""

import gzip
import json
import math
import os
import pathlib
import sys

try:
    import plain
    import torch
    from own_state import check_steps, rows_at, states_of
    from plain_published import Lenet, Resnet18SmallImages, Resnet20, WideResnetPooled, named_as
except ImportError as error:
    print(f"SKIPPED: {error}; scripts/setup --python installs what the parity tests import")
    sys.exit(77)

from torch import nn
from trained import compare, exported, state_of
from troupe_command import main, metrics, thorough, troupe, write

# Each step is compared from the state of a run that ends before it, so the cost grows with the square of STEPS.
BATCH = 4
STEPS, FEW = (20, 20) if "--full" in sys.argv else (5, 2)  # FEW: of networks with more than ten million parameters
FILE = """
[run]
seed = {seed}
steps = {steps}
[model]
{model}
[data]
name = "{data}"
dir = "{folder}"
batch_size = {batch}
shuffle = false
{more}
[optimizer]
lr = {lr}
momentum = {momentum}
[workers]
count = {workers}
[exchange]
kind = "all_reduce"
"""
NORMAL = 'initializer = "normal"\ninitializer_std = 0.01'
LENET = f'name = "lenet"\n{NORMAL}\ninitializer_bias = "zero"'
RESNET18 = f'name = "resnet18_small_images"\n{NORMAL}'
WIDE = 'name = "wide_resnet_pooled"\ndropout = 0.0'


def file_of(name, model, steps=0, data="mnist", folder=".", batch=BATCH, more="normalize = false", lr=0.05,
            momentum=0.0, workers=1):
    return write(f"{name}.toml", FILE.format(seed=plain.seeded(6), steps=steps, model=model, data=data, folder=folder,
                                             batch=batch, more=more, lr=lr, momentum=momentum, workers=workers))


def trained(out, *arguments, **values):
    troupe("run", file_of(out, *arguments, **values), "--out", out, "--overwrite")
    return plain.weights(out)


def write_images(data="mnist", training=BATCH * STEPS):
    """Writes a small data set; returns its images, in [0, 1], with their labels."""
    channel = torch.tensor(plain.CIFAR_MEAN).view(3, 1, 1), torch.tensor(plain.CIFAR_STD).view(3, 1, 1)
    mean, std = channel if data == "cifar10" else (plain.MEAN, plain.STD)
    write_set = plain.write_cifar10 if data == "cifar10" else plain.write_mnist
    return [(((images * std + mean) * 255).round() / 255, labels) for images, labels in write_set(".", training, 16)]


def check_scores(out, model, samples):
    """The validation loss of the run `out`, whose weights `model` has."""
    found = [line["val_loss"] for line in metrics(out) if line["val_loss"] is not None][-1]
    model.eval()
    with torch.no_grad():
        expected = model.loss(model(samples[0]), samples[1]).item()
    return abs(found - expected) <= 1e-5 * max(1, expected), f"loss {found} instead of {expected}"


def check(name, settings, models, steps=STEPS, data="mnist", still=(), **values):
    """Scores and `steps` steps are those of one of the `models`; returns that and the initial state with its names."""
    training, test = write_images(data)
    states = states_of(lambda count: trained(f"{name}{count}", settings, count, data=data, **values), steps)
    verdicts = []
    for model in models:
        model.load_state_dict(named_as(model, states[0]))
        verdicts.append(check_scores(f"{name}0", model, test))
    assert sum(right for right, _ in verdicts) == 1, [said for _, said in verdicts]
    model = models[[right for right, _ in verdicts].index(True)]
    rows = rows_at(training, values.get("batch", BATCH))
    check_steps([named_as(model, state) for state in states], model, lambda step: [rows(step)],
                values.get("lr", 0.05), values.get("momentum", 0.0), still=still, what=name)
    model.load_state_dict(named_as(model, states[0]))
    return model


def within(values, mean, deviation, what):
    """Five standard errors of the mean and of the deviation of independent normal values; uniform ones have less."""
    count = values.numel()
    assert abs(values.mean() - mean) <= 5 * deviation / math.sqrt(count), f"{what}: mean {values.mean()}"
    assert abs(values.std() / deviation - 1) <= 5 / math.sqrt(2 * count), f"{what}: deviation {values.std()}"


def check_initial(model, std=None, zero_biases=False):
    """Weights of convolutions and linear layers are N(0, std²), or PyTorch's default, which is uniform."""
    for name, module in model.named_modules():
        if isinstance(module, nn.BatchNorm2d):
            assert (module.weight == 1).all() and not module.bias.any(), name
            assert (module.running_var == 1).all() and not module.running_mean.any(), name
        if not isinstance(module, (nn.Conv2d, nn.Linear)):
            continue
        bound = 1 / math.sqrt(module.weight[0].numel())
        within(module.weight.detach(), 0, std or bound / math.sqrt(3), f"{name}.weight")
        if std is None:
            assert module.weight.abs().max() <= bound, name
        elif module.weight.numel() > 1000:
            tails = (module.weight.abs() > 2 * std).double().mean()
            assert abs(tails - 0.0455) <= 5 * math.sqrt(0.0455 / module.weight.numel()), f"{name}: {tails} beyond 2 std"
        if module.bias is None:
            continue
        if zero_biases:
            assert not module.bias.any(), name
        else:
            assert module.bias.abs().max() <= bound, name
            within(module.bias.detach(), 0, bound / math.sqrt(3), f"{name}.bias")


def test_they_have_the_published_numbers_of_parameters():
    write_images("mnist")
    write_images("cifar10")
    for model, data, count in ((LENET, "mnist", 129_068), (RESNET18, "mnist", 11_175_818), (WIDE, "mnist", 17_117_466),
                               (WIDE, "cifar10", 17_117_754),
                               ('name = "resnet20"\nshortcut = "pad"', "cifar10", 269_722),
                               ('name = "resnet20"\nshortcut = "projection"', "cifar10", 272_474)):
        found = json.loads(troupe("check", file_of("counted", model, data=data), "--json").stdout)["parameters"]
        assert found == count, (model, data, found)


def test_lenet_with_normal_weights():
    check_initial(check("lenet", LENET, [Lenet()], 1, lr=10.0), 0.01, zero_biases=True)
    # With so small weights little of a gradient reaches the first layers; for more steps they are ten times as large.
    check_initial(check("larger", LENET.replace("0.01", "0.1"), [Lenet()], lr=0.2), 0.1, zero_biases=True)


@thorough
def test_resnet18_for_small_images():
    model = Resnet18SmallImages()
    # Batch norm takes away what a bias before it adds.
    biases = "first.bias", "second.bias", "stem.0.bias"
    still = [name for name, _ in model.named_parameters() if name.endswith(biases)]
    check_initial(check("resnet18", RESNET18, [model], FEW, still=still), 0.01)


@thorough
def test_wide_resnet_with_pooling():
    # With 0.05, the full width diverges within ten steps.
    check_initial(check("wide", WIDE, [WideResnetPooled()], FEW, batch=2, momentum=0.9, lr=0.02))
    check("narrow", f"{WIDE}\nwidth = 1", [WideResnetPooled(width=1)], momentum=0.9)


def test_wide_resnet_with_pooling_of_three_channels():
    check("narrow", f"{WIDE}\nwidth = 2", [WideResnetPooled(3, width=2)], data="cifar10", momentum=0.9)


def test_resnet20_with_padded_shortcuts():
    check("padded", 'name = "resnet20"\nshortcut = "pad"', [Resnet20(ahead=0.0), Resnet20(ahead=0.5)], data="cifar10")


def test_resnet20_with_projections():
    check("projected", 'name = "resnet20"\nshortcut = "projection"', [Resnet20(projection=True)], data="cifar10")


def epoch_of(model, samples, batch, lr, momentum):
    """The textbook: batches in order, the last one as small as it is."""
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=momentum)
    for images, labels in zip(samples[0].split(batch), samples[1].split(batch), strict=True):
        optimizer.zero_grad()
        model.loss(model(images), labels).backward()
        optimizer.step()


def read_idx(path, header):
    """The bytes of an IDX file after its header; it may be compressed."""
    packed = path.with_name(path.name + ".gz")
    content = gzip.decompress(packed.read_bytes()) if packed.exists() else path.read_bytes()
    return torch.frombuffer(bytearray(content[header:]), dtype=torch.uint8)


SGD = {"lr": 0.01, "momentum": 0.5}


def test_mnist_has_938_batches_of_64():
    folder = pathlib.Path(os.environ.get("TROUPE_DATA", "")).absolute()
    if "TROUPE_DATA" not in os.environ or not (folder / "mnist").is_dir():
        print("  SKIPPED: TROUPE_DATA names no folder with mnist/")
        return
    images = read_idx(folder / "mnist" / "train-images-idx3-ubyte", 16).view(-1, 1, 28, 28).float() / 255
    labels = read_idx(folder / "mnist" / "train-labels-idx1-ubyte", 8).long()
    model = exported(plain.Small)
    start = state_of(model)
    file = file_of("kept", 'script = "model.pt"', 938, folder=folder, batch=64, more="drop_last = false", **SGD)
    assert json.loads(troupe("check", file, "--json").stdout)["steps_per_epoch"] == 938
    epoch_of(model, ((images - plain.MEAN) / plain.STD, labels), 64, **SGD)
    troupe("run", file, "--out", "kept", "--overwrite")
    compare(plain.weights("kept"), model.state_dict(), start)


main(globals())
