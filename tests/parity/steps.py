"""Fifty steps of every synchronous wiring of gradients equal the textbook's single process with n times the batch.

Holds for equal shards, the mean loss, and a model without batch norm or dropout; shuffle off, one intra-op thread."""

import sys

try:
    from plain import assert_equal, train, write_mnist
except ImportError as error:
    print(f"SKIPPED: {error}; scripts/setup --python installs what the parity tests import")
    sys.exit(77)

from trained import BATCH, SGD, STEPS, TOGETHER, initial, run
from troupe_command import main


def check(exchange, workers=4, batch=BATCH, loop=TOGETHER):
    training, _ = write_mnist(".")
    wiring = {"exchange": exchange, "workers": workers, "batch": batch, "loop": loop}
    model = initial(**wiring)
    train(model, training, STEPS, workers * batch, **SGD)
    largest = assert_equal(run("trained", **wiring), model.state_dict())
    print(f"  largest difference {largest:.1e}")


def test_one_worker_alone():
    check("", workers=1, batch=4 * BATCH, loop="gradient, apply")


def test_star_whole():
    check('[exchange]\nkind = "star"\nsend = "whole"')


def test_star_by_parameter():
    check('[exchange]\nkind = "star"\nsend = "parameter"')


def test_all_reduce():
    check('[exchange]\nkind = "all_reduce"')


def test_all_reduce_ring():
    check('[exchange]\nkind = "all_reduce"\nroute = "ring"')


def test_parameter_server():
    check('[exchange]\nkind = "parameter_server"\napply = "all"', loop="gradient, exchange")


def test_parameter_server_of_three_shards():
    check('[exchange]\nkind = "parameter_server"\napply = "all"\nshards = 3', loop="gradient, exchange")


def test_gossip_over_the_complete_graph_once_all_have_stepped():
    check('[exchange]\nkind = "gossip"\ngraph = "complete"\nweights = "uniform"', loop="gradient, apply, exchange")


def test_asgd_with_one_worker():
    check('[exchange]\nkind = "parameter_server"\napply = "each"', workers=1, batch=4 * BATCH,
          loop="gradient, exchange")


main(globals())
