#!/usr/bin/env python3
"""How fast is a module exported by PyTorch (model.exported) compared with the built-in model of the same definition?

Trains each on the built-in digits with one worker, in pairs of runs.
    scripts/setup --python && cmake --preset release && cmake --build build && .venv/bin/python bench/exported.py [pairs]
"""

import statistics
import sys
import tempfile

import torch
from measure import ALONE, ROOT, repetitions, setting, troupe_rate
from torch import nn
from torch.nn import functional

sys.path.insert(0, str(ROOT / "tests/parity"))
import plain_resnet

STEPS = {"convnet": 1200, "resnet20": 100}


class Convnet(nn.Module):
    """That of PyTorch's MNIST example as it was until 2019."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 10, 5)
        self.conv2 = nn.Conv2d(10, 20, 5)
        self.conv2_drop = nn.Dropout2d()
        self.fc1 = nn.Linear(320, 50)
        self.fc2 = nn.Linear(50, 10)

    def forward(self, x):
        x = functional.relu(functional.max_pool2d(self.conv1(x), 2))
        x = functional.relu(functional.max_pool2d(self.conv2_drop(self.conv2(x)), 2))
        x = functional.relu(self.fc1(x.flatten(1)))
        return functional.log_softmax(self.fc2(functional.dropout(x, training=self.training)), 1)


def main():
    setting()
    pairs = repetitions()
    for name, model in (("convnet", Convnet()), ("resnet20", plain_resnet.resnet20())):
        with tempfile.NamedTemporaryFile(suffix=".pt2") as file:
            program = torch.export.export(model.train(), (torch.zeros(4, 1, 28, 28),),
                                          dynamic_shapes=({0: torch.export.Dim("batch")},))
            torch.export.save(program, file.name)
            values = {"steps": STEPS[name], "batch": 32, "workers": 1, "loop": ALONE, "exchange": ""}
            loss = "nll" if name == "convnet" else "cross_entropy"
            as_exported = f'exported"\nexported = "{file.name}"\nloss = "{loss}'
            ratios = []
            for pair in range(pairs + 1):  # the first is a warm-up
                rates = [troupe_rate(model=each, **values)[0] for each in (name, as_exported)]
                if pair:
                    ratios.append(rates[1] / rates[0])
            low, _, high = statistics.quantiles(ratios, n=4)
            print(f"  {name}: exported / built-in {statistics.median(ratios):.3f} samples per second "
                  f"(quartiles {low:.3f} and {high:.3f}, {pairs} pairs)", flush=True)


main()
