"""Fifty steps of every optimizer and every learning rate schedule equal PyTorch's, or a plain implementation of the
paper if PyTorch has none: with one worker, with four workers that reduce their gradients, and with a server that
applies the updates of four workers."""

import math
import sys

try:
    import torch
    import torch_optimizer
    from plain import Small, write_mnist
    from plain_novograd import NovoGrad
except ImportError as error:
    print(f"SKIPPED: {error}; scripts/setup --python installs what the parity tests import")
    sys.exit(77)

from torch.optim import SGD, Adam, AdamW
from torch.optim.lr_scheduler import CosineAnnealingLR, ConstantLR, LinearLR, MultiStepLR, PolynomialLR, SequentialLR
from trained import BATCH, STEPS, compare, exported, run, state_of
from troupe_command import main, thorough

WORKERS = 4
WIRINGS = {
    "alone": {"workers": 1, "batch": WORKERS * BATCH, "loop": "gradient, apply", "exchange": ""},
    "all_reduce": {"exchange": '[exchange]\nkind = "all_reduce"'},
    "parameter_server": {"exchange": '[exchange]\nkind = "parameter_server"', "loop": "gradient, exchange"},
}
PER_EPOCH = 480 // (WORKERS * BATCH)  # 15 steps in an epoch, of whatever wiring


def trained(model, samples, optimizer, schedule=None, clip_norm=None):
    """The textbook loop: `schedule` is stepped once a step."""
    images, labels = samples
    model.train()
    for step in range(STEPS):
        rows = slice(step % PER_EPOCH * WORKERS * BATCH, (step % PER_EPOCH + 1) * WORKERS * BATCH)
        optimizer.zero_grad()
        model.loss(model(images[rows]), labels[rows]).backward()
        if clip_norm:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
        optimizer.step()
        if schedule:
            schedule.step()


def check(recipe, make, schedule=None, clip_norm=None, wirings=tuple(WIRINGS), model=None, **tolerance):
    """`recipe`: the keys of [optimizer], as TOML."""
    training, _ = write_mnist(".")
    model = model or exported()
    start = state_of(model)
    optimizer = make(model.parameters())
    trained(model, training, optimizer, schedule and schedule(optimizer), clip_norm)
    for name in wirings:
        found = run(name, **{"batch": BATCH, "sgd": recipe, **WIRINGS[name]})
        compare(found, model.state_dict(), start, name, **tolerance)


def test_sgd_with_nesterov_and_weight_decay():
    check({"lr": 0.01, "momentum": 0.9, "nesterov": "true", "weight_decay": 0.001},
          lambda each: SGD(each, lr=0.01, momentum=0.9, nesterov=True, weight_decay=0.001))


def test_adam():
    check({"name": '"adam"', "lr": 0.001, "weight_decay": 0.01, "eps": 1e-4},
          lambda each: Adam(each, lr=0.001, weight_decay=0.01, eps=1e-4))


def test_adam_with_betas_of_its_own():
    check({"name": '"adam"', "lr": 0.0003, "betas": [0.8, 0.95], "eps": 1e-4},
          lambda each: Adam(each, lr=0.0003, betas=(0.8, 0.95), eps=1e-4), wirings=["all_reduce"])


def test_adamw():
    check({"name": '"adamw"', "lr": 0.001, "weight_decay": 0.1, "eps": 1e-4},
          lambda each: AdamW(each, lr=0.001, weight_decay=0.1, eps=1e-4))


def test_adam_with_a_small_epsilon_of_its_own():
    # Adam makes a whole step of a gradient within rounding of zero, to either side: the first step must have none.
    for attempt in range(100):
        training, _ = write_mnist(".")
        model = exported(Small, attempt)
        model.loss(model(training[0][:WORKERS * BATCH]), training[1][:WORKERS * BATCH]).backward()
        if min(each.grad.abs().min() for each in model.parameters()) > 1e-6:
            break
    check({"name": '"adam"', "lr": 0.001, "eps": 1e-10}, lambda each: Adam(each, lr=0.001, eps=1e-10), model=model)


@thorough
def test_novograd_of_the_package():
    for recipe, settings in (({}, {}), ({"grad_averaging": "true"}, {"grad_averaging": True}),
                             ({"betas": [0.9, 0.6], "eps": 1e-6, "weight_decay": 0.01},
                              {"betas": (0.9, 0.6), "eps": 1e-6, "weight_decay": 0.01})):
        check({"name": '"novograd"', "lr": 0.001, **recipe},
              lambda each, settings=settings: torch_optimizer.NovoGrad(each, lr=0.001, **settings),
              wirings=list(WIRINGS) if recipe else ["alone"], absolute=1e-6, relative=1e-6)


def test_novograd_of_the_paper():
    check({"name": '"novograd"', "lr": 0.001, "weight_decay": 0.001, "moment_start": '"gradient"',
           "grad_averaging": "true", "betas": [0.95, 0.98]}, lambda each: NovoGrad(each, lr=0.001, weight_decay=0.001))


def grouped(make, decays, **settings):
    """What makes an optimizer with two groups: with weight decay those parameters of which decays(parameter) holds."""
    def made(parameters):
        parameters = list(parameters)
        with_decay = [each for each in parameters if decays(each)]
        without = [each for each in parameters if not decays(each)]
        groups = [{"params": with_decay}] if with_decay else []
        return make([*groups, {"params": without, "weight_decay": 0.0}], **settings)

    return made


def check_groups(recipe, make, **settings):
    for keys, decays in (({"no_decay": ["*.bias"]}, lambda each: each.dim() == 2),
                         ({"decay_min_dims": 2}, lambda each: each.dim() == 2),
                         ({"no_decay": ["fc1.*"]}, lambda each: each.shape[0] == 10),
                         ({"no_decay": ["*.bias", "fc?.weight"]}, lambda each: False),
                         ({"no_decay": ["fc2*"], "decay_min_dims": 2}, lambda each: each.shape == (16, 49))):
        check({**recipe, **keys}, grouped(make, decays, **settings), wirings=["parameter_server"],
              model=exported(Small))


def test_groups_without_weight_decay_under_sgd():
    check_groups({"lr": 0.01, "momentum": 0.9, "weight_decay": 0.1}, SGD, lr=0.01, momentum=0.9, weight_decay=0.1)


def test_groups_without_weight_decay_under_adam():
    check_groups({"name": '"adam"', "lr": 0.001, "weight_decay": 0.1, "eps": 1e-4}, Adam, lr=0.001, weight_decay=0.1,
                 eps=1e-4)


def test_groups_without_weight_decay_under_adamw():
    check_groups({"name": '"adamw"', "lr": 0.001, "weight_decay": 1.0, "eps": 1e-4}, AdamW, lr=0.001, weight_decay=1.0,
                 eps=1e-4)


def test_groups_without_weight_decay_under_novograd():
    check_groups({"name": '"novograd"', "lr": 0.001, "weight_decay": 0.1}, torch_optimizer.NovoGrad, lr=0.001,
                 weight_decay=0.1)


def test_clipping():
    check({"lr": 0.01, "momentum": 0.9, "clip_norm": 0.5}, lambda each: SGD(each, lr=0.01, momentum=0.9), clip_norm=0.5)


def check_rates(recipe, schedule, wirings=tuple(WIRINGS), by=1, lr=0.02):
    """Of SGD with momentum. `schedule(optimizer)` is stepped once in `by` steps."""
    made = {}

    class Stepped:
        def __init__(self, optimizer):
            self.inner, self.steps = schedule(optimizer), 0

        def step(self):
            self.steps += 1
            if self.steps % by == 0:
                self.inner.step()
            made[self.steps] = self.inner.get_last_lr()[0]

    check({"momentum": 0.9, **recipe}, lambda each: SGD(each, lr=lr, momentum=0.9), Stepped, wirings=wirings,
          model=exported(Small))
    assert len(set(made.values())) > 2, made


def test_warm_up_then_steps():
    recipe = {"lr": 0.02, "warmup_epochs": 0.8, "warmup_start": 0.1, "schedule": '"step"', "decay_epochs": [2, 3],
              "decay_factor": 0.2}
    warm = round(0.8 * PER_EPOCH)
    check_rates(recipe, lambda sgd: SequentialLR(
        sgd, [LinearLR(sgd, 0.1, total_iters=warm),
              MultiStepLR(sgd, [2 * PER_EPOCH - warm, 3 * PER_EPOCH - warm], gamma=0.2)], [warm]))


def test_warm_up_then_cosine():
    recipe = {"lr": 0.02, "warmup_epochs": 1, "warmup_start": 0.25, "schedule": '"cosine"'}
    check_rates(recipe, lambda sgd: SequentialLR(
        sgd, [LinearLR(sgd, 0.25, total_iters=PER_EPOCH), CosineAnnealingLR(sgd, STEPS - PER_EPOCH)], [PER_EPOCH]))


def test_cosine_down_to_a_least_rate():
    check_rates({"lr": 0.02, "schedule": '"cosine"', "min_lr": 0.005},
                lambda sgd: CosineAnnealingLR(sgd, STEPS, eta_min=0.005), wirings=["all_reduce"])


def test_polynomial():
    check_rates({"lr": 0.02, "schedule": '"polynomial"', "decay_power": 2.0},
                lambda sgd: PolynomialLR(sgd, STEPS, power=2.0), wirings=["parameter_server"])


def test_warm_up_alone():
    check_rates({"lr": 0.02, "warmup_epochs": 1, "warmup_start": 0.5}, lambda sgd: SequentialLR(
        sgd, [LinearLR(sgd, 0.5, total_iters=PER_EPOCH), ConstantLR(sgd, 1)], [PER_EPOCH]), wirings=["all_reduce"])


def test_warm_up_by_epochs():
    recipe = {"lr": 0.02, "warmup_epochs": 3, "warmup_start": 0.25, "schedule_by": '"epoch"'}
    check_rates(recipe, lambda sgd: LinearLR(sgd, start_factor=0.25, total_iters=3), by=PER_EPOCH)


def test_scaling_linearly_with_the_workers():
    check({"lr": 0.005, "momentum": 0.9, "scale_lr": '"linear"'},
          lambda each: SGD(each, lr=0.005 * WORKERS, momentum=0.9), wirings=["all_reduce", "parameter_server"],
          model=exported(Small))


def test_scaling_with_the_root_of_the_workers():
    check({"lr": 0.002, "momentum": 0.9, "scale_lr": '"sqrt"'},
          lambda each: SGD(each, lr=0.002 * math.sqrt(WORKERS), momentum=0.9), wirings=["all_reduce"],
          model=exported(Small))


main(globals())
