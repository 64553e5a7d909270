"""Single steps of networks with kinks, each compared from the state that Troupe itself reached.

Over many steps, a rectifier can turn rounding into a different gradient; over one step, plain_kinks.py bounds the
difference. A run of k steps therefore gives the state from which the reference takes one step, and a run of k + 1 steps
gives the result to compare it with."""

import functools
from concurrent.futures import ThreadPoolExecutor

from plain import assert_equal, has_moved
from plain_kinks import Gradient


def states_of(run, steps):
    """Returns run(0), …, run(steps): states by name. Two run at a time."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(run, range(steps + 1)))


class Step:
    """What one step of SGD along the mean gradient over `batches`, one for each worker, makes of `state`. The momentum
    is what led from the state `previous`, if any, to this one. `before(rank, model)` is called before each pass."""

    def __init__(self, model, state, previous, batches, lr, momentum=0.0, weight_decay=0.0, before=None):
        model.load_state_dict(state)
        model.train()
        self.model, self.lr = model, lr
        self.gradients = [Gradient(model, *batch, before=before and functools.partial(before, rank))
                          for rank, batch in enumerate(batches)]
        g = self.by_name(mean([each.values for each in self.gradients]))
        self.expected = {}
        for name, x in state.items():
            if name not in g:  # a buffer
                after = [each.buffers[name] for each in self.gradients]
                self.expected[name] = sum(after) / len(after) if x.is_floating_point() else after[0]
                continue
            direction = g[name] + weight_decay * x.double()
            if previous is not None:
                direction += momentum * (previous[name].double() - x.double()) / lr
            self.expected[name] = x.double() - lr * direction

    def by_name(self, values):
        """Of parameters in their order; one that two layers share has both names."""
        places = {id(each): place for place, each in enumerate(self.model.parameters())}
        return {name: values[places[id(each)]] for name, each in self.model.named_parameters(remove_duplicate=False)}

    def band(self):
        """By name, what kinks may change, and how many units are near one."""
        bands, units = zip(*(each.band() for each in self.gradients), strict=True)
        return {name: self.lr * width for name, width in self.by_name(mean(bands)).items()}, sum(units)


def mean(lists):
    return [sum(each) / len(each) for each in zip(*lists, strict=True)]


class Comparison:
    """Steps that are compared one by one. Every tensor of `state` that is not named in `still` must move clearly in one
    of them; in a single step, a gradient may vanish."""

    def __init__(self, state, still=(), what=""):
        self.what, self.largest, self.remark, self.resting = what, 0, "", set(state) - set(still)

    def step(self, k, found, expected, before, band):
        """`band()` returns what kinks may change, by name, and how many units are near one; called if need be."""
        try:
            apart = assert_equal(found, expected, before, still=before)
        except AssertionError as error:
            width, units = band()
            if not units:
                raise
            self.remark = f", with {units} units near a kink in step {k}: without them {error}"
            apart = assert_equal(found, expected, before, still=before, band=width)
        self.resting -= {name for name in self.resting if has_moved(before[name], expected[name])}
        self.largest = max(self.largest, apart)

    def close(self):
        what = f"{self.what}: " if self.what else ""
        assert not self.resting, f"{what}no step moves {', '.join(sorted(self.resting))}"
        print(f"  {what}largest difference {self.largest:.1e}{self.remark}")


def check_steps(states, model, batches_at, lr, momentum=0.0, weight_decay=0.0, before=None, still=(), what="",
                only=None):
    """Compares each step from states[k] to states[k + 1]: `batches_at(k)` are the samples of its workers, `before(k,
    rank, model)` is called before each pass. `only` names some k."""
    compared = Comparison(states[0], still, what)
    for k in only or range(len(states) - 1):
        step = Step(model, states[k], states[k - 1] if k else None, batches_at(k), lr, momentum, weight_decay,
                    before and functools.partial(before, k))
        compared.step(k, states[k + 1], step.expected, states[k], step.band)
    compared.close()


def rows_at(samples, batch, rank=0, workers=1):
    """Returns what takes a step to the samples that a worker sees in it: every n-th, in order, whole batches alone."""
    images, labels = (each[rank::workers] for each in samples)
    per_epoch = len(samples[1]) // workers // batch

    def rows(step):
        first = step % per_epoch * batch
        return images[first:first + batch], labels[first:first + batch]

    return rows
