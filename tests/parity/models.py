"""Residual networks: initial weights, scores, a few steps of training and the running statistics are PyTorch's."""

import os
import pathlib
import sys

try:
    import numpy
    import torch
    from plain import assert_equal, train, weights, write_mnist
    from plain_resnet import MODELS
except ImportError as error:
    print(f"SKIPPED: {error}; scripts/setup --python installs what the parity tests import")
    sys.exit(77)

from troupe_command import main, metrics, troupe, write

BATCH, STEPS = 16, 3
SGD = {"lr": 0.01, "momentum": 0.9, "weight_decay": 0.001}
FILE = """
[run]
seed = {seed}
steps = {steps}
[model]
name = "{model}"
[data]
name = "{data}"
dir = "{folder}"
batch_size = {batch}
shuffle = false
[optimizer]
lr = {lr}
momentum = {momentum}
weight_decay = {weight_decay}
[workers]
count = 1
loop = ["gradient", "apply"]
"""


def run(out, seed=3, steps=0, data="mnist", folder=".", **values):
    troupe("run", write(f"{out}.toml", FILE.format(seed=seed, steps=steps, data=data, folder=folder, batch=BATCH,
                                                   **{**SGD, **values})), "--out", out)
    return weights(out)


def test_they_have_the_published_numbers_of_parameters():
    for model, channels, classes, count in (("resnet20", 3, 10, 272_474), ("resnet18", 3, 10, 11_181_642),
                                            ("resnet18", 3, 1000, 11_689_512)):
        found = sum(each.numel() for each in MODELS[model](channels, classes).parameters())
        assert found == count, (model, found)


def test_initial_weights_are_those_of_manual_seed_bit_for_bit():
    write_mnist(".")
    for model, make in MODELS.items():
        for seed in (1, 12345):
            torch.manual_seed(seed)
            expected = make().state_dict()
            found = run(f"{model}{seed}", seed=seed, model=model)
            assert set(found) == set(expected), set(found) ^ set(expected)
            for name, right in expected.items():
                assert found[name].dtype == right.dtype, f"{model}: {name} is {found[name].dtype}"
                assert torch.equal(found[name], right), f"{model}, seed {seed}: {name} differs"


def test_scores_are_those_of_pytorch():
    _, (images, labels) = write_mnist(".")
    for model, make in MODELS.items():
        found = run(model, model=model)
        plain = make()
        plain.load_state_dict(found, strict=True)
        plain.eval()
        with torch.no_grad():
            loss = plain.loss(plain(images), labels).item()
        evaluation = [line for line in metrics(model) if line["val_loss"] is not None][-1]
        assert abs(evaluation["val_loss"] - loss) <= 1e-4 * max(1, loss), (evaluation["val_loss"], loss)


def check_training(model, samples, channels=1, **values):
    """Gradients show in the weights after the first step; what the running statistics are is in the state dict."""
    plain = MODELS[model](channels)
    plain.load_state_dict(run(f"{model}_before", model=model, **values), strict=True)
    train(plain, samples, STEPS, BATCH, **SGD)
    after = run(f"{model}_after", model=model, steps=STEPS, **values)
    assert after["bn1.num_batches_tracked"].item() == STEPS
    largest = assert_equal(after, plain.state_dict(), 1e-4, 1e-4)
    print(f"  {model}: largest difference {largest:.1e}")


def test_a_few_steps_of_training_are_those_of_pytorch():
    training, _ = write_mnist(".")
    for model in MODELS:
        check_training(model, training)


def test_on_cifar10_too():
    folder = pathlib.Path(os.environ.get("TROUPE_DATA", "")).absolute()
    part = folder / "cifar-10-batches-bin" / "data_batch_1.bin"
    if "TROUPE_DATA" not in os.environ or not part.is_file():
        print("  SKIPPED: TROUPE_DATA names no folder with cifar-10-batches-bin/")
        return
    records = numpy.fromfile(part, numpy.uint8, BATCH * STEPS * 3073).reshape(-1, 3073)
    mean = torch.tensor([0.4914, 0.4822, 0.4465]).view(1, 3, 1, 1)
    std = torch.tensor([0.2470, 0.2435, 0.2616]).view(1, 3, 1, 1)
    images = (torch.from_numpy(records[:, 1:].reshape(-1, 3, 32, 32).copy()).float() / 255 - mean) / std
    labels = torch.from_numpy(records[:, 0].astype(numpy.int64))
    check_training("resnet20", (images, labels), channels=3, data="cifar10", folder=folder)


main(globals())
