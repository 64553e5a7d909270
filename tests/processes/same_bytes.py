"""Weights are the same, bit for bit, however the workers are distributed over processes.

    same_bytes.py          every wiring for 20 steps, over three processes, one of which has two workers
    same_bytes.py --full   for 60 steps of MNIST, if it is there, over four processes and over two
"""

import os
import pathlib
import sys

from nodes import EXCHANGE, LOOP, WIRINGS, node_tables, weights, wired
from troupe_command import TINY, main, metrics, thorough, timeless, troupe, write

FULL = "--full" in sys.argv
SPREADS = ([1, 1, 1, 1], [2, 2]) if FULL else ([1, 2, 1],)
SMALL = TINY.replace("count = 2\n", "").replace("lenet", "convnet").replace("batch_size = 8", "batch_size = 16")


def same(name, text, spreads=SPREADS):
    """Compares one process of four workers with those spread over several."""
    troupe("run", write("one.toml", text.replace("[workers]\n", "[workers]\ncount = 4\n")), "--out", "one", "--overwrite")
    for spread in spreads:
        troupe("run", write("more.toml", text + node_tables(spread)), "--out", "more", "--overwrite")
        assert weights("one") == weights("more"), f"{name}, {spread}: the weights differ"
        assert timeless("one") == timeless("more"), f"{name}, {spread}: the metrics differ"


@thorough
def test_every_wiring():
    text = SMALL
    if FULL and pathlib.Path(os.environ.get("TROUPE_DATA", "nowhere"), "mnist").is_dir():
        text = text.replace("digits", "mnist").replace("steps = 20", "steps = 60")
    elif FULL:
        print("SKIPPED: MNIST, for TROUPE_DATA names no folder that holds mnist/; on the digits instead")
    for name, wiring in WIRINGS.items():
        same(name, wired(text, wiring))


@thorough
def test_batch_norm():
    """Each worker's own statistics, and those of all; both with buckets that leave while backward works."""
    for own, spread in (("", [2, 2]), ("sync_batch_norm = true\n", [1, 1, 1, 1])):
        text = SMALL.replace('"convnet"\n', '"resnet20"\n' + own).replace("batch_size = 16", "batch_size = 4")
        same("resnet20 " + own, wired(text.replace("steps = 20", "steps = 3"), WIRINGS["buckets"]), [spread])


def test_the_lines_between_are_the_same_too():
    same("evaluated", SMALL + '[evaluate]\nevery = "7 steps"\n', [[3, 1], [2, 2]])


def test_epochs_that_are_padded_and_keep_their_last_batch():
    """12,000 samples for seven workers: 1,715 each, in batches of 700, 700 and 315; evaluated in shares."""
    text = SMALL.replace("steps = 20", "epochs = 1").replace("batch_size = 16", "batch_size = 700\nmicro_batch_size = 350")
    text = text.replace("[optimizer]", 'drop_last = false\nremainder = "pad"\n[optimizer]')
    text += '[evaluate]\nsplit = "workers"\nbatch_size = 50\ndrop_last = true\npause_training = true\n'
    troupe("run", write("one.toml", text.replace("[workers]\n", "[workers]\ncount = 7\n")), "--out", "one")
    troupe("run", write("more.toml", text + node_tables([3, 4])), "--out", "more")
    assert weights("one") == weights("more"), "the weights differ"
    assert timeless("one") == timeless("more"), "the metrics differ"
    assert metrics("one")[-1]["step"] == 3, metrics("one")[-1]


def test_encoded():
    """Messages that are rounded: the route of "auto" must not depend on where the workers are."""
    same("bf16", wired(SMALL, (LOOP, EXCHANGE + 'encoding = "bf16"\n')), [[2, 2]])


def test_bytes_sent():
    """On two nodes, a chain is faster for this model, but it sends less than what is fastest in one process."""
    same("mlp", SMALL.replace('"convnet"', '"mlp"\nwidth = 16\nlayers = 1'), [[2, 2]])


@thorough
def test_uneven_and_many_nodes():
    for spread in ([1, 5], [1] * 8):
        count = f"[workers]\ncount = {sum(spread)}\n"
        troupe("run", write("one.toml", SMALL.replace("[workers]\n", count)), "--out", "one", "--overwrite")
        troupe("run", write("more.toml", SMALL + node_tables(spread)), "--out", "more", "--overwrite")
        assert weights("one") == weights("more"), f"{spread}: the weights differ"


main(globals())
