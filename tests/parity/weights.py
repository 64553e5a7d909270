"""Initial weights, forward pass, gradient and dropout are PyTorch's. Run with the environment's Python."""

import sys

try:
    import torch
    from own_state import check_steps, rows_at, states_of
    from plain_kinks import Gradient
    from plain import MODELS, Convnet, Lenet, seeded, weights, write_mnist
except ImportError as error:
    print(f"SKIPPED: {error}; scripts/setup --python installs what the parity tests import")
    sys.exit(77)

from troupe_command import main, metrics, troupe, write

FILE = """
[run]
seed = {seed}
steps = {steps}
[model]
name = "{model}"
[data]
name = "mnist"
dir = "."
batch_size = {batch}
shuffle = false
[optimizer]
lr = {lr}
[workers]
count = {workers}
[exchange]
kind = "all_reduce"
"""
BATCH, LR = 16, 0.1


def run(out, workers=1, **values):
    troupe("run", write(f"{out}.toml", FILE.format(batch=BATCH, lr=LR, workers=workers, **values)), "--out", out)
    return weights(out)


def test_initial_weights_are_those_of_manual_seed_bit_for_bit():
    write_mnist(".")
    for model, kind in MODELS.items():
        for seed in (seeded(0), seeded(1), 12345):
            torch.manual_seed(seed)
            expected = kind().state_dict()
            found = run(f"{model}{seed}", seed=seed, steps=0, model=model)
            for name, right in expected.items():
                assert torch.equal(found[name], right), f"{model}, seed {seed}: {name} differs"


def test_one_step_moves_lenet_by_the_gradient_of_pytorch():
    training, _ = write_mnist(".")
    states = states_of(lambda steps: run(f"lenet{steps}", seed=seeded(3), steps=steps, model="lenet"), 1)
    check_steps(states, Lenet(), lambda step: [rows_at(training, BATCH)(step)], lr=LR)


def keyed(seed, purpose, *words):
    """Troupe's key of a random draw: SplitMix64's finaliser over each word in turn."""
    mask, state = (1 << 64) - 1, seed
    for word in (purpose, *words):
        state = (state + 0x9e3779b97f4a7c15 + word) & mask
        state = (state ^ state >> 30) * 0xbf58476d1ce4e5b9 & mask
        state = (state ^ state >> 27) * 0x94d049bb133111eb & mask
        state ^= state >> 31
    return state


def test_convnet_draws_its_dropout_from_a_generator_for_each_worker_and_step():
    training, _ = write_mnist(".")
    seed, dropout = seeded(4), 2
    for workers in (1, 2):
        model = Convnet()
        model.generator = torch.Generator()
        batches = [rows_at(training, BATCH, rank, workers) for rank in range(workers)]
        states = states_of(lambda steps, workers=workers: run(
            f"convnet{workers}{steps}", seed=seed, steps=steps, model="convnet", workers=workers), 3)
        check_steps(states, model, lambda step, batches=batches: [rows(step) for rows in batches], lr=LR,
                    before=lambda step, rank, model: model.generator.manual_seed(keyed(seed, dropout, rank, step)),
                    what=f"{workers} workers")


def test_convnet_without_dropout_scores_as_in_pytorch():
    _, (images, labels) = write_mnist(".")
    found = run("convnet", seed=seeded(4), steps=0, model="convnet")
    model = MODELS["convnet"]()
    model.load_state_dict(found)
    model.eval()
    with torch.no_grad():
        loss = model.loss(model(images), labels).item()
    evaluation = metrics_of("convnet")
    assert abs(evaluation["val_loss"] - loss) <= 1e-4, (evaluation["val_loss"], loss)


class Unit(torch.nn.Module):
    """The sum of relu(w·x) over the samples, or the largest w·x of four."""

    def __init__(self, pool):
        super().__init__()
        self.pool = pool
        self.w = torch.nn.Parameter(torch.tensor([1.0, 1e-8, -1.0]))

    def forward(self, x):
        scores = x @ self.w
        return torch.max_pool2d(scores.view(1, 1, 2, 2), 2) if self.pool else torch.relu(scores)

    @staticmethod
    def loss(output, _):
        return output.sum()


def test_units_that_rounding_may_have_on_either_side_are_found():
    near, far, zero, below = [1.0, 1.0, 1.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 1.0]
    for pool, samples, gradient, band in ((False, [near, far], [2, 2, 1], 1),  # in float32, 1 + 1e-8 - 1 is 0
                                          (False, [far, below], far, 0),
                                          (True, [zero, near, below, below], near, 1),
                                          (True, [zero, far, near, below], far, 0)):
        step = Gradient(Unit(pool), torch.tensor(samples), None)
        (found,), units = step.band()
        assert step.values[0].tolist() == gradient, (samples, step.values)
        assert found == units == band, (samples, found, units)


def metrics_of(out):
    return [line for line in metrics(out) if line["val_loss"] is not None][-1]


main(globals())
