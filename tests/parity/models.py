"""Networks: initial weights, scores, steps of training and the running statistics are PyTorch's. Each step is compared
from the state that Troupe reached, for most of these networks have kinks; see plain_kinks.py."""

import json
import os
import pathlib
import sys

try:
    import numpy
    import torch
    from own_state import check_steps, rows_at, states_of
    from plain import CIFAR_MEAN, CIFAR_STD, Smooth, seeded, weights, write_cifar10, write_mnist
    from plain_models import Gpt, Mlp, Vgg11, WideResnet
    from plain_resnet import MODELS
except ImportError as error:
    print(f"SKIPPED: {error}; scripts/setup --python installs what the parity tests import")
    sys.exit(77)

from troupe_command import main, metrics, thorough, troupe, write

BATCH, STEPS = 16, 2
SGD = {"lr": 0.03, "momentum": 0.9, "weight_decay": 0.001}
FILE = """
[run]
seed = {seed}
steps = {steps}
[model]
{key} = "{model}"
{settings}
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
precision = "{precision}"
"""


# Small ones of models with settings: a name, what the file says, the same in Python for images of so many channels.
SMALL = {
    "wide_resnet": ("layers = 1\nwidth = 1", lambda channels=1: WideResnet(channels, blocks=1, factor=1)),
    "mlp": ("layers = 3\nwidth = 20", lambda channels=1: Mlp(channels * (784 if channels == 1 else 1024), layers=3,
                                                            width=20)),
}


def run(out, seed=3, steps=0, data="mnist", folder=".", settings="", precision="float32", key="name", batch=BATCH,
        **values):
    text = FILE.format(seed=seeded(seed), steps=steps, data=data, folder=folder, batch=batch, settings=settings,
                       precision=precision, key=key, **{**SGD, **values})
    troupe("run", write(f"{out}.toml", text), "--out", out, "--overwrite")
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
            torch.manual_seed(seeded(seed))
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


def check_training(model, samples, channels=1, make=None, still=(), lr=SGD["lr"], batch=BATCH, **values):
    """Gradients show in the weights after the first step, momentum after the second."""
    values |= {"model": model, "lr": lr, "batch": batch}
    states = states_of(lambda steps: run(f"{model}{steps}", steps=steps, **values), STEPS)
    plain = (make or MODELS[model])(channels)
    rows = rows_at(samples, batch)
    check_steps(states, plain, lambda step: [rows(step)], still=still, what=model, **{**SGD, "lr": lr})


def test_a_few_steps_of_training_are_those_of_pytorch():
    training, _ = write_mnist(".")
    for model in MODELS:
        check_training(model, training)


def check_initial(model, expected, **values):
    found = run(f"{model}_initial", seed=12345, model=model, **values)
    assert set(found) == set(expected), set(found) ^ set(expected)
    for name, right in expected.items():
        assert found[name].dtype == right.dtype and torch.equal(found[name], right), f"{model}: {name} differs"


def test_models_with_settings_are_those_of_their_sources():
    for data, channels, make_data in (("mnist", 1, write_mnist), ("cifar10", 3, write_cifar10)):
        training, _ = make_data(".")
        for model, (settings, make) in SMALL.items():
            torch.manual_seed(seeded(12345))
            check_initial(model, make(channels).state_dict(), data=data, settings=settings)
            check_training(model, training, channels=channels, make=make, data=data, settings=settings)


@thorough
def test_vgg11_is_that_of_its_source():
    training, _ = write_cifar10(".")
    for model, norm in (("vgg11", False), ("vgg11_bn", True)):
        torch.manual_seed(seeded(12345))
        check_initial(model, Vgg11(norm=norm).state_dict(), data="cifar10")
        # Batch norm takes away what a bias before it adds.
        still = [f"features.{index}.bias" for index in (0, 4, 8, 11, 15, 18, 22, 25)] if norm else []
        check_training(model, training, channels=3, make=lambda _, norm=norm: Vgg11(norm=norm), still=still,
                       lr=SGD["lr"] if norm else 3.0, batch=8, data="cifar10")


def test_weights_say_how_their_model_is_made():
    write_mnist(".")
    run("small", model="mlp", settings="layers = 1\nwidth = 7", steps=1)
    said = json.loads(troupe("eval", "small/model.safetensors", "--dir", ".", "--json").stdout)
    line = [line for line in metrics("small") if line["val_loss"] is not None][-1]
    assert abs(said["loss"] - line["val_loss"]) < 1e-6, (said, line)


def test_gpt_is_that_of_nanogpt():
    alphabet, length = "abcdefgh", 8
    characters = [index * index * 5 // 7 % 8 for index in range(2000)] + list(range(8))
    write("text.txt", "".join(alphabet[each] for each in characters))
    text = {"settings": "layers = 2\nwidth = 16\nheads = 2",
            "data": f'text"\nsequence_length = {length}\nfile = "text.txt'}
    torch.manual_seed(seeded(12345))
    check_initial("gpt", Gpt(len(alphabet), length, layers=2, width=16, heads=2).state_dict(), **text)
    begins = range(0, BATCH * STEPS * length, length)  # one sequence behind the other, each targets one further
    training = tuple(torch.tensor([characters[first + off:first + off + length] for first in begins])
                     for off in (0, 1))
    check_training("gpt", training, make=lambda _: Gpt(len(alphabet), length, layers=2, width=16, heads=2), lr=1.0,
                   **text)


def distance(found, expected):
    """Euclidean, over all the tensors of two state dicts."""
    return sum((found[name].double() - right.double()).square().sum() for name, right in expected.items()).sqrt().item()


def test_bfloat16_is_autocast():
    (images, labels), _ = write_mnist(".")
    torch.manual_seed(seeded(3))
    model = Smooth()
    torch.jit.script(model).save("model.pt")
    before = {name: value.clone() for name, value in model.state_dict().items()}

    def plain(bfloat16):
        model.load_state_dict(before)
        optimizer = torch.optim.SGD(model.parameters(), **SGD)
        for rows in (slice(step * BATCH, (step + 1) * BATCH) for step in range(STEPS)):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
                scores = model(images[rows])
            model.loss(scores.float(), labels[rows]).backward()
            optimizer.step()
        return {name: value.clone() for name, value in model.state_dict().items()}

    found = run("bfloat16", model="model.pt", key="script", steps=STEPS, precision="bfloat16")
    assert all(value.dtype == torch.float32 for value in found.values())
    expected, exact = plain(True), plain(False)
    off, apart = distance(found, expected), distance(exact, expected)
    print(f"  in bfloat16: {off:.1e} from autocast, which is {apart:.1e} from float32")
    assert apart > 0 and off <= apart / 10, (off, apart)
    assert off <= 2 ** -8 * distance(before, expected), "rounded steps are within bfloat16's precision"


def test_on_cifar10_too():
    folder = pathlib.Path(os.environ.get("TROUPE_DATA", "")).absolute()
    part = folder / "cifar-10-batches-bin" / "data_batch_1.bin"
    if "TROUPE_DATA" not in os.environ or not part.is_file():
        print("  SKIPPED: TROUPE_DATA names no folder with cifar-10-batches-bin/")
        return
    records = numpy.fromfile(part, numpy.uint8, BATCH * STEPS * 3073).reshape(-1, 3073)
    mean, std = (torch.tensor(each).view(1, 3, 1, 1) for each in (CIFAR_MEAN, CIFAR_STD))
    images = (torch.from_numpy(records[:, 1:].reshape(-1, 3, 32, 32).copy()).float() / 255 - mean) / std
    labels = torch.from_numpy(records[:, 0].astype(numpy.int64))
    check_training("resnet20", (images, labels), channels=3, data="cifar10", folder=folder)


main(globals())
