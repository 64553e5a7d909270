"""Fifty steps of every synchronous wiring of gradients equal the textbook's single process with n times the batch.

Holds for equal shards, the mean loss, and a model without batch norm or dropout; shuffle off, one intra-op thread."""

import sys

try:
    from plain import MODELS, assert_equal, train, weights, write_mnist
except ImportError as error:
    print(f"SKIPPED: {error}; scripts/setup --python installs what the parity tests import")
    sys.exit(77)

from troupe_command import main, troupe, write

WORKERS, BATCH, STEPS = 4, 8, 50
FILE = """
[run]
seed = 5
steps = {steps}
[model]
name = "lenet"
[data]
name = "mnist"
dir = "."
batch_size = {batch}
shuffle = false
split = "strided"
[optimizer]
lr = 0.02
momentum = 0.9
weight_decay = 0.001
[workers]
count = {workers}
loop = {loop}
{exchange}
"""


def run(out, exchange="", workers=WORKERS, batch=BATCH, steps=STEPS):
    loop = '["gradient", "exchange", "apply"]' if exchange else '["gradient", "apply"]'
    text = FILE.format(steps=steps, batch=batch, workers=workers, loop=loop,
                       exchange=f"[exchange]\n{exchange}" if exchange else "")
    troupe("run", write(f"{out}.toml", text), "--out", out)
    return weights(out)


def check(exchange, workers=WORKERS, batch=BATCH):
    training, _ = write_mnist(".")
    model = MODELS["lenet"]()
    model.load_state_dict(run("initial", exchange, workers, batch, steps=0))
    train(model, training, STEPS, workers * batch, lr=0.02, momentum=0.9, weight_decay=0.001)
    largest = assert_equal(run("trained", exchange, workers, batch), model.state_dict())
    print(f"  largest difference {largest:.1e}")


def test_one_worker_alone():
    check("", workers=1, batch=WORKERS * BATCH)


def test_star_whole():
    check('kind = "star"\nsend = "whole"')


def test_star_by_parameter():
    check('kind = "star"\nsend = "parameter"')


def test_all_reduce():
    check('kind = "all_reduce"')


def test_all_reduce_ring():
    check('kind = "all_reduce"\nroute = "ring"')


main(globals())
