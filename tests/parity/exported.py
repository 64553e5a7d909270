"""Modules exported by plain PyTorch train as they do there: losses, gradients, steps and evaluation of twelve kinds of
network, the same bytes wherever they run, and clear refusals of what cannot be trained."""

import pathlib
import re
import sys
import zipfile

try:
    import torch
    from exported_models import MODELS, export, loss_of, samples
    from plain import seeded, weights
    from safetensors.torch import save_file
    from torch import nn
except ImportError as error:
    print(f"SKIPPED: {error}; scripts/setup --python installs what the parity tests import")
    sys.exit(77)

from nodes import EXCHANGE, LOOP, WIRINGS, node_tables
from own_state import states_of
from troupe_command import main, metrics, troupe, write

FULL = "--full" in sys.argv
BATCH, LR = 8, 0.0625
FILE = """
[run]
seed = {seed}
steps = {steps}
[model]
exported = "{model}.pt2"
{settings}
[data]
name = "tensors"
file = "{model}_train.safetensors"
test_file = "{model}_test.safetensors"
batch_size = {batch}
shuffle = {shuffle}
[optimizer]
lr = {lr}
[workers]
count = {workers}
precision = "{precision}"
{loop}
{exchange}
"""


def file(name, model, steps=2, settings="", batch=BATCH, shuffle="false", lr=LR, workers=1,
         loop='loop = ["gradient", "apply"]', exchange="", seed=1, precision="float32"):
    return write(f"{name}.toml", FILE.format(
        model=model, steps=steps, settings=settings, batch=batch, shuffle=shuffle, lr=lr, workers=workers, loop=loop,
        exchange=exchange, seed=seeded(seed), precision=precision))


def run(name, **values):
    troupe("run", file(name, **values), "--out", name, "--overwrite")
    return weights(name)


def make(name, p=0.0):
    """Exports a model, and writes the samples to train and to evaluate it on. Returns all three."""
    torch.manual_seed(seeded(3))
    model = MODELS[name](p)
    training, test = samples(name, 64, seeded(5)), samples(name, 24, seeded(6))
    for part, (inputs, targets) in (("train", training), ("test", test)):
        save_file({"inputs": inputs, "targets": targets}, f"{name}_{part}.safetensors")
    export(model, training[0], f"{name}.pt2")
    return model, training, test


def batch_at(samples_, step):
    inputs, targets = samples_
    first = step % (len(inputs) // BATCH) * BATCH
    return inputs[first:first + BATCH], targets[first:first + BATCH]


def passed(model, state, batch):
    """The loss of a training pass from this state, the gradients by name, and the state after it."""
    model.load_state_dict(state)
    model.zero_grad()
    model.train()
    loss = loss_of(model(batch[0]), batch[1])
    loss.backward()
    named = model.named_parameters(remove_duplicate=False)
    return loss.item(), {name: value.grad for name, value in named if value.requires_grad}, model.state_dict()


def apart(found, expected, most):
    """The largest difference in parts of the tensor's largest value. What vanishes by construction, such as the gradient
    of a bias before a batch norm, is rounding, and is compared with `most`."""
    assert found.dtype == expected.dtype and found.shape == expected.shape, (found.dtype, expected.dtype)
    largest = expected.abs().max().item()
    difference = (found.double() - expected.double()).abs().max().item()
    return difference / (largest if largest > 1e-6 * most else most)


def check_pass(model, before, after, batch, lr):
    """Compares a step of Troupe's with the gradients of PyTorch. Returns the loss and the largest difference."""
    loss, gradients, expected = passed(model, before, batch)
    most = max(each.abs().max().item() for each in gradients.values())
    worst = 0
    for name, value in expected.items():
        if name not in gradients:
            difference = apart(after[name], value, 1)
        elif lr > 1:  # the weights are below the rounding of such a step, which is the gradient
            difference = apart((before[name].double() - after[name].double()).float() / lr, gradients[name], most)
        else:
            difference = apart(after[name], before[name] - lr * gradients[name], 1)
        assert difference <= 1e-6, f"{name}: {difference:.1e} of its largest value"
        worst = max(worst, difference)
    return loss, worst


def check_first_step(name):
    model, training, _ = make(name)
    start = {key: value.clone() for key, value in model.state_dict().items()}
    lr = 2.0 ** 19
    after = run("first", model=name, steps=1, lr=lr)
    loss, worst = check_pass(model, start, after, batch_at(training, 0), lr)
    found = next(line["train_loss"] for line in metrics("first") if line.get("train_loss") is not None)
    assert abs(found - loss) <= 1e-6 * loss, f"loss {found} instead of {loss}"
    return worst


def check_steps(name, steps):
    model, training, (inputs, targets) = make(name)
    states = states_of(lambda k: run(f"{name}{k}", model=name, steps=k), steps)
    worst = max(check_pass(model, states[k], states[k + 1], batch_at(training, k), LR)[1] for k in range(steps))
    model.load_state_dict(states[-1])
    model.eval()
    with torch.no_grad():
        output = model(inputs)
    line = [line for line in metrics(f"{name}{steps}") if line["val_loss"] is not None][-1]
    loss, right = loss_of(output, targets).item(), (output.argmax(-1) == targets).float().mean().item()
    assert abs(line["val_loss"] - loss) <= 1e-6 * loss, f"{line['val_loss']} instead of {loss}"
    assert abs(line["val_accuracy"] - right) < 1e-6, f"{line['val_accuracy']} instead of {right}"
    return worst


def of_all(check, *arguments):
    failed = []
    for name in MODELS:
        try:
            print(f"  {name}: largest difference {check(name, *arguments):.1e}")
        except AssertionError as error:
            failed.append(f"{name}: {error}")
    assert not failed, "\n".join(failed)


def test_loss_and_gradients_of_a_first_step_are_those_of_pytorch():
    of_all(check_first_step)


def test_steps_and_evaluation_are_those_of_pytorch():
    of_all(check_steps, 2)


def test_twenty_steps_and_evaluation_are_those_of_pytorch():
    if FULL:
        of_all(check_steps, 20)


def several(name, model, wiring, spread=(), seed=1):
    """Trains four workers under a wiring; `spread` over processes. Returns the bytes of the weights."""
    loop, exchange = wiring
    path = file(name, model, steps=3, batch=4, shuffle="true", workers=4, loop=f"loop = [{loop}]", exchange=exchange,
                seed=seed)
    if spread:
        write(path, pathlib.Path(path).read_text().replace("count = 4\n", "") + node_tables(spread))
    troupe("run", path, "--out", name, "--overwrite")
    return pathlib.Path(name, "model.safetensors").read_bytes()


def check_places(model, wirings):
    for wiring in wirings:
        one = several("one", model, WIRINGS[wiring])
        assert several("more", model, WIRINGS[wiring], (1, 2, 1)) == one, f"{model}, {wiring}: the weights differ"
        assert "same bits   yes" in troupe("check", "one.toml").stdout, f"{model}, {wiring}"


def test_dropout_gives_the_same_bytes_wherever_workers_are():
    """Each deterministic wiring with one model, each model with one or two wirings."""
    for model in MODELS:
        make(model, p=0.25)
    for place, wiring in enumerate(WIRINGS):
        check_places(list(MODELS)[place % len(MODELS)], [wiring])


def test_dropout_gives_the_same_bytes_for_every_model_and_wiring():
    if FULL:
        for model in MODELS:
            make(model, p=0.25)
            check_places(model, WIRINGS)


def test_dropout_depends_on_the_seed_and_not_on_buckets_and_can_be_off():
    whole, buckets = ((LOOP, EXCHANGE + sent) for sent in ('send = "whole"\n', 'send = "bucket"\nbucket_mb = 0.01\n'))
    for model in MODELS:
        make(model, p=0.25)
        first = several("whole", model, whole)
        assert several("buckets", model, buckets) == first, f"{model}: buckets change the weights"
        assert several("other", model, whole, seed=2) != first, f"{model}: the seed changes nothing"
        make(model, p=0.0)
        assert several("off", model, whole) != first, f"{model}: dropout changes nothing"


def test_bfloat16_is_that_of_autocast():
    for name in ("resnet20", "gpt", "vit", "lstm"):
        model, training, _ = make(name)
        batch = batch_at(training, 0)
        model.train()
        try:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                output = model(batch[0])
        except RuntimeError as failure:  # PyTorch has no LSTM in bfloat16 for processors without AVX-512
            said = troupe("run", file("half", name, steps=1, precision="bfloat16"), "--out", "half", status=2).stderr
            assert "cannot be trained in bfloat16 on this machine" in said and str(failure) in said, said
            print(f"  {name}: neither PyTorch nor Troupe can, on this machine", flush=True)
            continue
        run("half", model=name, steps=1, precision="bfloat16")
        loss = loss_of(output.float(), batch[1]).item()
        found = next(line["train_loss"] for line in metrics("half") if line.get("train_loss") is not None)
        assert abs(found - loss) <= 1e-5 * loss, f"{name}: loss {found} instead of {loss}"


def test_synchronised_batch_norm_is_that_of_one_large_batch():
    for model in ("resnet20", "frozen", "unet"):
        make(model)
        one = run("one", model=model, batch=16)
        four = run("four", model=model, batch=4, workers=4, settings="sync_batch_norm = true",
                   loop=f"loop = [{LOOP}]", exchange=EXCHANGE)
        for name, value in one.items():
            if model == "unet" and "running" in name:  # of its instance norm, which each worker has for itself
                continue
            assert apart(four[name].float(), value.float(), 1) < 2e-4, f"{model}: {name}"


def test_weights_come_back_and_training_goes_on():
    model, _, _ = make("tied")
    state = run("trained", model="tied", steps=4)
    model.load_state_dict(state, strict=True)
    half = file("halves", "tied", steps=2)
    troupe("run", half, "--out", "halves", "--set", "checkpoint.every=1 steps")
    troupe("run", half, "--resume", "halves", "--set", "run.steps=4", "--set", "checkpoint.every=1 steps")
    assert all(torch.equal(weights("halves")[name], value) for name, value in state.items())
    said = troupe("eval", "trained/model.safetensors", "--dir", ".", status=2).stderr
    assert "holds the weights of an exported program" in said and "--set model.exported=FILE.pt2" in said, said
    given = ("--set", "model.exported=tied.pt2", "--set", "data.file=tied_train.safetensors", "--set",
             "data.test_file=tied_test.safetensors")
    said = troupe("eval", "trained/model.safetensors", *given).stdout
    assert said.startswith("exported on the test set of tensors"), said
    begun = run("begun", model="tied", steps=0, settings='init = "tied.pt2"')
    fresh = run("fresh", model="tied", steps=0)
    assert all(torch.equal(begun[name], value) for name, value in fresh.items())


class DropsWeights(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(20, 5)

    def forward(self, x):
        weight = nn.functional.dropout(self.fc.weight, 0.5, self.training)
        return nn.functional.linear(x, weight.mul_(2), self.fc.bias)


def test_an_evaluation_changes_nothing():
    """A dropout that is off returns its input itself, which a later operator may write."""
    _, (inputs, _), _ = make("mlp")
    export(DropsWeights(), inputs, "drops.pt2")
    found = []
    for every in ("1 steps", "100 steps"):
        path = file("drops", "mlp", steps=4)
        troupe("run", path, "--out", "drops", "--overwrite", "--set", "model.exported=drops.pt2", "--set",
               f"evaluate.every={every}")
        found.append(weights("drops"))
    assert all(torch.equal(value, found[1][name]) for name, value in found[0].items())


class Calls(nn.Module):
    """A linear layer, and what `call` makes of its input."""

    def __init__(self, call, **buffers):
        super().__init__()
        self.fc = nn.Linear(20, 5)
        self.call = call
        for name, (value, persistent) in buffers.items():
            self.register_buffer(name, value, persistent=persistent)

    def forward(self, x):
        return self.fc(self.call(self, x))


def without_gradient(_, x):
    with torch.no_grad():
        return x * 2


def branching(_, x):
    return torch.cond(x.sum() > 0, lambda x: x.cos(), lambda x: x.sin(), (x,))


def changed(name, by):
    def call(module, x):
        getattr(module, name).add_(by)
        return x + getattr(module, name)
    return call


ACCEPTED = {
    "one_hot": lambda _, x: x + nn.functional.one_hot(x.long().remainder(20)[:, 0], 20),
    "converted": lambda _, x: x.double().mul_(2).float(),
    "logic": lambda _, x: torch.where((x > 0) & (x < 1), x, -x),
}
REFUSED = {
    "nonzero": (lambda _, x: x[:, :20] + torch.nonzero(x).sum(), "depends on the values of tensors"),
    "masked": (lambda _, x: x + x[x > 0].sum(), "as many values as a mask has true ones"),
    "no_grad": (without_gradient, "is a higher-order operator"),
    "cond": (branching, "is a higher-order operator"),
    "root": (lambda _, x: x * (x.shape[0] ** 0.5), "computes a size in a way that is not supported"),
    "written": (lambda _, x: x.mul_(2), "its forward() changes its input"),
}


def refused(name, *arguments):
    said = troupe("check", file(name, "mlp"), "--set", f"model.exported={name}.pt2", *arguments,
                  status=2).stderr
    assert said.count("\n") == 1 and "c10::" not in said and "json.exception" not in said, said
    return said


def test_what_cannot_be_trained_is_refused_by_name():
    _, (inputs, _), _ = make("mlp")
    for name, (call, why) in REFUSED.items():
        export(Calls(call), inputs, f"{name}.pt2")
        said = refused(name)
        assert why in said and f"{name}.pt2: " in said, said
    for name, value, persistent, why in (
            ("counter", torch.tensor(0), True, "which is int64, but only float32 buffers may change"),
            ("hidden", torch.zeros(20), False, "register it as a buffer with persistent=True")):
        export(Calls(changed(name, 1), **{name: (value, persistent)}), inputs, f"{name}.pt2")
        assert why in refused(name), name
    assert "exported.py:" in refused("nonzero"), "the line of Python is not named"
    assert "exported.py:" in refused("written"), "the line of Python is not named"
    for name, call in ACCEPTED.items():
        export(Calls(call), inputs, f"{name}.pt2")
        troupe("check", file(name, "mlp"), "--set", f"model.exported={name}.pt2")


def test_modules_of_another_form_are_refused():
    _, (inputs, _), _ = make("mlp")
    batch = inputs[:4]
    model = nn.Sequential(nn.Linear(20, 5))

    def saved(name, module, arguments, shapes):
        torch.export.save(torch.export.export(module, arguments, dynamic_shapes=shapes), f"{name}.pt2")
        return refused(name)

    free = {0: torch.export.Dim("batch")}
    assert "the number of samples in a batch is fixed to 4" in saved("fixed", model, (batch,), None)
    both = nn.Bilinear(20, 20, 5)
    assert "its forward() has several inputs" in saved("both", both, (batch, batch), (free, free))
    lstm = nn.LSTM(20, 5, batch_first=True)
    assert "its forward() returns 3 tensors" in saved("three", lstm, (batch.view(4, 1, 20),), ({0: free[0]},))
    half = nn.Linear(20, 5).bfloat16()
    assert "parameters must be float32" in saved("half", half, (batch.bfloat16(),), (free,))
    assert "no trainable parameters" in saved("plain", nn.Flatten(), (batch,), (free,))
    other = nn.Linear(7, 5)
    said = saved("seven", other, (batch[:, :7],), (free,))
    assert "its forward() takes float32 [N, 7], but the samples are float32 [N, 20]" in said, said
    three = nn.Linear(20, 3)
    assert "requires [2×5]" in saved("classes", three, (batch,), (free,))
    limited = saved("limited", model, (batch,), ({0: torch.export.Dim("batch", min=2, max=6)},))
    assert "a batch of 8 samples is larger than the 6 that limited.pt2" in limited, limited
    decomposed = torch.export.export(model, (batch,), dynamic_shapes=(free,)).run_decompositions()
    torch.export.save(decomposed, "decomposed.pt2")
    troupe("check", file("decomposed", "mlp"), "--set", "model.exported=decomposed.pt2")


def rewritten(name, change):
    """A copy of mlp.pt2 in which the entries are what `change(name, content)` returns, if anything."""
    with zipfile.ZipFile("mlp.pt2") as old, zipfile.ZipFile(f"{name}.pt2", "w") as new:
        for entry in old.namelist():
            content = change(entry, old.read(entry))
            if content is not None:
                new.writestr(entry, content)
    return refused(name)


def test_files_of_other_kinds_and_versions_are_refused():
    model, (inputs, _), _ = make("mlp")
    said = rewritten("newer", lambda name, content: re.sub(rb'"torch_version": ?"[^"]*"', b'"torch_version": "2.12.0"', content))
    assert "it was written by PyTorch 2.12.0" in said and "torch.export.save(" in said, said
    said = rewritten("older", lambda name, content: None if "models/" in name else content)
    assert "the file has 0 models" in said, said
    for name in ("from_file", "_cudnn_init_dropout_state", "no_such"):
        said = rewritten(name, lambda _, content, name=name: content.replace(b"aten.gelu.", f"aten.{name}.".encode()))
        assert "it is not an operator" in said or "it is an operator that Troupe does not run" in said, said
    with zipfile.ZipFile("layout.pt2", "w") as archive:
        archive.writestr("version", "5")
        archive.writestr("serialized_exported_program.json", "{}")
    assert "written by PyTorch 2.7 or older" in refused("layout")
    said = rewritten("pickled", lambda name, content: content.replace(b'"use_pickle": false', b'"use_pickle": true'))
    assert "is an object of a Python class" in said, said
    said = rewritten("short", lambda name, content: content[:8] if "weights/weight_0" in name else content)
    assert "is larger than the data stored for it" in said, said
    said = rewritten("broken", lambda name, content: content[:-9] if "models/" in name else content)
    assert "is not JSON" in said, said
    torch.jit.script(model).save("script.pt2")
    assert "is a TorchScript module" in refused("script")
    torch.save(model.state_dict(), "state.pt2")
    assert "the file is not an exported program" in refused("state")
    write("text.pt2", "import torch")
    assert "text.pt2: not a complete exported program" in refused("text")
    pathlib.Path("cut.pt2").write_bytes(pathlib.Path("mlp.pt2").read_bytes()[:-30])
    assert "it may be cut off" in refused("cut")
    assert "gone.pt2: no such file" in refused("gone")


def test_facts_about_a_file_are_said():
    model, (inputs, _), _ = make("mlp", p=0.5)
    said = troupe("check", file("facts", "mlp"), "--operators").stdout
    assert re.search(r"aten\.linear\.default +\[N, 32\]", said) and "mlp.pt2: 5 operators" in said, said
    both = file("both", "mlp", settings='name = "lenet"')
    assert "each select a model" in troupe("check", both, status=2).stderr
    torch.export.save(torch.export.export(model.eval(), (inputs[:4],), dynamic_shapes=({0: torch.export.Dim("n")},)),
                      "evaluated.pt2")
    said = troupe("check", file("facts", "mlp"), "--set", "model.exported=evaluated.pt2").stdout
    assert "was exported in evaluation mode" in said, said
    torch.jit.script(model).save("script.pt")
    both = file("both", "mlp", settings='script = "script.pt"')
    said = troupe("check", both, status=2).stderr
    assert "model.script and model.exported cannot be combined" in said, said
    said = troupe("check", file("facts", "mlp"), "--set", "model.script=script.pt").stdout
    assert "TorchScript is deprecated" in said and "model       script, " in said, said


main(globals())
