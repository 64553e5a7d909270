"""Modules exported from Python train under every wiring, and their weights can be exchanged with Python in both
directions, as can files of weights written by Python."""

import re
import signal
import subprocess
import sys
import time
import zipfile

try:
    import torch
    from plain import Lenet, Smooth, assert_equal, seeded, train, weights, write_mnist
    from safetensors.torch import save_file
    from torch import nn
except ImportError as error:
    print(f"SKIPPED: {error}; scripts/setup --python installs what the parity tests import")
    sys.exit(77)

from nodes import background, free_ports, node_tables
from troupe_command import main, metrics, troupe, write

BATCH, WORKERS, STEPS = 8, 2, 5
FILE = """
[run]
seed = {seed}
steps = {steps}
[model]
{model}
[data]
name = "mnist"
dir = "."
batch_size = {batch}
shuffle = false
[optimizer]
lr = 0.05
[workers]
count = {workers}
{loop}
{exchange}
"""


class Normal(nn.Module):
    """With batch norm, dropout, a frozen layer, and a weight that two layers share."""

    def __init__(self):
        super().__init__()
        self.frozen = nn.Linear(784, 20)
        for each in self.frozen.parameters():
            each.requires_grad = False
        self.norm = nn.BatchNorm1d(20)
        self.first = nn.Linear(20, 20)
        self.second = nn.Linear(20, 20)
        self.second.weight = self.first.weight
        self.drop = nn.Dropout(0.25)
        self.last = nn.Linear(20, 10)

    def forward(self, x):
        x = self.norm(self.frozen(x.flatten(1)))
        return self.last(self.drop(torch.relu(self.second(torch.relu(self.first(x))))))


class Masked(nn.Module):
    """With buffers of whole numbers and of truth values, as attention has."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mask", torch.tril(torch.ones(28, 28)).bool())
        self.register_buffer("places", torch.arange(27, -1, -1))
        self.register_buffer("first", torch.tensor(1))
        self.fc = nn.Linear(784, 10)

    def forward(self, x):
        return self.fc(x.masked_fill(self.mask, 0.0)[:, :, self.places].flatten(int(self.first)))


class Recurrent(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.lstm = nn.LSTM(28, 12, num_layers=2, batch_first=True, dropout=dropout)
        self.fc = nn.Linear(12, 10)

    def forward(self, x):
        return self.fc(self.lstm(x.squeeze(1))[0][:, -1])


class Forking(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(784, 10)

    def noisy(self, x):
        return x + torch.rand_like(x)

    def forward(self, x):
        later = torch.jit.fork(self.noisy, x.flatten(1))
        return self.fc(torch.jit.wait(later))


class Classifier(nn.Module):
    """A class for each text, or scores for each of its positions."""

    def __init__(self, pooled):
        super().__init__()
        self.pooled: bool = pooled
        self.table = nn.Embedding(20, 8)
        self.fc = nn.Linear(8, 3)

    def forward(self, x):
        x = self.table(x)
        if self.pooled:
            x = x.mean(1)
        return self.fc(x)


class Endless(nn.Module):
    """Does not return from evaluations or in training, of more samples than a plan tries out; or ever."""

    def __init__(self, training, evaluating, at_least):
        super().__init__()
        self.in_training: bool = training
        self.in_evaluation: bool = evaluating
        self.at_least: int = at_least
        self.fc = nn.Linear(784, 10)

    def forward(self, x):
        if x.size(0) >= self.at_least and (self.in_training if self.training else self.in_evaluation):
            while bool(x.sum() == x.sum()):
                x = x + 0
        return self.fc(x.flatten(1))


def export(model, path="model.pt"):
    torch.jit.script(model).save(path)
    return model


def file(name, model='script = "model.pt"', steps=STEPS, exchange='[exchange]\nkind = "all_reduce"', loop="",
         workers=WORKERS):
    return write(f"{name}.toml", FILE.format(seed=seeded(1), model=model, steps=steps, batch=BATCH, exchange=exchange,
                                             loop=loop, workers=workers))


def trained(name, **values):
    troupe("run", file(name, **values), "--out", name)
    return weights(name)


def refused(*arguments):
    """What is said of a file that is not taken: one message, and nothing of a program's inside."""
    said = troupe(*arguments, status=2).stderr
    assert "terminate" not in said and "frame #" not in said and "c10::" not in said, said
    return said


def test_a_script_under_all_reduce_is_the_plain_loop():
    training, _ = write_mnist(".")
    torch.manual_seed(seeded(3))
    plain = export(Smooth())
    start = {name: values.clone() for name, values in plain.state_dict().items()}
    found = trained("all", model='script = "model.pt"')
    train(plain, training, STEPS, BATCH * WORKERS, lr=0.05, momentum=0, weight_decay=0)
    largest = assert_equal(found, plain.state_dict(), start)
    print(f"  largest difference {largest:.1e}")
    again = trained("again", model='script = "model.pt"')
    assert all(torch.equal(found[name], again[name]) for name in found)
    assert "same bits   yes" in troupe("check", "all.toml").stdout


def test_a_script_in_buckets_is_the_same():
    write_mnist(".")
    torch.manual_seed(seeded(3))
    start = export(Smooth()).state_dict()
    whole = trained("whole")
    parts = trained("parts", exchange='[exchange]\nkind = "all_reduce"\nsend = "bucket"')
    assert_equal(parts, whole, start)


def test_any_module_trains_under_every_wiring_and_comes_back():
    write_mnist(".")
    torch.manual_seed(seeded(4))
    before = {name: value.clone() for name, value in export(Normal()).state_dict().items()}
    for name, exchange in (("all_reduce", 'kind = "all_reduce"'), ("gossip", 'kind = "gossip"\nsends = "parameters"'),
                           ("asgd", 'kind = "parameter_server"\nsends = "gradient"\napply = "each"')):
        found = trained(name, exchange=f"[exchange]\n{exchange}", steps=30)
        model = Normal()
        model.load_state_dict(found, strict=True)
        assert torch.equal(found["frozen.weight"], before["frozen.weight"])
        assert torch.equal(found["first.weight"], found["second.weight"])
        assert not torch.equal(found["first.weight"], before["first.weight"])
        assert found["norm.num_batches_tracked"].dtype == torch.int64
        assert found["norm.num_batches_tracked"].item() > 0
        losses = [line["val_loss"] for line in metrics(name) if line["val_loss"] is not None]
        assert losses[-1] < 2.5, losses
        said = troupe("eval", f"{name}/model.safetensors", "--dir", ".", status=2).stderr
        assert "with --set model.script=FILE.pt" in said, said
        said = troupe("eval", f"{name}/model.safetensors", "--dir", ".", "--set", "model.script=model.pt").stdout
        assert said.startswith("script on the test set of mnist"), said


def test_what_a_script_draws_itself_is_said():
    write_mnist(".")
    export(Normal())
    said = troupe("check", file("dropping")).stdout
    assert "the run draws random numbers (dropout)" in said, said
    assert re.search("same bits +no: the run draws", said), said


def test_random_draws_are_found_in_recurrent_layers_and_in_forks():
    write_mnist(".")
    export(Recurrent(0.5), "dropping.pt")
    export(Recurrent(0.0), "plain.pt")
    export(Forking(), "forking.pt")
    assert "random numbers (lstm)" in troupe("check", file("dropping", model='script = "dropping.pt"')).stdout
    assert "random numbers (rand_like)" in troupe("check", file("forking", model='script = "forking.pt"')).stdout
    said = troupe("check", file("plain", model='script = "plain.pt"')).stdout
    assert re.search("same bits +yes", said), said


def test_constants_come_back_and_are_taken():
    write_mnist(".")
    before = export(Masked()).state_dict()
    found = trained("first")
    for name in ("mask", "places", "first"):
        assert found[name].dtype == before[name].dtype and torch.equal(found[name], before[name]), name
    Masked().load_state_dict(found, strict=True)
    assert not torch.equal(found["fc.weight"], before["fc.weight"])
    for init in ("first/model.safetensors", "model.pt"):
        right = found if init.startswith("first") else before
        again = trained("again_" + init[:5], model=f'script = "model.pt"\ninit = "{init}"', steps=0)
        assert all(torch.equal(again[name], value) for name, value in right.items()), init
    troupe("eval", "first/model.safetensors", "--dir", ".", "--set", "model.script=model.pt")
    other = Masked()
    other.places += 1
    torch.save(dict(other.state_dict()), "other.pt")
    said = refused("check", file("other", model='script = "model.pt"\ninit = "other.pt"'))
    assert "places is a constant of script, but it differs in this file" in said, said


def test_a_text_has_a_class_or_each_of_its_positions_has():
    torch.manual_seed(seeded(8))
    texts, each = torch.randint(0, 20, (64, 5)), torch.randint(0, 3, (64,))
    save_file({"inputs": texts, "targets": each}, "classes.safetensors")
    save_file({"inputs": texts % 3, "targets": texts % 3}, "positions.safetensors")
    export(Classifier(pooled=True), "pooled.pt")
    export(Classifier(pooled=False), "each.pt")

    buckets = '[exchange]\nkind = "all_reduce"\nsend = "bucket"'

    def of(name, model, data):
        return write(f"{name}.toml", FILE.format(seed=seeded(1), model=model, steps=STEPS, batch=BATCH,
                                                 workers=WORKERS, loop="", exchange=buckets)
                     .replace('name = "mnist"\ndir = "."', f'name = "tensors"\nfile = "{data}.safetensors"'))

    gpt = 'name = "gpt"\nlayers = 1\nwidth = 8\nheads = 2'
    for name, model, data in (("pooled", 'script = "pooled.pt"', "classes"), ("each", 'script = "each.pt"', "positions"),
                              ("gpt", gpt, "positions")):
        troupe("run", of(name, model, data), "--out", name)
    for model, data, says in (('script = "each.pt"', "classes",
                               "it returns [2×5×3], but the loss cross_entropy requires [2×3]"),
                              ('script = "pooled.pt"', "positions", "requires [2×5×3]"),
                              (gpt, "classes", "requires [2×3]")):
        said = refused("check", of("wrong", model, data))
        assert says in said, said


def test_nodes_of_other_modules_are_refused():
    write_mnist(".")
    export(Lenet())
    with zipfile.ZipFile("model.pt") as old, zipfile.ZipFile("other.pt", "w") as new:
        for name in old.namelist():  # the same weights, and code that is another
            code = old.read(name)
            new.writestr(name, code.replace(b"relu", b"tanh") if name.endswith(".py") else code)
    exchange = '[exchange]\nkind = "all_reduce"\n' + node_tables([1, 1], free_ports(2))
    both = file("both", exchange=exchange)
    write(both, open(both).read().replace("count = 2\n", ""))
    with background("node", both, "--name", "alpha", "--out", "out", name="alpha") as alpha:
        said = refused("node", both, "--name", "beta", "--set", "model.script=other.pt")
        assert "the module (model.script) or the initial weights (model.init) differ" in said, said
        assert alpha.process.poll() is None
        troupe("node", both, "--name", "beta")
        alpha.wait(0)


def test_a_script_of_another_version_is_refused():
    write_mnist(".")
    export(Lenet())
    with zipfile.ZipFile("model.pt") as old, zipfile.ZipFile("new.pt", "w") as new:
        for name in old.namelist():
            new.writestr(name, b"99\n" if name.endswith("/version") else old.read(name))
    said = refused("check", file("new", model='script = "new.pt"'))
    assert "new.pt: LibTorch " in said and "cannot read this as a TorchScript file" in said and "version 99" in said, said


def test_what_is_no_script_or_does_not_fit_is_refused():
    write_mnist(".")
    model = export(Lenet())
    torch.save(model.state_dict(), "state.pt")
    assert "the file contains values written by torch.save()" in refused("check", file("state", model='script = "state.pt"'))
    torch.export.save(torch.export.export(torch.nn.Linear(4, 2), (torch.ones(3, 4),)), "exported.pt2")
    said = refused("check", file("exported", model='script = "exported.pt2"'))
    assert "the file is an exported program (torch.export.save), not a TorchScript module" in said, said
    write("text.pt", "import torch")
    assert "text.pt: not a TorchScript file" in refused("check", file("text", model='script = "text.pt"'))
    assert "gone.pt: no such file" in refused("check", file("gone", model='script = "gone.pt"'))
    torch.jit.freeze(torch.jit.script(model.eval())).save("frozen.pt")
    assert "no trainable parameters" in refused("check", file("frozen", model='script = "frozen.pt"'))
    export(nn.Linear(5, 10), "linear.pt")
    said = refused("check", file("linear", model='script = "linear.pt"'))
    assert "mat1 and mat2 shapes cannot be multiplied" in said and "model.script = \"linear.pt\" does not fit" in said, said
    export(nn.Sequential(nn.Flatten(), nn.Linear(784, 3)), "three.pt")
    said = refused("check", file("three", model='script = "three.pt"'))
    assert "it returns [2×3], but the loss cross_entropy requires [2×10]" in said, said
    export(nn.Sequential(nn.Flatten(), nn.Linear(784, 10), nn.Softmax(1)), "softmax.pt")
    said = troupe("check", file("softmax", model='script = "softmax.pt"')).stdout
    assert "the model returns probabilities" in said, said
    said = refused("check", file("norms", model='script = "model.pt"\nsync_batch_norm = true'))
    assert "is not supported for a script, which computes its batch norms itself" in said, said
    assert "each select a model" in refused("check", file("two", model='name = "lenet"\nscript = "model.pt"'))
    assert "requires a file" in refused("check", file("none", model='name = "script"'))


def test_weights_begin_where_python_left_them():
    write_mnist(".")
    torch.manual_seed(seeded(5))
    model = export(Lenet())
    expected = model.state_dict()
    torch.save(dict(expected), "plain.pt")
    torch.save(dict(model.state_dict(), **{name: value.double() for name, value in expected.items()}), "double")
    for given in ("model.pt", "plain.pt", "double"):
        found = trained("begun_" + given[:5], model=f'name = "lenet"\ninit = "{given}"', steps=0)
        assert all(torch.equal(found[name], right) for name, right in expected.items()), given


def test_a_state_dict_is_refused_with_a_line_that_converts_it():
    write_mnist(".")
    torch.manual_seed(seeded(6))
    model = Lenet()
    torch.save(model.state_dict(), "w.pt")
    torch.save(model.state_dict(), "old.pt", _use_new_zipfile_serialization=False)
    for name in ("w", "old"):
        said = refused("check", file(name, model=f'name = "lenet"\ninit = "{name}.pt"'))
        line = re.search(r'python (-c "import torch.*")$', said, re.MULTILINE).group(1)
        subprocess.run(f"'{sys.executable}' {line}", shell=True, check=True)
        found = trained(f"{name}_converted", model=f'name = "lenet"\ninit = "{name}_dict.pt"', steps=0)
        assert all(torch.equal(found[key], right) for key, right in model.state_dict().items())


def test_other_things_that_python_saves_are_refused():
    write_mnist(".")
    model = Lenet()
    for name, value in (("whole", {"model": model.state_dict(), "epoch": 3}), ("list", [torch.zeros(2)]),
                        ("numbers", {"lr": 0.1}), ("object", Lenet), ("short", dict(list(model.state_dict().items())[1:]))):
        torch.save(value, f"{name}.pt")
        said = refused("check", file(name, model=f'name = "lenet"\ninit = "{name}.pt"'))
        assert f"{name}.pt: " in said, said
    torch.save(dict(model.state_dict()), "cut.pt")
    with open("cut.pt", "r+b") as cut:
        cut.truncate(5000)
    assert "not a complete PyTorch file" in refused("check", file("cut", model='name = "lenet"\ninit = "cut.pt"'))


def test_a_dict_that_claims_more_than_it_holds_is_refused():
    write_mnist(".")
    torch.save(dict(Lenet().state_dict()), "big.pt")
    with zipfile.ZipFile("big.pt") as old, zipfile.ZipFile("short.pt", "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name)[:8] if "/data/" in name else old.read(name))
    said = refused("check", file("short", model='name = "lenet"\ninit = "short.pt"'))
    assert "is larger than the data stored for it" in said, said


def endless(**how):
    write_mnist(".")
    export(Endless(**how))
    return file("endless", exchange='[evaluate]\nevery = "2 steps"', workers=1)


def with_timeout(name):
    text = open(name).read()
    return write(name, text.replace("[run]", '[run]\ntimeout = "1s"'))


def test_a_script_that_never_returns_is_refused_by_every_command_that_tries_it():
    name = with_timeout(endless(training=True, evaluating=True, at_least=1))
    for command in (["run", "--out", "no"], ["check"], ["graph", "-o", "no.svg"], ["simulate", "--out", "no"],
                    ["compare", "--out", "no"]):
        said = refused(command[0], name, *command[1:])
        assert "model.pt: forward() on 2 samples has not returned within 1 s (run.timeout)" in said, said
    with background("check", endless(training=True, evaluating=True, at_least=1), name="check") as check:
        time.sleep(3)
        check.process.send_signal(signal.SIGINT)
        check.wait(130, within=2)
        assert check.said() == "interrupted by SIGINT\n", check


def test_an_evaluation_that_never_returns_is_named_and_a_signal_saves_the_run():
    name = with_timeout(endless(training=False, evaluating=True, at_least=3))
    with background("run", name, "--out", "out", name="run") as run:
        run.until_said("evaluator has not returned from its operation for 1000 ms (run.timeout)")
        run.process.send_signal(signal.SIGTERM)
        run.wait(143, within=10)
        assert "evaluator has not returned from its last operation; this process ends without it" in run.said(), run
    assert metrics("out")[-1]["status"] == "interrupted", metrics("out")[-1]
    assert weights("out")
    with background("eval", "out/model.safetensors", "--dir", ".", "--set", "model.script=model.pt", name="eval") as one:
        time.sleep(3)
        one.process.send_signal(signal.SIGINT)
        one.wait(130, within=2)
    with background("simulate", name, "--out", "simulated", "--set", "simulate.gradient=1ms", name="simulate") as one:
        one.until_said("an operation of a simulated worker or of the evaluator has not returned within 1 s (run.timeout)")
        one.process.send_signal(signal.SIGINT)
        one.until_said("SIGINT received: waiting for the operation under way")
        one.process.send_signal(signal.SIGINT)
        one.wait(130, within=2)


def test_a_step_that_never_returns_ends_the_run_by_name():
    name = with_timeout(endless(training=True, evaluating=False, at_least=3))
    said = troupe("run", name, "--out", "out", status=1, timeout=30).stderr
    assert "compute 0 did not complete step 1 within 1000 ms (run.timeout)" in said, said


main(globals())
