#!/usr/bin/env python3
"""How fast is Hogwild! on sparse rows, compared with scikit-learn and numba? Logistic regression, one step per row.

200,000 rows of 74 nonzeros in 47,236 columns (the shape of RCV1), with all columns equally frequent, generated like the
built-in set `sparse`; constant learning rate, the same number of epochs. Prints training rows per second, and the log
loss on the training rows afterwards. scikit-learn: SGDClassifier, which has one thread. numba: a plain loop, on one
thread and on two that share the weights. Then measures how much a second worker adds, for each density of the rows and
each way to write.
    .venv/bin/python bench/hogwild_sparse.py [repetitions] [rows|rivals|density …]
Libraries that are not installed are skipped: .venv/bin/pip install scikit-learn numba
"""

import functools
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

import numpy

from measure import BUILD, interleave, repetitions, setting, show, spread

ROWS, COLUMNS, NONZEROS = 200_000, 47_236, 74
EPOCHS, LR, FLIPPED = 20, 0.5, 0.05
DENSITIES = (10, 74, 500, 2000)
# How x is written: additional settings of [exchange].
WRITES = {"plain": "", "atomic": "atomic = true", "locked": "lock = true", "local steps": "local_steps = 10000"}
ALONE = None

TOPOLOGY = """
[run]
seed = 1
epochs = {epochs}
[model]
name = "logistic"
{init}
[data]
name = "sparse"
rows = {rows}
columns = {columns}
nonzeros = {nonzeros}
batch_size = 1
[optimizer]
lr = {lr}
momentum = 0.0
[workers]
count = {workers}
loop = ["gradient", "apply"]
[evaluate]
every = "{epochs} epochs"
{exchange}
"""


def train_once(folder, name, **values):
    """Trains and returns the last line of the metrics; the weights are then in `folder`/`name`."""
    file = pathlib.Path(folder, f"{name}.toml")
    file.write_text(TOPOLOGY.format(**{"columns": COLUMNS, "init": "", "exchange": "", **values}))
    subprocess.run([BUILD / "troupe", "run", file, "--out", f"{folder}/{name}", "--quiet"], check=True)
    return json.loads(pathlib.Path(folder, name, "metrics.jsonl").read_text().splitlines()[-1])


def troupe(workers, writes, rows=ROWS, nonzeros=NONZEROS, judge=True):
    """Returns rows per second over all workers, without evaluation, and the final log loss on the training rows."""
    exchange = "" if writes is ALONE else f'[exchange]\nkind = "shared"\n{WRITES[writes]}'
    with tempfile.TemporaryDirectory() as folder:
        same = {"rows": rows, "nonzeros": nonzeros}
        end = train_once(folder, "trained", epochs=EPOCHS, lr=LR, workers=workers, exchange=exchange, **same)
        if not judge:
            return end["samples_per_second"], None
        # An epoch with a learning rate of 0 evaluates the training rows and leaves the weights unchanged.
        judged = train_once(folder, "judged", epochs=1, lr=0.0, workers=1,
                            init=f'init = "{folder}/trained/model.safetensors"', **same)
    return end["samples_per_second"], judged["train_loss"]


def generate(rows, columns, nonzeros, seed=1):
    """Generates a set like the built-in one. Returns `nonzeros` distinct ascending columns per row [rows, nonzeros];
    their values, from 0.1 to 1 before each row is scaled to length 1; and classes [rows]: 1 on one side of a hidden
    plane that halves the rows, 0 on the other, except for a few that are flipped."""
    random = numpy.random.default_rng(seed)
    plane = random.uniform(-1, 1, columns).astype(numpy.float32)
    indices = numpy.empty((rows, nonzeros), numpy.int32)
    values = numpy.empty((rows, nonzeros), numpy.float32)
    margins = numpy.empty(rows)
    for first in range(0, rows, 10_000):
        part = slice(first, min(first + 10_000, rows))
        drawn = numpy.sort(random.integers(0, columns, (part.stop - first, nonzeros), numpy.int32), axis=1)
        while True:  # draws duplicate columns of a row again, until there are none
            again = numpy.zeros(drawn.shape, bool)
            again[:, 1:] = drawn[:, 1:] == drawn[:, :-1]
            if not again.any():
                break
            drawn[again] = random.integers(0, columns, again.sum(), numpy.int32)
            drawn.sort(axis=1)
        made = random.uniform(0.1, 1, drawn.shape)
        made /= numpy.sqrt((made ** 2).sum(axis=1, keepdims=True))
        indices[part], values[part] = drawn, made
        margins[part] = (made * plane[drawn]).sum(axis=1)
    above = margins > numpy.median(margins)
    return indices, values, (above != (random.random(rows) < FLIPPED)).astype(numpy.int32)


def log_loss(weights, indices, values, classes):
    """Returns the mean over the rows, in double precision."""
    total = 0.0
    for first in range(0, len(classes), 10_000):
        part = slice(first, first + 10_000)
        scores = (values[part].astype(numpy.float64) * weights[indices[part]]).sum(axis=1)
        total += numpy.logaddexp(0, numpy.where(classes[part] == 1, -scores, scores)).sum()
    return total / len(classes)


def scikit_learn(linear_model, sparse, indices, values, classes):
    rows, nonzeros = indices.shape
    matrix = sparse.csr_matrix((values.ravel(), indices.ravel(), numpy.arange(rows + 1, dtype=numpy.int32) * nonzeros),
                               shape=(rows, COLUMNS))
    model = linear_model.SGDClassifier(loss="log_loss", penalty=None, fit_intercept=False, learning_rate="constant",
                                       eta0=LR, max_iter=EPOCHS, tol=None, shuffle=True, random_state=1)
    begin = time.monotonic()
    model.fit(matrix, classes)
    return rows * EPOCHS / (time.monotonic() - begin), log_loss(model.coef_[0], indices, values, classes)


def make_numba_loop(numba):
    @numba.njit(nogil=True, fastmath=False)
    def go_through(order, starts, columns, values, classes, weights, lr):
        for row in order:
            score = numpy.float32(0)
            for at in range(starts[row], starts[row + 1]):
                score += values[at] * weights[columns[at]]
            slope = numpy.float32(1) / (numpy.float32(1) + numpy.exp(-score)) - numpy.float32(classes[row])
            for at in range(starts[row], starts[row + 1]):
                weights[columns[at]] -= lr * slope * values[at]

    return go_through


def numba_threads(go_through, count, indices, values, classes):
    """Each thread trains on every `count`-th row, in its own order; no thread waits at the end of an epoch."""
    rows, nonzeros = indices.shape
    starts = numpy.arange(rows + 1, dtype=numpy.int64) * nonzeros
    weights = numpy.zeros(COLUMNS, numpy.float32)
    flat = starts, indices.ravel(), values.ravel(), classes, weights, numpy.float32(LR)
    go_through(numpy.arange(0), *flat)  # compiles

    def work(rank):
        random = numpy.random.default_rng(1 + rank)
        own = numpy.arange(rank, rows, count)
        for _ in range(EPOCHS):
            random.shuffle(own)
            go_through(own, *flat)

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(count)]
    begin = time.monotonic()
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return rows * EPOCHS / (time.monotonic() - begin), log_loss(weights, indices, values, classes)


def rivals():
    """Returns {name: function} of the installed libraries; prints how to install the others."""
    found = {}
    made = functools.cache(lambda: generate(ROWS, COLUMNS, NONZEROS))
    try:
        import sklearn
        from scipy import sparse
        from sklearn import linear_model
        found[f"scikit-learn {sklearn.__version__}"] = lambda: scikit_learn(linear_model, sparse, *made())
    except ImportError:
        print("SKIPPED: scikit-learn is not installed; .venv/bin/pip install scikit-learn")
    try:
        import numba
        loop = make_numba_loop(numba)
        found[f"numba {numba.__version__}, one thread"] = lambda: numba_threads(loop, 1, *made())
        found[f"numba {numba.__version__}, two threads"] = lambda: numba_threads(loop, 2, *made())
    except ImportError:
        print("SKIPPED: numba is not installed; .venv/bin/pip install numba")
    return found


def compare_rows(with_troupe=True):
    others = rivals()
    ours = {
        "Troupe, a worker alone": lambda: troupe(1, ALONE),
        "Troupe, one worker": lambda: troupe(1, "plain"),
        "Troupe, two workers": lambda: troupe(2, "plain"),
        "Troupe, two workers, atomic": lambda: troupe(2, "atomic"),
        "Troupe, two workers, locked": lambda: troupe(2, "locked"),
        "Troupe, two workers, 10,000 local steps": lambda: troupe(2, "local steps"),
    } if with_troupe else {}
    results = interleave({**ours, **others}, repetitions())
    print(f"{ROWS} rows of {NONZEROS} nonzeros in {COLUMNS} columns, {EPOCHS} epochs, rate {LR}")
    for name, found in results.items():
        show(name, [rate for rate, _ in found], "rows/s")
        show("    log loss afterwards", [loss for _, loss in found], "")
    threads = [name for name in others if name.startswith("numba")][::-1]
    two_over_one = [(name, "Troupe, one worker") for name in ours if "two workers" in name]
    for above, below in [*two_over_one, *itertools.product(ours, others), *([threads] if threads else [])]:
        median, deviation = spread([a / b for (a, _), (b, _) in zip(results[above], results[below], strict=True)])
        print(f"  {above} over {below}: {median:.2f} ± {deviation:.2f} (median of pairs)")


def compare_density():
    print(f"two workers over one, {COLUMNS} columns, as many nonzeros in all for each density")
    for nonzeros in DENSITIES:
        rows = ROWS * NONZEROS // nonzeros
        results = interleave({(writes, workers): functools.partial(troupe, workers, writes, rows, nonzeros, judge=False)
                              for writes in WRITES for workers in (1, 2)}, repetitions())
        cells = []
        for writes in WRITES:
            pairs = zip(results[writes, 2], results[writes, 1], strict=True)
            median, deviation = spread([two / one for (two, _), (one, _) in pairs])
            alone, _ = spread([rate for rate, _ in results[writes, 1]])
            cells.append(f"{writes} {median:.2f} ± {deviation:.2f} of {alone:.4g} rows/s")
        print(f"  {nonzeros:>5} nonzeros, {rows:>8} rows: {'; '.join(cells)}")


if __name__ == "__main__":
    parts = {"rows": compare_rows, "density": compare_density, "rivals": lambda: compare_rows(with_troupe=False)}
    asked = sys.argv[2:] or ["rows", "density"]
    if unknown := set(asked) - set(parts):
        sys.exit(f"{', '.join(sorted(unknown))}: expected {', '.join(parts)}")
    setting()
    print(f"load average {os.getloadavg()[0]:.2f}, Python {sys.version.split()[0]}, numpy {numpy.__version__}")
    for part in asked:
        parts[part]()
