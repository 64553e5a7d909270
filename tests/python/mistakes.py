"""Mistakes that users of Python make: each is answered with one message that names the fix, before anything starts."""

import os
import pathlib
import subprocess
import sys
import warnings

from package import ENVIRONMENT, SETUP, command, python, raises, setup
from troupe_command import main

import torch
import troupe_train as tt
from torch import nn

net, x, y = setup()
few = {"run.steps": 3}


def refused(*words, **arguments):
    """Demands that a run is refused before it starts, in one message with these words, and leaves no files."""
    arguments = {"model": net, "data": (x, y), "validation": 0.2, "set": few, **arguments}
    error = raises(tt.TroupeError, lambda: tt.run("single", out="out", **arguments))
    for word in words:
        assert word in str(error), f"'{word}' is missing from: {error}"
    assert not os.path.exists("out"), f"files are left: {os.listdir('out')}"
    assert error.__cause__ is None and len(str(error)) < 600, f"{len(str(error))} characters: {error}"


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 3)


class Branch(Layer):
    def forward(self, values):
        if values.sum() > 0:
            return self.layer(values)
        return -self.layer(values)


class Item(Layer):
    def forward(self, values):
        return self.layer(values) * values.max().item()


class Fixed(Layer):
    def forward(self, values):
        return self.layer(values.view(32, -1))


class FixedLater(Layer):
    def forward(self, values):
        return self.layer(values).view(7, 3)


class FixedNoise(Layer):
    def forward(self, values):
        return self.layer(values) + torch.zeros(32, 3)


class Two(Layer):
    def forward(self, values):
        return self.layer(values), values


class Nothing(Layer):
    def forward(self, values):
        return None


class Arguments(Layer):
    def forward(self, values, more):
        return self.layer(values)


class DataFrame:
    """What the package sees of a pandas.DataFrame."""

    def __len__(self):
        return 3

    def __getitem__(self, name):
        raise KeyError(name)

    def to_numpy(self):
        return None


def test_1_a_module_that_cannot_be_exported():
    refused("model cannot be exported", "mistakes.py:", "if values.sum() > 0:", "torch.where", model=Branch())
    refused("mistakes.py", "item", model=Item())  # the command refuses this one
    refused("inputs float32 [N, 2]", "call model(x)", model=nn.Linear(5, 3))
    refused("forward() returns 2 tensors; expected one, the scores", model=Two())
    refused("forward() returns no tensors; expected one, the scores", model=Nothing())
    refused("forward() must take one positional argument, the batch float32 [N, 2]", model=Arguments())
    refused("model is compiled; pass the module that torch.compile was given", model=torch.compile(net))
    refused("model is a DataParallel; pass the module in it", model=nn.DataParallel(net))


def test_2_types():
    refused("inputs of data are float64", "x.float()", 'x.astype("float32")', data=(x.double().numpy(), y))
    refused("inputs of data are int64 [400, 1, 2, 1]", "x.float(), or x.to(torch.uint8)", data=(x.long().view(400, 1, 2, 1), y))
    refused("inputs of data are uint8 [400, 28, 28]", "x.unsqueeze(1)", data=(torch.zeros(400, 28, 28, dtype=torch.uint8), y))
    refused("integers are taken as tokens", "x.float()", data=(x.abs().long(), y), validation=(x.abs().long(), y))
    refused("targets of data are float32, but the module returns scores [N, 3]", "y.long()", data=(x, y.float()))
    refused("targets of data are float64", "y.long()", "y.float()", data=(x, y.double()))
    refused("[400, 3]", "y.argmax(1)", data=(x, nn.functional.one_hot(y).float()))
    refused("the module returns [N, 1]", ".squeeze(1)", "binary_cross_entropy", model=nn.Linear(2, 1), data=(x, y > 0))
    refused("binary_cross_entropy", "y.float()", model=nn.Sequential(nn.Linear(2, 1), nn.Flatten(0)), data=(x, y > 0))
    refused("0.weight of model is float64", "model.float()", model=nn.Sequential(nn.Linear(2, 3)).double())
    # What loses nothing is converted.
    for targets in (y.to(torch.uint8), y.int(), y[:, None]):
        assert tt.run("single", model=net, data=(x.half(), targets), validation=0.2, set=few).status == 0


def test_3_labels_out_of_range():
    refused("targets of data contain -1", "classes 0, 1, 2", data=(x, y - 1))
    refused("targets of data contain 3", "3 scores [N, 3]", "from 0 to 2", data=(x, y + 1))
    refused("targets of validation contain 5", validation=(x, torch.full((400,), 5)))
    # Classes that do not occur are no mistake.
    assert tt.run("single", model=net, data=(x, y * 0), validation=0.2, set=few).status == 0


def test_4_a_number_of_samples_that_is_fixed():
    refused("mistakes.py:", "values.view(32, -1)", "x.flatten(1)", model=Fixed())
    refused("one number of samples only", "x.view(x.shape[0], -1)", model=FixedLater())
    refused("mistakes.py:", "torch.zeros(32, 3)", "any number of samples", model=FixedNoise())


def test_5_another_device():
    refused("layer.weight of model is on the device meta", "create the module on the CPU", model=Branch().to("meta"))
    refused("x of data is on the device meta", "create it on the CPU", data=(x.to("meta"), y))


def test_6_no_validation():
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        tt.run("single", model=net, data=(x, y), set=few, quiet=True)
        tt.run("single", model=net, data=(x, y), set={**few, "data.validation": 0.1}, quiet=True)
    assert len(said) == 1 and "validation=(x, y)" in str(said[0].message) and "validation=0.2" in str(said[0].message), said
    assert said[0].filename == __file__, said[0].filename
    refused("data= is missing", model=None, data=None, validation=(x, y))
    refused("shape [400, 3]", "[400, 2]", validation=(torch.zeros(400, 3), y))


def test_7_names_that_do_not_exist():
    refused('has no key "lrr"', 'did you mean "lr"?', set={"optimizer.lrr": 0.1})
    refused('run() has no option "recrod"', 'did you mean "record"?', recrod=True)
    refused("csv is True; expected the path of a file", csv=True)
    refused("csv is ''; expected the path of a file", csv="")
    assert 'did you mean "dpsgd_ring"?' in str(raises(tt.TroupeError, lambda: tt.run("dpsgd_rng")))
    error = raises(tt.TopologyError, lambda: tt.check("single", set={"workers.count": "three"}))
    assert str(error).startswith('workers.count is "three"; expected'), error  # not --set #1
    assert "a/b.toml: no such file" in str(raises(tt.TopologyError, lambda: tt.run("a/b.toml")))
    refused("workers.count is None", set={"workers.count": None})
    refused('data= and set={"data.file": …} both choose the data', set={"data": {"file": "a"}})
    refused('model= and set={"model.name": …} both choose a model', set={"model.name": "lenet"})
    for function, name in ((tt.graph, "out"), (tt.timeline, "output")):
        error = raises(tt.TroupeError, lambda make=function, at=name: make("star", **{at: "a.svg"}))
        assert str(error).endswith(f'has no option "{name}"; save the drawing with .save(path)'), error
    error = raises(tt.TroupeError, lambda: tt.check("star", resum="a"))
    assert "did you mean" not in str(error), error  # check() has no resume=
    assert 'did you mean "resume"?' in str(raises(tt.TroupeError, lambda: tt.compare(["star"], resum="a")))


def test_8_another_version_of_torch():
    install, again = 'pip install "torch==2.11.*"', 'pip install --force-reinstall --no-deps "torch==2.11.*"'
    for version, said, fix in (("2.10.1+cpu", "is 2.10.1+cpu, but this Troupe needs 2.11", install),
                               ("2.11.0+cpu", "is incomplete", again), (None, "is not installed", install)):
        folder = pathlib.Path(f"other{version}")
        pathlib.Path(folder, "torch").mkdir(parents=True)
        if version:
            pathlib.Path(folder, "torch/__init__.py").touch()
            pathlib.Path(folder, "torch/version.py").write_text(f"__version__ = '{version}'\n")
        text = ("import sys, troupe_train as tt\n"
                f"sys.path.insert(0, {str(folder.absolute())!r})\n"
                "try:\n    tt.run('single', model=object(), data=([], []))\n"
                "except tt.TroupeError as error:\n    print(error)")
        # -S -I: without site-packages, so that there is no torch but the one in the folder.
        code = f"import sys; sys.path.insert(0, {ENVIRONMENT['PYTHONPATH']!r})\n{text}"
        done = subprocess.run([sys.executable, "-S", "-I", "-c", code], capture_output=True, text=True, env=ENVIRONMENT, check=False)
        assert said in done.stdout and fix in done.stdout, done
        assert "--extra-index-url https://download.pytorch.org/whl/cpu" in done.stdout, done


def test_9_a_folder_that_is_taken():
    tt.run("single", model=net, data=(x, y), validation=0.2, set=few, out="taken")
    before = {path: path.stat().st_mtime_ns for path in pathlib.Path("taken").rglob("*")}
    for arguments in ({}, {"model": net, "data": (x, y), "validation": 0.2}):
        error = raises(tt.TopologyError, lambda given=arguments: tt.run("single", set=few, out="taken", **given))
        assert "contains a finished run" in str(error) and "overwrite=True" in str(error), error
    assert {path: path.stat().st_mtime_ns for path in pathlib.Path("taken").rglob("*")} == before, "something has changed"
    pathlib.Path("mine").mkdir()
    pathlib.Path("mine/notes.txt").touch()
    error = raises(tt.TopologyError, lambda: tt.run("single", model=net, data=(x, y), validation=0.2, set=few, out="mine"))
    assert "notes.txt" in str(error) and os.listdir("mine") == ["notes.txt"], error
    error = raises(tt.TroupeError, lambda: tt.run("single", out="mine/notes.txt/out"))
    assert "out=" in str(error), error


    error = raises(tt.TroupeError, lambda: tt.run("single", out="mine/notes.txt", model=net, data=(x, y), validation=0.2))
    assert "mine/notes.txt: this is a file; choose a folder with out=" in str(error), error
    os.environ["HOME"] = os.getcwd()
    assert tt.run("single", set=few, out="~/at_home").folder == pathlib.Path("at_home").absolute()
    assert "out is 3; expected the path" in str(raises(tt.TroupeError, lambda: tt.run("single", out=3)))
    for arguments in ({"model": net}, {"data": (x, y)}, {"validation": 0.2}, {"out": "other"}):
        for function in (tt.run, tt.compare):
            error = raises(tt.TroupeError, lambda make=function, given=arguments: make(resume="taken", **given))
            assert "leave out model=, data=, validation= and out=" in str(error), error


def test_10_data_that_is_no_data():
    refused("100 inputs and 400 targets", data=(x[:100], y))
    refused("data is empty", data=(x[:0], y[:0]))
    refused("data is a list of 2", "a tuple (x, y)", data=[x, y])
    refused("not finite in sample 7", data=(x.index_put((torch.tensor(7),), torch.tensor(float("nan"))), y))
    refused("loader.dataset", data=torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y)))

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter([])

    refused("IterableDataset", "__getitem__", data=Stream())
    tokens = torch.ones(6, 4, dtype=torch.int64).index_put((torch.tensor(4), torch.tensor(1)), torch.tensor(-2))
    refused("the inputs of data contain -2 (sample 4)", data=(tokens, torch.zeros(6).long()))
    gpt = nn.Sequential(nn.Embedding(4, 8), nn.Linear(8, 4))
    refused("the targets of data contain 7 (sample 4)", model=gpt, data=(tokens.abs(), tokens.abs() + 5))
    refused("its inputs are [6, 0]", model=gpt, data=(tokens[:, :0], tokens[:, :0]))
    refused("x of data is nested", ".to_padded_tensor(0)", data=(torch.nested.nested_tensor([x[0], x[1]], layout=torch.jagged), y[:2]))
    refused("data is a DataFrame; pass (df[columns], df[target])", data=DataFrame())
    refused("item 0 of data is not a pair", data=torch.utils.data.TensorDataset(x))
    refused("x of data is list", "an array of numbers", data=(["a", "b"], [0, 1]))
    assert "ToTensor" not in str(raises(tt.TroupeError, lambda: tt.check("single", data=(x, None))))
    refused("model is the class Layer", "Layer()", model=Layer)
    refused("nothing.pt2: no such file", model="nothing.pt2", data=None)


def test_11_values_of_vary_that_are_not_lists():
    for values in (0.1, "ab", None, {"a": 1}, torch.tensor(0.1)):
        error = raises(tt.TroupeError, lambda given=values: tt.compare(["star"], vary={"optimizer.lr": given}, out="out"))
        assert "optimizer.lr in vary= is of type" in str(error) or "is None" in str(error), error
    assert "vary is of type list" in str(raises(tt.TroupeError, lambda: tt.compare(["star"], vary=["optimizer.lr"])))
    assert "files_or_names is 3" in str(raises(tt.TroupeError, lambda: tt.compare(3)))
    assert not os.path.exists("out")


def test_12_a_disk_that_is_full():
    # Files may have 20 kB, which ends writes as a full disk does.
    process = python(SETUP + """
import os, resource
resource.setrlimit(resource.RLIMIT_FSIZE, (20000, resource.RLIM_INFINITY))
large = nn.Sequential(nn.Linear(2, 10000), nn.ReLU(), nn.Linear(10000, 3))
for model, data in ((net, (x.repeat(100, 1), y.repeat(100))), (large, (x, y))):
    try:
        tt.run("single", model=model, data=data, validation=0.2, out="out")
    except tt.TroupeError as error:
        print(error)
    print(os.path.exists("out"))
""")
    printed, errors = process.communicate(timeout=60)
    said = printed.splitlines()
    assert len(said) == 4 and said[1] == said[3] == "False" and not errors, (printed, errors)
    assert "data.safetensors: data cannot be written" in said[0] and "net.pt2: the exported module cannot" in said[2], said


def test_13_a_command_that_cannot_be_started():
    with command(""):
        for function in (tt.run, tt.check):
            error = raises(tt.TroupeError, lambda make=function: make("single"))
            assert "cannot be started" in str(error), error
    assert os.listdir("runs") == []
    with command("echo 'warning: one' >&2; printf 'the error: not this\nerror: the cause\\377\n' >&2; exit 3"):
        error = raises(tt.RunError, lambda: tt.check("single"))
        assert error.status == 3 and error.folder is None and str(error) == "the cause\ufffd", error
    with command("echo 'Illegal option' >&2; exit 2"):  # of another program, such as a shell
        assert raises(tt.RunError, lambda: tt.check("single")).status == 2
    with command("echo 'error: no --out' >&2; exit 2"):
        error = raises(tt.TopologyError, lambda: tt.check("single"))
        assert str(error) == "no --out\n  in Python, --out is out=", error


def test_14_weights_that_do_not_fit():
    run = tt.run("single", model=net, data=(x, y), validation=0.2, set=few, out="out")
    other = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3))
    before = {name: value.clone() for name, value in other.state_dict().items()}
    error = raises(tt.TroupeError, lambda: run.load_into(other))
    for words in ("missing: 2.weight, 2.bias", "unexpected: 3.weight, 3.bias", "of another shape: 0.weight is [16, 2], not [8, 2]"):
        assert words in str(error), error
    assert all(torch.equal(value, before[name]) for name, value in other.state_dict().items())
    assert "the module is compiled" in str(raises(tt.TroupeError, lambda: run.load_into(torch.compile(net))))
    assert "not into a dict" in str(raises(tt.TroupeError, lambda: run.load_into({})))
    pathlib.Path("out/model.safetensors").write_bytes(b"half")
    assert "cannot be read" in str(raises(tt.TroupeError, run.state_dict))


def test_15_a_current_folder_that_is_gone():
    gone = pathlib.Path("gone").absolute()
    gone.mkdir()
    before = os.getcwd()
    os.chdir(gone)
    gone.rmdir()
    try:
        error = raises(tt.TroupeError, lambda: tt.run("single", set=few, out="out"))
    finally:
        os.chdir(before)
    assert "the current folder has been removed" in str(error), error


main(globals())
