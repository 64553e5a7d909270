"""Modules that Python exports train under every wiring, and their weights go to Python and back; so do files of weights
that Python wrote."""

import re
import subprocess
import sys
import zipfile

try:
    import torch
    from plain import Lenet, assert_equal, train, weights, write_mnist
    from torch import nn
except ImportError as error:
    print(f"SKIPPED: {error}; scripts/setup --python installs what the parity tests import")
    sys.exit(77)

from troupe_command import main, metrics, troupe, write

BATCH, WORKERS, STEPS = 8, 2, 5
FILE = """
[run]
seed = 1
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


def export(model, path="model.pt"):
    torch.jit.script(model).save(path)
    return model


def file(name, model='script = "model.pt"', steps=STEPS, exchange='[exchange]\nkind = "all_reduce"', loop="",
         workers=WORKERS):
    return write(f"{name}.toml", FILE.format(model=model, steps=steps, batch=BATCH, exchange=exchange, loop=loop,
                                             workers=workers))


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
    torch.manual_seed(3)
    plain = export(Lenet())
    found = trained("all", model='script = "model.pt"')
    train(plain, training, STEPS, BATCH * WORKERS, lr=0.05, momentum=0, weight_decay=0)
    largest = assert_equal(found, plain.state_dict(), 1e-4, 1e-4)
    print(f"  largest difference {largest:.1e}")
    again = trained("again", model='script = "model.pt"')
    assert all(torch.equal(found[name], again[name]) for name in found)
    assert "same bits   yes" in troupe("check", "all.toml").stdout


def test_a_script_in_buckets_is_the_same():
    write_mnist(".")
    torch.manual_seed(3)
    export(Lenet())
    whole = trained("whole")
    parts = trained("parts", exchange='[exchange]\nkind = "all_reduce"\nsend = "bucket"')
    assert_equal(parts, whole, 1e-5, 1e-5)


def test_any_module_trains_under_every_wiring_and_comes_back():
    write_mnist(".")
    torch.manual_seed(4)
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
        said = troupe("eval", f"{name}/model.safetensors", "--dir", ".", "--set", "model.script=model.pt").stdout
        assert said.startswith("script on the test set of mnist"), said


def test_what_a_script_draws_itself_is_said():
    write_mnist(".")
    export(Normal())
    said = troupe("check", file("dropping")).stdout
    assert "the script draws random numbers (dropout)" in said, said
    assert re.search("same bits +no: the script draws", said), said


def test_a_script_of_another_version_is_refused():
    write_mnist(".")
    export(Lenet())
    with zipfile.ZipFile("model.pt") as old, zipfile.ZipFile("new.pt", "w") as new:
        for name in old.namelist():
            new.writestr(name, b"99\n" if name.endswith("/version") else old.read(name))
    said = refused("check", file("new", model='script = "new.pt"'))
    assert "new.pt: is not a TorchScript file that this LibTorch" in said and "version 99" in said, said


def test_what_is_no_script_or_does_not_fit_is_refused():
    write_mnist(".")
    model = export(Lenet())
    torch.save(model.state_dict(), "state.pt")
    assert "holds values that torch.save() wrote" in refused("check", file("state", model='script = "state.pt"'))
    write("text.pt", "import torch")
    assert "text.pt: is not a TorchScript file" in refused("check", file("text", model='script = "text.pt"'))
    assert "gone.pt: cannot be read" in refused("check", file("gone", model='script = "gone.pt"'))
    torch.jit.freeze(torch.jit.script(model.eval())).save("frozen.pt")
    assert "no parameter to train" in refused("check", file("frozen", model='script = "frozen.pt"'))
    export(nn.Linear(5, 10), "linear.pt")
    said = refused("check", file("linear", model='script = "linear.pt"'))
    assert "mat1 and mat2 shapes cannot be multiplied" in said and "model.name = \"script\"" in said, said
    export(nn.Sequential(nn.Flatten(), nn.Linear(784, 3)), "three.pt")
    said = refused("check", file("three", model='script = "three.pt"'))
    assert "it returns [2×3], and the loss cross_entropy wants [2×10]" in said, said
    assert "are in its own code" in refused("check", file("norms", model='script = "model.pt"\nsync_batch_norm = true'))
    assert "name two models" in refused("check", file("two", model='name = "lenet"\nscript = "model.pt"'))
    assert "does not say which" in refused("check", file("none", model='name = "script"'))


def test_weights_begin_where_python_left_them():
    write_mnist(".")
    torch.manual_seed(5)
    model = export(Lenet())
    expected = model.state_dict()
    torch.save(dict(expected), "plain.pt")
    torch.save(dict(model.state_dict(), **{name: value.double() for name, value in expected.items()}), "double")
    for given in ("model.pt", "plain.pt", "double"):
        found = trained("begun_" + given[:5], model=f'name = "lenet"\ninit = "{given}"', steps=0)
        assert all(torch.equal(found[name], right) for name, right in expected.items()), given


def test_a_state_dict_is_refused_with_a_line_that_converts_it():
    write_mnist(".")
    torch.manual_seed(6)
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
    assert "is not a whole file of PyTorch" in refused("check", file("cut", model='name = "lenet"\ninit = "cut.pt"'))


def test_a_dict_that_claims_more_than_it_holds_is_refused():
    write_mnist(".")
    torch.save(dict(Lenet().state_dict()), "big.pt")
    with zipfile.ZipFile("big.pt") as old, zipfile.ZipFile("short.pt", "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name)[:8] if "/data/" in name else old.read(name))
    assert "claims more than the file holds" in refused("check", file("short", model='name = "lenet"\ninit = "short.pt"'))


main(globals())
