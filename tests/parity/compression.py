"""Steps with each encoding equal the same algorithm in plain PyTorch and NumPy, each from the state that Troupe itself
reached: gradient plus what was left over, encoded as its source writes it, the mean of what receivers decode, one step of
SGD, and what is left over then.

Where values are rounded or chosen, a difference in the last digit of a gradient can change an integer. Such values, within
1e-6 of the largest from a threshold, are counted and left out."""

import sys

try:
    import plain
except ImportError as error:
    print(f"SKIPPED: {error}; scripts/setup --python installs what the parity tests import")
    sys.exit(77)

import math

import numpy
import torch
from inside import ROUNDING, keyed, uniform, workers_in
from trained import BATCH, STEPS, checkpoints_of, exported, run
from troupe_command import main, thorough

WORKERS, BLOCK, NEAR = 4, 256, 1e-6
SGD = {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.001}


def draws(seed, rank, phase, step, first, count):
    """Draw `element` of the stream of a member and step, for elements [first, first + count), in [0, 1)."""
    return uniform(keyed(seed, ROUNDING, 2 * rank + phase, step), first, count)


# What a receiver decodes, and which values are near a threshold: functions of values (float32), and of their draws. ----

def quantised(levels):
    def code(p, u, _):
        q, near = numpy.empty_like(p), numpy.zeros(p.size, bool)
        for first in range(0, p.size, BLOCK):
            block = slice(first, first + BLOCK)
            scale = numpy.abs(p[block]).max().astype(float)
            if scale == 0:
                q[block] = 0
                continue
            t = numpy.abs(p[block].astype(float)) / scale * levels
            q[block] = numpy.sign(p[block]) * numpy.floor(t + u[block]) * scale / levels
            near[block] = numpy.abs(t + u[block] - numpy.round(t + u[block])) < NEAR * levels
        return q, near
    return code


def signs(p, _, __):
    q, near = numpy.empty_like(p), numpy.zeros(p.size, bool)
    for first in range(0, p.size, BLOCK):
        block = slice(first, first + BLOCK)
        magnitudes = numpy.abs(p[block].astype(float))
        q[block] = numpy.where(numpy.signbit(p[block]), -1, 1) * magnitudes.mean()
        near[block] = magnitudes < NEAR * numpy.abs(p).max()
    return q, near


def largest(ratio):
    def code(p, _, parameters):
        k = max(1, math.ceil(ratio * parameters))
        order = numpy.argsort(-numpy.abs(p), kind="stable")
        q = numpy.zeros_like(p)
        q[order[:k]] = p[order[:k]]
        magnitudes = numpy.abs(p)
        near = numpy.abs(magnitudes - magnitudes[order[k - 1]]) < NEAR * magnitudes.max()
        near[order[k - 1]] = magnitudes[order[k]] > magnitudes[order[k - 1]] * (1 - NEAR)
        return q, near
    return code


def half(p, _, __):
    apart = NEAR / 10 * numpy.abs(p).max()  # the digits of small values do not matter
    near = ((p - apart).astype(numpy.float16) != (p + apart).astype(numpy.float16)) & (numpy.abs(p) > 1e5 * apart)
    return p.astype(numpy.float16).astype(numpy.float32), near


# The state of a run, and a step from it. ---------------------------------------------------------------------------------

class Flat:
    """The parameters of a model side by side, each from a multiple of 16 elements on."""

    def __init__(self, model):
        self.model, self.where, end = model, [], 0
        for parameter in model.parameters():
            self.where.append(slice(end, end + parameter.numel()))
            end = -(-(end + parameter.numel()) // 16) * 16
        self.size, self.parameters = end, sum(each.numel() for each in model.parameters())
        self.padding = numpy.ones(end, bool)
        for where in self.where:
            self.padding[where] = False

    def gradient(self, x, images, labels):
        for parameter, where in zip(self.model.parameters(), self.where, strict=True):
            parameter.data = torch.from_numpy(x[where].copy()).view_as(parameter)
        self.model.zero_grad()
        self.model.loss(self.model(images), labels).backward()
        flat = numpy.zeros(self.size, numpy.float32)
        for parameter, where in zip(self.model.parameters(), self.where, strict=True):
            flat[where] = parameter.grad.flatten().numpy()
        return flat


class State:
    def __init__(self, folder):
        workers = workers_in(folder)
        self.step = int(workers[0]["completed"][0])
        self.of_each = [each["x/values"] for each in workers]
        self.x = self.of_each[0]
        self.momentum_of_each = [each.get("compute/optimizer/momentum_buffer", numpy.zeros_like(self.x)) for each in workers]
        self.momentum = self.momentum_of_each[0]
        kept = "port exchange/member/codec/"
        self.known = [each.get(kept + "known") for each in workers]
        self.mixed = [each.get(kept + "mixed") for each in workers]
        self.error = [each.get(kept + "error") for each in workers]
        self.velocity = [each.get(kept + "velocity") for each in workers]
        self.of_answers = numpy.zeros_like(self.x)
        for each in workers:
            for key, values in each.items():
                if key.startswith(kept + "answers/"):
                    first = int(key.rsplit("/", 1)[1])
                    self.of_answers[first:first + values.size] = values


def shards(size):
    """What each worker averages for all: nearly equal parts, cut at multiples of a block."""
    each = math.ceil(math.ceil(size / WORKERS) / BLOCK) * BLOCK
    return [range(first, min(first + each, size)) for first in range(0, size, each)]


def check(encoding, code, direct=False, rounds_each=False, feedback=True, correction=0.0, **settings):
    """Compares each step of a run. `direct`: whether those that average a shard encode the mean again; `rounds_each`: whether
    all do, because each value is encoded by itself."""
    (images, labels), _ = plain.write_mnist(".")
    flat = Flat(exported(plain.Small))
    sgd = {**SGD, "momentum": 0.0 if correction else SGD["momentum"]}
    keys = {"encoding": f'"{encoding}"', "feedback": str(feedback).lower(),
            "route": '"direct"' if direct else '"all_gather"', **settings}
    if correction:
        keys["momentum_correction"] = correction
    exchange = "[exchange]\nkind = \"all_reduce\"\n" + "\n".join(f"{key} = {value}" for key, value in keys.items())
    seed, rows = plain.seeded(5), rows_of(images, labels)
    compared, left_out, worst = 0, 0, 0.0
    for step, before, after in steps_of(exchange, sgd):
        near, sent = numpy.zeros(flat.size, bool), []
        for rank in range(WORKERS):
            g = flat.gradient(before.x, *rows(step, rank))
            p = g
            if correction:
                u = numpy.float32(correction) * before.velocity[rank] + g
                p = before.error[rank] + u
            elif feedback:
                p = before.error[rank] + g
            q, close = code(p, draws(seed, rank, 0, step, 0, p.size), flat.parameters)
            q[flat.padding] = 0
            sent.append(q)
            near |= close
            if feedback:
                worst = max(worst, apart(after.error[rank], p - q, close, p))
            if correction:
                u[q != 0] = 0
                worst = max(worst, apart(after.velocity[rank], u, close, p))
        answer = sum(sent) / WORKERS
        if direct or rounds_each:
            for rank, shard in enumerate(shards(flat.size) if direct else [range(flat.size)]):
                r = answer[shard.start:shard.stop] + (before.of_answers[shard.start:shard.stop] if feedback else 0)
                decoded, close = code(r, draws(seed, rank, 1, step, shard.start, r.size), flat.parameters)
                decoded[flat.padding[shard.start:shard.stop]] = 0
                answer[shard.start:shard.stop] = decoded
                if direct:  # the mean of rounded values is exact
                    near[shard.start:shard.stop] |= close
        direction = answer + sgd["weight_decay"] * before.x
        if sgd["momentum"]:
            direction = sgd["momentum"] * before.momentum + direction
        worst = max(worst, apart(after.x, before.x - sgd["lr"] * direction, near, sgd["lr"] * direction))
        compared += 1
        left_out += int(near.sum())
    conclude(compared, worst, left_out, flat.parameters)


def conclude(compared, worst, left_out, values):
    assert compared >= STEPS, f"only {compared} steps have a checkpoint before and after them"
    share = left_out / compared / values
    print(f"  {compared} steps: largest difference {worst:.1e}, {left_out} values near a threshold ({100 * share:.2f} %)")
    assert worst < 1e-5 and share < 0.05, (worst, share)


def rows_of(images, labels):
    """What takes a step and a rank to the samples of that worker."""
    def rows(step, rank):
        first = step % (len(labels) // WORKERS // BATCH) * BATCH
        return images[rank::WORKERS][first:first + BATCH], labels[rank::WORKERS][first:first + BATCH]
    return rows


def steps_of(exchange, sgd, **more):
    """Trains with a checkpoint of each step; returns each step with the states before and after it."""
    states = {step: State(folder) for step, folder in sorted(checkpoints_of(exchange, sgd, **more).items())}
    return [(step, state, states[step + 1]) for step, state in states.items() if step + 1 in states]


def check_choco(encoding, code, rate, **settings):
    """Compares each step of gossip on a ring: a local step, and then the exchange."""
    (images, labels), _ = plain.write_mnist(".")
    flat = Flat(exported(plain.Small))
    keys = {"encoding": f'"{encoding}"', "graph": '"ring"', "consensus_rate": rate, **settings}
    exchange = "[exchange]\nkind = \"gossip\"\n" + "\n".join(f"{key} = {value}" for key, value in keys.items())
    seed, rows = plain.seeded(5), rows_of(images, labels)
    compared, left_out, worst = 0, 0, 0.0
    for step, before, after in steps_of(exchange, SGD, loop="gradient, apply, exchange"):
        moved, sent, near = [], [], []
        for rank in range(WORKERS):
            x = before.of_each[rank]
            direction = flat.gradient(x, *rows(step, rank)) + SGD["weight_decay"] * x
            moved.append(x - SGD["lr"] * (SGD["momentum"] * before.momentum_of_each[rank] + direction))
            p = (moved[-1] - before.known[rank]).astype(numpy.float32)
            q, close = code(p, draws(seed, rank, 0, step + 1, 0, p.size), flat.parameters)
            q[flat.padding] = 0
            sent.append(q)
            near.append(close)
            worst = max(worst, apart(after.known[rank], before.known[rank] + q, close, p))
        for rank in range(WORKERS):
            ring = [(rank - 1) % WORKERS, rank, (rank + 1) % WORKERS]
            mixed = before.mixed[rank] + sum(sent[other] for other in ring) / 3
            any_near = near[ring[0]] | near[ring[1]] | near[ring[2]]
            expected = moved[rank] + rate * (mixed - before.known[rank] - sent[rank])
            worst = max(worst, apart(after.of_each[rank], expected, any_near, moved[rank]))
            left_out += int(any_near.sum())
        compared += 1
    conclude(compared, worst, left_out, WORKERS * flat.parameters)


def apart(found, expected, near, scale):
    """The largest difference in relation to the largest of `scale`, apart from values near a threshold."""
    return float((numpy.abs(found - expected) * ~near).max() / numpy.abs(scale).max())


def test_int8_with_feedback():
    check("int8", quantised(127))


def test_int8_with_answers_that_are_encoded_again():
    check("int8", quantised(127), direct=True)


def test_int4_without_feedback():
    check("int4", quantised(7), feedback=False)


@thorough
def test_int4_with_answers_that_are_encoded_again():
    check("int4", quantised(7), direct=True)


def test_sign():
    check("sign", signs)


@thorough
def test_sign_with_answers_that_are_encoded_again():
    check("sign", signs, direct=True)


def test_top_k():
    check("top_k", largest(0.05), ratio=0.05)


def test_top_k_with_momentum_correction():
    check("top_k", largest(0.05), correction=0.9, ratio=0.05)


def test_choco_with_int4():
    check_choco("int4", quantised(7), 0.3)


def test_choco_with_top_k():
    check_choco("top_k", largest(0.05), 0.1, ratio=0.05)


@thorough
def test_choco_with_sign():
    check_choco("sign", signs, 0.3)


def test_fp16_with_feedback():
    check("fp16", half, rounds_each=True)


# Equalities, bit for bit. --------------------------------------------------------------------------------------------------

def weights_of(kind, **settings):
    lines = "\n".join(f"{key} = {value}" for key, value in settings.items())
    return run(kind, exchange=f'[exchange]\nkind = "{kind}"\n{lines}', sgd=SGD)


def same(a, b):
    return all(torch.equal(a[name], b[name]) for name in a)


def test_a_star_a_server_and_an_all_gather_decode_the_same_contributions():
    plain.write_mnist(".")
    exported(plain.Small)
    for settings in ({"encoding": '"top_k"', "ratio": 0.1}, {"encoding": '"int4"', "feedback": "true"}):
        gathered = weights_of("all_reduce", route='"all_gather"', **settings)
        if settings["encoding"] == '"top_k"':  # whose answers are float32
            assert same(weights_of("star", **settings), gathered), f"star, {settings}"
        served = run("served", exchange='[exchange]\nkind = "parameter_server"\n' + "\n".join(
            f"{key} = {value}" for key, value in settings.items()), sgd=SGD, loop="gradient, exchange")
        assert same(served, gathered), f"parameter_server, {settings}"


def test_all_values_of_top_k_are_float32():
    plain.write_mnist(".")
    exported(plain.Small)
    assert same(weights_of("all_reduce", encoding='"top_k"', ratio=1.0), weights_of("all_reduce"))


main(globals())
