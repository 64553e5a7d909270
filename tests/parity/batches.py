"""Epochs and evaluations are divided as by PyTorch's own DistributedSampler and DataLoader: with last batches kept,
with epochs padded, and with a validation set of which each rank evaluates a share.

A smooth network on noise; shuffle off, one intra-op thread."""

import sys

try:
    import plain
    import torch
    from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
except ImportError as error:
    print(f"SKIPPED: {error}; scripts/setup --python installs what the parity tests import")
    sys.exit(77)

from trained import exported, state_of
from troupe_command import main, metrics, troupe, write

TRAINING, TEST, EPOCHS = 101, 47, 3
SGD = {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.001}
FILE = """
[run]
seed = 3
epochs = {epochs}
[model]
script = "model.pt"
[data]
name = "mnist"
dir = "."
batch_size = {batch}
{data}
shuffle = false
[optimizer]
lr = 0.05
momentum = 0.9
weight_decay = 0.001
[workers]
count = {ranks}
[exchange]
kind = "all_reduce"
[evaluate]
{evaluate}
"""


def run(out, **settings):
    troupe("run", write(f"{out}.toml", FILE.format(epochs=EPOCHS, **settings)), "--out", out, "--overwrite",
           "--csv", f"{out}.csv")
    return plain.weights(out)


def loaders_of(samples, ranks, batch, padded, drop_last):
    """A loader for each rank; what does not divide among them is left out, or repeated as PyTorch does by default."""
    data = TensorDataset(*samples)
    samplers = [DistributedSampler(data, ranks, rank, shuffle=False, drop_last=not padded) for rank in range(ranks)]
    return [DataLoader(data, batch, sampler=each, drop_last=drop_last) for each in samplers]


def evaluate(model, loaders):
    """The mean over the ranks of each rank's mean loss and accuracy."""
    model.eval()
    losses, accuracies = [], []
    with torch.no_grad():
        for loader in loaders:
            output, labels = (torch.cat(each) for each in zip(*((model(x), y) for x, y in loader), strict=True))
            losses.append(model.loss(output, labels).item())
            accuracies.append((output.argmax(1) == labels).double().mean().item())
    model.train()
    return sum(losses) / len(losses), sum(accuracies) / len(accuracies)


def train(model, loaders, validation):
    """Data parallel: each step on the mean of the ranks' gradients. Returns the figures of each epoch."""
    optimizer = torch.optim.SGD(model.parameters(), **SGD)
    epochs = []
    for _ in range(EPOCHS):
        loss_sum, correct, seen, steps = 0, 0, 0, 0
        for batches in zip(*loaders, strict=True):
            optimizer.zero_grad()
            for images, labels in batches:
                output = model(images)
                loss = model.loss(output, labels)
                (loss / len(batches)).backward()
                loss_sum += loss.item() * len(labels)
                correct += (output.argmax(1) == labels).sum().item()
                seen += len(labels)
            optimizer.step()
            steps += 1
        epochs.append((steps, loss_sum / seen, correct / seen, *evaluate(model, validation)))
    return epochs


def check(ranks, batch, padded, drop_last, evaluated_by=1, evaluation_batch=1000, evaluation_drops=False, micro=None):
    training, test = plain.write_mnist(".", training=TRAINING, test=TEST)
    data = [f"drop_last = {str(drop_last).lower()}"] + ['remainder = "pad"'] * padded
    if micro:
        data.append(f"micro_batch_size = {micro}")
    settings = {"ranks": ranks, "batch": batch, "data": "\n".join(data),
                "evaluate": f"batch_size = {evaluation_batch}\ndrop_last = {str(evaluation_drops).lower()}\n"
                            f'split = "{"workers" if evaluated_by > 1 else "whole"}"'}
    model = exported()
    start = state_of(model)
    expected = train(model, loaders_of(training, ranks, batch, padded, drop_last),
                     loaders_of(test, evaluated_by, evaluation_batch, True, evaluation_drops))
    found = run("trained", **settings)
    print(f"  largest difference {plain.assert_equal(found, model.state_dict(), start):.1e}")
    lines = [line for line in metrics("trained") if line["event"] == "epoch"]
    assert len(lines) == len(expected), lines
    for number, (line, (steps, loss, accuracy, val_loss, val_accuracy)) in enumerate(zip(lines, expected), 1):
        assert line["step"] == number * steps, (line, steps)
        for key, value in (("train_loss", loss), ("train_accuracy", accuracy), ("val_loss", val_loss),
                           ("val_accuracy", val_accuracy)):
            assert abs(line[key] - value) <= 1e-4 * max(1, abs(value)), (number, key, line[key], value)


def test_one_worker_keeps_the_last_batch():
    check(ranks=1, batch=16, padded=False, drop_last=False)  # 6 of 16, one of 5


def test_padded_epochs_whose_last_batches_are_kept():
    check(ranks=4, batch=7, padded=True, drop_last=False)  # 26 each: 7, 7, 7, 5


def test_padded_epochs_whose_last_batches_are_dropped():
    check(ranks=3, batch=8, padded=True, drop_last=True)  # 34 each: 4 of 8


def test_more_ranks_than_the_remainder_leaves():
    check(ranks=3, batch=8, padded=False, drop_last=False)  # 33 each: 4 of 8, one of 1


def test_the_last_batch_in_uneven_micro_batches():
    check(ranks=4, batch=8, micro=2, padded=True, drop_last=False)  # 26 each: 3 of 8, one of 2


def test_evaluation_in_shares():
    check(ranks=4, batch=13, padded=True, drop_last=False, evaluated_by=4, evaluation_batch=5)  # 12 each


def test_evaluation_in_shares_without_their_last_batches():
    check(ranks=4, batch=13, padded=True, drop_last=True, evaluated_by=4, evaluation_batch=5, evaluation_drops=True)


def uneven(model, samples, sizes, steps):
    """Each step takes the next samples, dealt to the workers in turn as long as they have room; the gradient is the mean
    over the samples, whoever has them."""
    optimizer = torch.optim.SGD(model.parameters(), **SGD)
    images, labels = samples
    per_step = sum(sizes)
    model.train()
    for step in range(steps):
        first = step % (len(labels) // per_step) * per_step
        places, dealt = [[] for _ in sizes], iter(range(first, first + per_step))
        for turn in range(max(sizes)):
            for rank, size in enumerate(sizes):
                if turn < size:
                    places[rank].append(next(dealt))
        gradient = None
        for size, chosen in zip(sizes, places, strict=True):
            optimizer.zero_grad()
            model.loss(model(images[chosen]), labels[chosen]).backward()
            own = [size * each.grad for each in model.parameters()]
            gradient = own if gradient is None else [a + b for a, b in zip(gradient, own, strict=True)]
        for parameter, total in zip(model.parameters(), gradient, strict=True):
            parameter.grad = total / per_step
        optimizer.step()


def test_batches_of_different_sizes():
    training, _ = plain.write_mnist(".", TRAINING, TEST)
    sizes, steps = [7, 1, 4], 50
    plain_model = exported()
    start = state_of(plain_model)
    uneven(plain_model, training, sizes, steps)
    for name, exchange in (("all_reduce", 'kind = "all_reduce"'), ("ring", 'kind = "all_reduce"\nroute = "ring"'),
                           ("star", 'kind = "star"'), ("server", 'kind = "parameter_server"\nsends = "gradient"')):
        text = FILE.format(epochs=1, batch=sizes, ranks=len(sizes), data="", evaluate="")
        text = text.replace("epochs = 1", f"steps = {steps}").replace('kind = "all_reduce"', exchange)
        if name == "server":
            text = text.replace("count = 3", 'count = 3\nloop = ["gradient", "exchange"]')
        troupe("run", write(f"{name}.toml", text), "--out", name)
        largest = plain.assert_equal(plain.weights(name), plain_model.state_dict(), start)
        print(f"  {name}: largest difference {largest:.1e}")
    said = troupe("check", "ring.toml").stdout
    assert "3 with batches of 7, 1 and 4 = 12 samples per step" in said, said
    nodes = text.replace("count = 3\n", "") + "".join(f'[[node]]\nname = "{name}"\nworkers = {count}\n'
                                                       for name, count in (("a", 2), ("b", 1)))
    troupe("run", write("nodes.toml", nodes), "--out", "nodes")
    assert all(torch.equal(value, plain.weights("server")[name]) for name, value in plain.weights("nodes").items())


def test_lists_of_batches_that_do_not_fit_are_refused():
    plain.write_mnist(".", TRAINING, TEST)
    exported()
    for batch, data, says in (([3, 2], "", "has 2 numbers, but there are 3 workers"), ([60, 40, 30], "", "no full step"),
                              ([3, 2, 1], 'split = "contiguous"', 'requires data.split = "strided"'),
                              ([3, 2, 1], "drop_last = false", "requires data.drop_last = true"),
                              ([4, 2, 2], "micro_batch_size = 2", "cannot be combined with data.micro_batch_size"),
                              ([3, 0, 1], "", "expected an integer from 1 to 1000000, or a list of such integers")):
        text = FILE.format(epochs=1, batch=batch, ranks=3, data=data, evaluate="")
        said = troupe("check", write("bad.toml", text), status=2).stderr
        assert says in said and said.count("\n") == 1, said


main(globals())
