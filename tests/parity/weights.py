"""Initial weights, forward pass and gradient are PyTorch's. Run with the environment's Python."""

import sys

try:
    import torch
    from plain import MODELS, assert_equal, train, weights, write_mnist
except ImportError as error:
    print(f"SKIPPED: {error}; scripts/setup --python installs what the parity tests import")
    sys.exit(77)

from troupe_command import main, troupe, write

FILE = """
[run]
seed = {seed}
steps = {steps}
[model]
name = "{model}"
[data]
name = "mnist"
dir = "."
batch_size = 16
shuffle = false
[optimizer]
lr = 1.0
[workers]
count = 1
loop = ["gradient", "apply"]
"""


def run(out, **values):
    troupe("run", write(f"{out}.toml", FILE.format(**values)), "--out", out)
    return weights(out)


def test_initial_weights_are_those_of_manual_seed_bit_for_bit():
    write_mnist(".")
    for model, kind in MODELS.items():
        for seed in (0, 1, 12345):
            torch.manual_seed(seed)
            expected = kind().state_dict()
            found = run(f"{model}{seed}", seed=seed, steps=0, model=model)
            for name, right in expected.items():
                assert torch.equal(found[name], right), f"{model}, seed {seed}: {name} differs"


def test_one_step_moves_lenet_by_the_gradient_of_pytorch():
    training, _ = write_mnist(".")
    before = run("before", seed=3, steps=0, model="lenet")
    after = run("after", seed=3, steps=1, model="lenet")
    model = MODELS["lenet"]()
    model.load_state_dict(before)
    train(model, training, steps=1, batch=16, lr=1.0, momentum=0, weight_decay=0)
    largest = assert_equal(after, model.state_dict(), 1e-4, 1e-4)
    print(f"  largest difference {largest:.1e}")


def test_convnet_without_dropout_scores_as_in_pytorch():
    # In training its dropout draws from Troupe's keyed generator; evaluation is the part that is not random.
    _, (images, labels) = write_mnist(".")
    found = run("convnet", seed=4, steps=0, model="convnet")
    model = MODELS["convnet"]()
    model.load_state_dict(found)
    model.eval()
    with torch.no_grad():
        loss = model.loss(model(images), labels).item()
    evaluation = metrics_of("convnet")
    assert abs(evaluation["val_loss"] - loss) <= 1e-4, (evaluation["val_loss"], loss)


def metrics_of(out):
    from troupe_command import metrics
    return [line for line in metrics(out) if line["val_loss"] is not None][-1]


main(globals())
