"""Fifty steps of the decentralised, averaging, elastic and asynchronous wirings equal the same algorithm in plain
PyTorch; steps.py covers the wirings that equal a single process. Asynchronous wirings are compared in a forced order of
arrivals.

The model is smooth and has neither batch norm nor dropout; shuffle off, one intra-op thread."""

import json
import random
import sys

try:
    import plain
except ImportError as error:
    print(f"SKIPPED: {error}; scripts/setup --python installs what the parity tests import")
    sys.exit(77)

import torch
from trained import BATCH, SGD, STEPS, compare, exported, file_of, run, run_in_order, state_of
from troupe_command import main, metrics, thorough, troupe

STEP_FIRST = "gradient, apply, exchange"


def begin(count, sgd=None, make=plain.Smooth):
    """The initial model and the textbook's workers with it."""
    training, _ = plain.write_mnist(".")
    model = exported(make)
    return model, plain.workers_of(model, training, count, BATCH, **(sgd or SGD))


def check(algorithm, exchange, count=4, make=plain.Smooth, sgd=None, **wiring):
    """Compares the result of algorithm(workers): a vector, or nothing where it is the workers' mean."""
    model, workers = begin(count, sgd, make)
    result = algorithm(workers)
    expected = plain.state_of(model, plain.mean_of(workers) if result is None else result)
    compare(run("trained", workers=count, exchange=exchange, sgd=sgd, **wiring), expected, state_of(model))
    if result is None:
        expected, found = plain.consensus_distance(workers), metrics("trained")[-1]["consensus_distance"]
        print(f"  consensus distance {found}")
        assert abs(found - expected) <= 1e-3 * expected + 1e-4, (found, expected)


def gossip(settings):
    return f'[exchange]\nkind = "gossip"\n{settings}'


def check_graph(settings, W, count):
    check(lambda workers: plain.dpsgd(workers, STEPS, W), gossip(settings), count=count, make=plain.Small)


def test_dpsgd_on_a_ring_of_four():
    check(lambda workers: plain.dpsgd(workers, STEPS, plain.ring(4)), gossip('graph = "ring"'))


def test_dpsgd_with_weight_decay_before_and_after_mixing():
    results = []
    for decays in {"l2_penalty": 0.2, "weight_decay": 0.02}, {"l2_penalty": 0.02, "weight_decay": 0.2}:
        _, workers = begin(4, {"lr": 0.5, **decays}, plain.Small)
        plain.dpsgd(workers, STEPS, plain.ring(4))
        results.append(plain.mean_of(workers))
    apart = (results[0] - results[1]).abs().max().item()
    assert apart > 2e-4, f"the two exchanged, it is the same within {apart}"
    check(lambda workers: plain.dpsgd(workers, STEPS, plain.ring(4)), gossip('graph = "ring"'), make=plain.Small,
          sgd={"lr": 0.5, "l2_penalty": 0.2, "weight_decay": 0.02})


def test_dpsgd_every_third_step():
    check(lambda workers: plain.dpsgd(workers, STEPS, plain.ring(4), every=3), gossip('graph = "ring"\nevery = 3'),
          make=plain.Small)


def test_dpsgd_on_a_line_whose_degrees_differ():
    check_graph('graph = "line"\nweights = "metropolis"', plain.metropolis(4, [(0, 1), (1, 2), (2, 3)]), 4)


@thorough
def test_dpsgd_on_edges_written_down():
    W = plain.metropolis(4, [(0, 1), (0, 2), (0, 3), (2, 3)])
    edges = '[["w0", "w1"], ["w0", "w2"], ["w0", "w3"], ["w2", "w3"]]'
    check_graph(f"edges = {edges}", W, 4)


def test_dpsgd_with_a_matrix_of_five_written_down():
    W = [[0.5, 0.3, 0.0, 0.0, 0.2],
         [0.3, 0.4, 0.2, 0.1, 0.0],
         [0.0, 0.2, 0.6, 0.2, 0.0],
         [0.0, 0.1, 0.2, 0.4, 0.3],
         [0.2, 0.0, 0.0, 0.3, 0.5]]
    check_graph(f"weights = {W}", W, 5)


def test_dpsgd_on_a_directed_exponential_graph_of_six():
    check_graph('graph = "exponential"', plain.exponential(6), 6)


def test_dpsgd_with_a_matrix_that_is_not_symmetric():
    W = [[0.6, 0.4, 0.0, 0.0, 0.0],
         [0.0, 0.5, 0.3, 0.2, 0.0],
         [0.1, 0.0, 0.5, 0.2, 0.2],
         [0.0, 0.1, 0.2, 0.5, 0.2],
         [0.3, 0.0, 0.0, 0.1, 0.6]]
    model, workers = begin(5, make=plain.Small)
    _, others = begin(5, make=plain.Small)
    plain.dpsgd(workers, STEPS, W)
    plain.dpsgd(others, STEPS, list(zip(*W, strict=True)))
    apart = (plain.mean_of(workers) - plain.mean_of(others)).abs().max().item()
    assert apart > 1e-3, f"the transposed matrix gives the same within {apart}"
    check_graph(f"weights = {W}", W, 5)


def test_dpsgd_on_a_torus():
    rows, columns = 3, 4
    edges = {tuple(sorted((row * columns + column, there))) for row in range(rows) for column in range(columns)
             for there in ((row + 1) % rows * columns + column, row * columns + (column + 1) % columns)}
    check_graph(f'graph = "torus"\nrows = {rows}\ncolumns = {columns}', plain.metropolis(rows * columns, edges), 12)


@thorough
def test_dpsgd_on_a_torus_of_two_rows():
    # Up and down is the same neighbour: one edge.
    W = plain.metropolis(6, [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5), (0, 3), (1, 4), (2, 5)])
    check_graph('graph = "torus"\nrows = 2\ncolumns = 3', W, 6)


def test_dpsgd_on_a_star():
    check_graph('graph = "star"', plain.metropolis(5, [(0, leaf) for leaf in range(1, 5)]), 5)


@thorough
def test_dpsgd_on_a_complete_graph():
    check_graph('graph = "complete"', plain.complete(4), 4)


def test_dpsgd_on_a_random_regular_graph():
    """The graph is Troupe's choice: from its edges W is worked out here."""
    begin(8)
    settings = 'graph = "random_regular"\ndegree = 3\ngraph_seed = 4'
    exchange, = json.loads(troupe("check", file_of("drawn", gossip(settings), workers=8), "--json").stdout)["exchanges"]
    edges = {(edge["from"], edge["to"]) for edge in exchange["edges"]}
    assert len(edges) == 8 * 3 and all((there, here) in edges and here != there for here, there in edges), edges
    assert all(sum(here == each for here, _ in edges) == 3 for each in range(8)), edges
    W = plain.metropolis(8, [edge for edge in edges if edge[0] < edge[1]])
    assert torch.allclose(torch.tensor(W), torch.tensor(exchange["mixing_matrix"]), atol=1e-12)
    check_graph(settings, W, 8)


def contiguous(count):
    """The initial model, and workers of which each has a block of the samples."""
    training, _ = plain.write_mnist(".")
    model, size = exported(plain.Small), len(training[1]) // count
    blocks = [tuple(each[first:first + size] for each in training) for first in range(0, count * size, size)]
    return model, [plain.Worker(model, block, 0, 1, BATCH, **SGD) for block in blocks]


def test_dpsgd_where_each_worker_has_a_block_of_the_samples():
    model, workers = contiguous(4)
    plain.dpsgd(workers, STEPS, plain.ring(4))
    found = run("trained", exchange=gossip('graph = "ring"'), split="contiguous")
    compare(found, plain.state_of(model, plain.mean_of(workers)), state_of(model))


def test_step_then_mix_on_a_ring():
    check(lambda workers: plain.step_then_mix(workers, STEPS, plain.ring(4)), gossip('graph = "ring"'),
          loop=STEP_FIRST)


def test_model_averaging_every_fifth_step_with_momentum_of_its_own():
    check(lambda workers: plain.local_sgd(workers, STEPS, every=5),
          '[exchange]\nkind = "all_reduce"\nsends = "parameters"\nevery = 5', loop=STEP_FIRST)


@thorough
def test_model_averaging_between_which_the_run_ends():
    check(lambda workers: plain.local_sgd(workers, STEPS, every=7),
          '[exchange]\nkind = "all_reduce"\nsends = "parameters"\nevery = "7 steps"', loop=STEP_FIRST)


def test_elastic_averaging_every_fourth_step():
    check(lambda workers: plain.easgd(workers, STEPS, every=4, alpha=0.15),
          '[exchange]\nkind = "elastic"\napply = "all"\nalpha = 0.15\nevery = 4')


def test_pairs_that_reduce_and_gossip_between_them():
    check(lambda workers: plain.pairs_then_gossip([workers[:2], workers[2:]], STEPS, every=8),
          '[[exchange]]\nname = "left"\nkind = "all_reduce"\nmembers = ["w0", "w1"]\n'
          '[[exchange]]\nname = "right"\nkind = "all_reduce"\nmembers = ["w2", "w3"]\n'
          '[[exchange]]\nname = "between"\nkind = "gossip"\nmembers = ["left", "right"]\nevery = 8\n',
          loop="gradient, left, right, apply, between")


def skewed(each, seed):
    """An order in which worker i comes each[i] times, those of low rank far more often at first."""
    generator, left, order = random.Random(plain.seeded(seed)), list(each), []
    while any(left):
        ready = [rank for rank, count in enumerate(left) if count]
        order.append(generator.choices(ready, [4.0 ** -rank for rank in ready])[0])
        left[order[-1]] -= 1
    return order


def check_asgd(shards, seed):
    # A gradient here lies up to tens of updates behind: with steps as large as elsewhere the weights diverge.
    sgd = {**SGD, "lr": 0.002}
    wiring = {"exchange": f'[exchange]\nkind = "parameter_server"\napply = "each"\nshards = {shards}',
              "loop": "gradient, exchange", "sgd": sgd}
    model, workers = begin(4, sgd)
    server = plain.Replica(model, **sgd)
    order = skewed([STEPS] * 4, seed)
    staleness = plain.asgd(server, workers, order)
    found = run_in_order("trained", order, workers=4, **wiring)
    compare(found, plain.state_of(model, server.x), state_of(model))
    expected = [shards * staleness.count(behind) for behind in range(max(staleness) + 1)]
    found = metrics("trained")[-1]["staleness_counts"]
    print(f"  up to {max(staleness)} updates behind")
    assert found[:len(expected)] == expected and not any(found[len(expected):]), (found, expected)


def test_asgd_in_a_skewed_order():
    check_asgd(shards=1, seed=11)


def test_asgd_of_three_shards_in_a_skewed_order():
    check_asgd(shards=3, seed=12)


def check_asynchronous_elastic(every):
    wiring = {"exchange": f'[exchange]\nkind = "elastic"\napply = "each"\nalpha = 0.15\nevery = {every}'}
    model, workers = begin(4)
    order = skewed([sum(plain.due(step, every, from_start=True) for step in range(STEPS))] * 4, seed=13)
    centre = plain.asynchronous_easgd(workers, STEPS, every, 0.15, order)
    found = run_in_order("trained", order, workers=4, **wiring)
    compare(found, plain.state_of(model, centre), state_of(model))


def test_asynchronous_elastic_averaging_in_a_skewed_order():
    check_asynchronous_elastic(every=1)


def test_asynchronous_elastic_averaging_every_fourth_step_in_a_skewed_order():
    check_asynchronous_elastic(every=4)


# What is compared with, compared with itself where theory says so, and with numbers worked out by hand.


@thorough
def test_the_textbook_agrees_with_itself():
    training, _ = plain.write_mnist(".")
    torch.manual_seed(plain.seeded(5))
    model = plain.Smooth()
    start = state_of(model)

    def fresh(count=4, batch=BATCH):
        return plain.workers_of(model, training, count, batch, **SGD)

    def close(x, of):
        return plain.assert_equal(plain.state_of(model, x), of, start)

    alone = plain.workers_of(model, training, 1, 4 * BATCH, **SGD)[0].model
    plain.train(alone, training, STEPS, 4 * BATCH, **SGD)
    expected = alone.state_dict()
    workers = fresh()
    plain.step_then_mix(workers, STEPS, plain.complete(4))
    close(plain.mean_of(workers), expected)
    assert plain.consensus_distance(workers) < 1e-6
    workers = fresh()
    plain.pairs_then_gossip([workers[:2], workers[2:]], STEPS, every=1)
    close(plain.mean_of(workers), expected)
    server = plain.Replica(model, **SGD)
    plain.parameter_server(server, fresh(), STEPS)
    close(server.x, expected)
    server = plain.Replica(model, **SGD)
    assert plain.asgd(server, fresh(1, 4 * BATCH), [0] * STEPS) == [0] * STEPS
    close(server.x, expected)
    workers = fresh(1, 4 * BATCH)
    plain.dpsgd(workers, STEPS, [[1.0]])
    close(workers[0].x, expected)


class Slope(torch.nn.Module):
    """One weight p and the loss p·x: its gradient is the mean of the inputs, wherever p is."""

    def __init__(self):
        super().__init__()
        self.p = torch.nn.Parameter(torch.tensor([8.0]))

    def forward(self, x):
        return (self.p * x).mean()

    @staticmethod
    def loss(output, _):
        return output


def test_the_textbook_by_hand():
    samples = torch.tensor([1.0, 3.0, 1.0, 3.0]), torch.zeros(4)  # worker 0 always sees 1, worker 1 sees 3

    def two():
        return plain.workers_of(Slope(), samples, 2, 1, lr=1.0)

    workers = two()  # 8, 8: mean 8; step to 7, 5: mixed 6.5, 5.5; step to 5.5, 2.5
    plain.dpsgd(workers, 2, [[0.75, 0.25], [0.25, 0.75]])
    assert [worker.x.item() for worker in workers] == [5.5, 2.5]
    assert plain.consensus_distance(workers) == 1.5
    workers = two()  # 7, 5 and the centre 8: pulls -0.25, -0.75; 7.25, 5.75 and 7; step to 6.25, 2.75
    assert plain.easgd(workers, 2, every=1, alpha=0.25).item() == 7
    assert [worker.x.item() for worker in workers] == [6.25, 2.75]
    workers = two()  # at 8 nothing pulls: 7, 5; worker 1 first: pull -0.75, centre 7.25; worker 0: -0.0625, 7.1875
    assert plain.asynchronous_easgd(workers, 2, 1, 0.25, [0, 1, 1, 0]).item() == 7.1875
    # Due before the steps 0 and 2. Worker 0: no pull at 8, then at 6 -0.5, centre 7.5. Worker 1: at 8 0.125, centre
    # 7.625; at 7.875 - 6 = 1.875 -1.4375, centre 6.1875.
    workers = two()
    assert plain.asynchronous_easgd(workers, 3, 2, 0.25, [0, 0, 1, 1]).item() == 6.1875
    workers = two()  # due before the third step alone: 8, 7, 6 and 8, 5, 2; pulls -0.5, -1.5
    assert plain.easgd(workers, 3, every=2, alpha=0.25).item() == 6
    server = plain.Replica(Slope(), lr=1.0)
    assert plain.asgd(server, two(), [1, 1, 0, 1]) == [0, 0, 2, 1]
    assert server.x.item() == 8 - 3 - 3 - 1 - 3
    assert skewed([2, 3], 1).count(1) == 3


main(globals())
