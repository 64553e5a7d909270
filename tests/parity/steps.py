"""Fifty steps of every synchronous wiring of gradients equal a single process in plain PyTorch with n times the batch.

The shards are equal, the loss is a mean, and the model has neither batch norm nor dropout; shuffle off, one intra-op
thread. The model is smooth; lenet itself, which has rectifiers, is compared step by step."""

import functools
import sys

try:
    import plain
    from own_state import check_steps, rows_at, states_of
except ImportError as error:
    print(f"SKIPPED: {error}; scripts/setup --python installs what the parity tests import")
    sys.exit(77)

from trained import BATCH, SGD, STEPS, TOGETHER, compare, exported, run, state_of
from troupe_command import main


@functools.cache
def textbook():
    training, _ = plain.write_mnist("textbook")
    model = exported()
    start = state_of(model)
    plain.train(model, training, STEPS, 4 * BATCH, **SGD)
    return start, model.state_dict()


def check(exchange, workers=4, batch=BATCH, loop=TOGETHER, data=""):
    plain.write_mnist(".")
    start, expected = textbook()
    exported()
    compare(run("trained", exchange=exchange, workers=workers, batch=batch, loop=loop, data=data), expected, start)


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


def test_all_reduce_ring_of_buckets():
    check('[exchange]\nkind = "all_reduce"\nroute = "ring"\nsend = "bucket"\nbucket_mb = 0.1')


def test_all_reduce_of_micro_batches():
    check('[exchange]\nkind = "all_reduce"\nsend = "bucket"\nbucket_mb = 0.1', data="micro_batch_size = 2")


def test_parameter_server():
    check('[exchange]\nkind = "parameter_server"\napply = "all"', loop="gradient, exchange")


def test_parameter_server_of_three_shards():
    check('[exchange]\nkind = "parameter_server"\napply = "all"\nshards = 3', loop="gradient, exchange")


def test_gossip_over_the_complete_graph_once_all_have_stepped():
    check('[exchange]\nkind = "gossip"\ngraph = "complete"\nweights = "uniform"', loop="gradient, apply, exchange")


def test_asgd_with_one_worker():
    check('[exchange]\nkind = "parameter_server"\napply = "each"', workers=1, batch=4 * BATCH,
          loop="gradient, exchange")


def test_lenet_step_by_step():
    training, _ = plain.write_mnist(".")
    sgd = {**SGD, "lr": 0.1}
    for name, exchange, loop in (("all_reduce", 'kind = "all_reduce"\nsend = "bucket"\nbucket_mb = 0.25', TOGETHER),
                                 ("parameter_server", 'kind = "parameter_server"', "gradient, exchange")):
        states = states_of(lambda steps, name=name, exchange=exchange, loop=loop: run(
            f"{name}{steps}", model='name = "lenet"', exchange=f"[exchange]\n{exchange}", loop=loop, sgd=sgd,
            steps=steps), 3)
        check_steps(states, plain.Lenet(), lambda step: [rows_at(training, 4 * BATCH)(step)], what=name, **sgd)


main(globals())
