"""The Python package: its runs have the bits of the command, and its functions return what the command prints."""

import contextlib
import importlib.util
import itertools
import json
import os
import pathlib
import pickle
import re
import shutil
import socket
import subprocess
import sys
import threading
import warnings

from package import ENVIRONMENT, LONG, command, raises, setup, wait_for
from troupe_command import SOURCE, TINY, main, thorough, troupe, write

import troupe_train as tt



def test_the_import_is_fast_and_imports_nothing_large():
    text = ("import sys, time; begin = time.process_time(); import troupe_train; print(time.process_time() - begin); "
            "print([name for name in ('torch', 'numpy', 'pandas', 'safetensors', 'IPython') if name in sys.modules])")
    seconds = []
    for _ in range(5):  # other programs take caches and cores away, so the shortest time counts
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, env=ENVIRONMENT)
        taken, modules = done.stdout.splitlines()
        assert modules == "[]", done.stdout
        seconds.append(float(taken))
    assert min(seconds) < 0.2, seconds


def test_a_run_has_the_bits_of_the_command():
    file = write("tiny.toml", TINY)
    troupe("run", file, "--out", "shell", "--set", "optimizer.lr=0.02", "--set", "workers.count=3")
    run = tt.run(file, set={"optimizer.lr": 0.02, "workers": {"count": 3}}, out="python")
    assert run.status == 0 and run.folder == pathlib.Path("python").absolute(), run
    assert pathlib.Path("shell/model.safetensors").read_bytes() == pathlib.Path("python/model.safetensors").read_bytes()
    assert pathlib.Path("shell/topology.toml").read_bytes() == pathlib.Path("python/topology.toml").read_bytes()


def test_a_dict_in_set_sets_the_keys_in_it_only():
    file = write("other.toml", TINY.replace("lr = 0.05", "lr = 0.05\nmomentum = 0.5"))
    plan = tt.check("model_averaging", set={"workers": {"count": 3}}).plan
    assert plan["workers"] == 3 and plan["loop"] == ["gradient", "apply", "exchange"], plan
    assert re.search(r"optimizer +sgd, lr 0.05, momentum 0.9\n", tt.check(file, set={"optimizer": {"momentum": 0.9}}))
    assert re.search(r"optimizer +adam, lr 0.05", tt.check(file, set={"optimizer": {"name": "adam"}}))
    plan = tt.check("hierarchy", set={"exchange": {"between": {"every": 7}}, "link": {"at": "*", "latency": "1ms"}}).plan
    assert [each["every"] for each in plan["exchanges"]] == [1, 1, 7] and len(plan["links"]) == 1, plan


def test_a_name_takes_precedence_over_a_folder():
    pathlib.Path("single").mkdir()
    pathlib.Path("mine").mkdir()
    write("mine/a.toml", TINY)
    assert tt.run("single", set={"run.steps": 1}, out="single").status == 0
    assert tt.check("single").plan["file"] == str(SOURCE / "topologies/single.toml")
    assert 'there is no topology "mine"' in str(raises(tt.TroupeError, lambda: tt.check("mine")))
    assert tt.compare("mine", set={"run.steps": 1}, out="out").table is not None


def test_an_error_can_be_pickled():
    error = pickle.loads(pickle.dumps(tt.RunError(1, "the cause", pathlib.Path("a"))))
    assert (str(error), error.status, error.cause, error.folder) == ("the cause", 1, "the cause", pathlib.Path("a")), error
    assert "status 3" in str(tt.RunError(3, "", None))


def test_a_run_is_pickled_as_its_results_and_a_folder_that_is_gone_is_an_error():
    run = tt.run(write("tiny.toml", TINY), out="out")
    read = pickle.loads(pickle.dumps(run))
    assert type(read) is tt.Results and read.folder == run.folder and read.records == run.records
    shutil.rmtree("out")
    for look in (lambda: run.records, lambda: run.epochs, run.state_dict, run.report):
        assert "out: no such folder; it has been removed" in str(raises(tt.TroupeError, look))
    assert "no results folder" in repr(run) and "<td>no results folder</td>" in run._repr_html_()


def test_warnings_of_the_command_are_warnings():
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with command("echo 'warning: one' >&2; echo '{}'"):
            assert tt.check("single").plan == {}
    assert [str(each.message) for each in said] == ["one"] and said[0].filename == __file__, said
    assert "optimizer.lr = 0" in tt.check("single", set={"optimizer.lr": 0}).plan["warnings"][0]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        tt.compare(["single"], set={"optimizer.lr": 0, "run.steps": 1}, out="out")
    assert said and "optimizer.lr = 0" in str(said[0].message) and said[0].filename == __file__, said


def test_a_folder_without_a_run():
    assert "not the results folder of a run" in str(raises(tt.TroupeError, lambda: tt.Results("typo")))
    run = tt.start(write("long.toml", LONG), out="out")
    for record in run:
        if record["event"] == "evaluation":
            break
    assert "training" in repr(run) and "unfinished" in repr(tt.Results("out"))
    run._job.kill()
    assert raises(tt.RunError, run.wait).status == 137
    assert "unfinished" in repr(run) and "<td>unfinished</td>" in run._repr_html_(), run
    assert "report.html: no such file" in str(raises(tt.TroupeError, run.report))
    found = tt.Comparison(pathlib.Path("out"), 0, {}, {})
    assert "compare.html: no such file" in str(raises(tt.TroupeError, found.report))


@contextlib.contextmanager
def served(*answers):
    """A server on a port of its own that gives each connection the next answer. Gives its address and its requests."""
    listener = socket.create_server(("127.0.0.1", 0))
    requests = []

    def serve():
        for answer in answers:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                requests.append(connection.recv(65536).decode())
                for part in [answer] if isinstance(answer, bytes) else answer:
                    connection.sendall(part)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}", requests
    finally:
        listener.close()


def test_an_address_that_is_not_a_dashboard():
    head, ok = b"HTTP/1.1 %s\r\nConnection: close\r\n%s\r\n", b"200 OK"
    endless = itertools.chain([head % (ok, b"")], itertools.repeat(b" " * 65536))
    for answer, words in (
        (head % (b"401 Unauthorized", b"") + b"The token is missing or wrong\n", "status 401, not 200: The token is missing"),
        (head % (b"302 Found", b"Location: http://127.0.0.1:9/\r\n"), "status 302"),
        (head % (ok, b"") + b"<html>", "not the dashboard of a run"),
        (head % (ok, b"") + b"[1]", "not the dashboard of a run"),
        (b"SSH-2.0-OpenSSH\r\n", "not the dashboard of a run"),
        (b"", "no dashboard answers"),
        (endless, "more than 8 MiB"),
    ):
        with served(answer) as (address, requests):
            error = raises(tt.TroupeError, tt.watch(address, token="secret").status)
            assert words in str(error) and error.__cause__ is None and len(str(error)) < 300, error
            assert "Authorization: Bearer secret" in requests[0], requests
    for state, ends in ((b'{"status":"training"}', False), (b'{"status":"done"}', True)):
        with served(head % (ok, b"") + b"data: " + state + b"\n\n") as (address, _):
            states = iter(tt.watch(address))
            assert next(states) == json.loads(state)
            if ends:
                assert list(states) == []
            else:
                assert "ended before the run" in str(raises(tt.TroupeError, lambda each=states: list(each)))
    with served(itertools.chain([head % (ok, b"") + b"data: "], itertools.repeat(b" " * 65536))) as (address, _):
        assert "more than 8 MiB" in str(raises(tt.TroupeError, lambda: list(tt.watch(address))))
    for address in ("nothing", "host:99999", "me@host:80", "https://host:80"):
        assert "HOST:PORT" in str(raises(tt.TroupeError, lambda where=address: tt.watch(where))), address


def test_a_token_is_not_sent_to_a_proxy():
    answer = b'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{"status": "training"}'
    with served(answer) as (address, requests), served(answer) as (proxy, others):
        os.environ["http_proxy"] = f"http://{proxy}"
        try:
            assert tt.watch(address, token="secret").status() == {"status": "training"}
        finally:
            del os.environ["http_proxy"]
        assert len(requests) == 1 and not others


def test_an_empty_name_of_the_command_is_none():
    text = "from troupe_train._process import binary, environment\nimport troupe_train as tt\n" \
           "try:\n    binary()\nexcept tt.TroupeError as error:\n    print(error)\nprint('LD_LIBRARY_PATH' in environment())"
    environment = {key: value for key, value in ENVIRONMENT.items() if key != "LD_LIBRARY_PATH"} | {"TROUPE_BINARY": ""}
    printed = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, env=environment).stdout
    assert "bin/troupe: there is no command here; install the wheel" in printed and printed.endswith("True\n"), printed


def test_the_examples_of_the_page_run():
    page = (SOURCE / "docs/python.md").read_text().split("\n## Read the results without the package")[0]
    examples = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(examples) == 3
    names = {}
    for example in examples:
        exec(example, names)
    assert len(names["found"].table) == 4 and pathlib.Path("steps.svg").exists()


def test_a_module_of_python_trains_as_it_does_with_the_command():
    import torch

    net, x, y = setup()
    net[2].eval()  # a part in another mode than the rest: it must come back so
    before = {name: value.clone() for name, value in net.state_dict().items()}
    settings = {"run.epochs": 8, "workers.count": 2, "optimizer.lr": 0.3}
    run = tt.run("all_reduce", model=net, data=(x[:300], y[:300]), validation=(x[300:], y[300:]), set=settings, out="python")
    assert [each.training for each in net] == [True, True, False, True] and net.training
    assert all(torch.equal(value, net.state_dict()[name]) for name, value in before.items()), "the module was changed"
    assert run.records[-1]["val_accuracy"] > 0.85, run
    assert len(run.epochs) == 8 and run.records[0]["event"] == "start"
    run.load_into(net)
    right = (net.eval()(x[300:]).argmax(1) == y[300:]).float().mean().item()
    assert abs(right - run.records[-1]["val_accuracy"]) < 1e-6, right

    inputs = {"model.exported": "python/python_inputs/net.pt2", "data.name": "tensors",
              "data.file": "python/python_inputs/data.safetensors",
              "data.test_file": "python/python_inputs/validation.safetensors"}
    words = [word for key, value in {**settings, **inputs}.items() for word in ("--set", f"{key}={value}")]
    troupe("run", SOURCE / "topologies/all_reduce.toml", *words, "--out", "shell")
    assert pathlib.Path("shell/model.safetensors").read_bytes() == pathlib.Path("python/model.safetensors").read_bytes()
    words = [word for key, value in inputs.items() if key != "data.name" for word in ("--set", f"{key}={value}")]
    assert "accuracy" in troupe("eval", "python/model.safetensors", *words).stdout


def test_arrays_and_datasets_are_the_same_samples_as_tensors():
    import torch

    net, x, y = setup()
    pairs = torch.utils.data.TensorDataset(x, y)
    arrays, backwards = (x.numpy(), y.to(torch.int32).numpy()), (x.flip(0).numpy()[::-1], y.flip(0).numpy()[::-1])
    found = set()
    for name, data, share in (("tensors", (x, y), 0.25), ("arrays", arrays, arrays[0].dtype.type(0.25)),
                              ("pairs", pairs, torch.tensor(0.25)), ("backwards", backwards, 0.25)):
        tt.run("single", model=net, data=data, validation=share, set={"run.steps": 3}, out=name)
        found.add(pathlib.Path(name, "model.safetensors").read_bytes())
    assert len(found) == 1


def test_inputs_may_be_the_targets():
    import torch

    tokens = torch.arange(60).view(10, 6) % 5
    net = torch.nn.Sequential(torch.nn.Embedding(5, 4), torch.nn.Linear(4, 5))
    assert tt.run("single", model=net, data=(tokens, tokens), validation=0.2,
                  set={"run.steps": 1, "data.batch_size": 4}).status == 0


@thorough
def test_a_module_trains_on_the_data_of_the_topology():
    import torch

    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10))
    run = tt.run("single", model=net, set={"run.steps": 20, "data.batch_size": 8})
    assert run.status == 0 and run.folder.parent == pathlib.Path("runs").absolute(), run
    assert "784" in str(tt.check("single", model=net, operators=True)), "the operators of the module"


@thorough
def test_comparisons_have_a_row_for_each_variant():
    net, x, y = setup()
    vary = {"link.bandwidth": ["1Mbit/s", "1Gbit/s"]}
    found = tt.compare(["star", "ring_all_reduce"], vary=vary, simulate=True, model=net, data=(x, y), validation=0.2,
                       set={"run.steps": 4, "data.batch_size": 8, "link.at": "*", "simulate.gradient": "1ms"}, out="out")
    rows = found.table if isinstance(found.table, list) else found.table.to_dict("records")
    assert [(row["topology"], row["link.bandwidth"]) for row in rows] == [
        ("star", "1Mbit/s"), ("star", "1Gbit/s"), ("ring_all_reduce", "1Mbit/s"), ("ring_all_reduce", "1Gbit/s")], rows
    assert rows[0]["seconds"] > rows[1]["seconds"] and len(found.runs) == 4 and found.status == 0
    assert len(found.results()) == 4 and found.results()[0].state_dict() and found.report().path.is_file()
    assert "<table" in found._repr_html_() and "Shortest run" in repr(found)


@thorough
def test_what_to_use_on_a_network():
    net, x, y = setup()
    found = tt.tune("all_reduce", link="1Mbit/s,5ms", target=0.01, budget="30s", model=net, data=(x, y), validation=0.2,
                    set={"run.steps": 40, "data.batch_size": 8}, out="out", quiet=True)
    rows = found.table if isinstance(found.table, list) else found.table.to_dict("records")
    assert found.status == 0 and {row["kind"] for row in rows} == {"curve", "timing"}, rows
    assert found.conclusion.startswith("Use ") and found.conclusion in repr(found) and found.report().path.is_file()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so short a run may end between two exchanges
        assert tt.run(found.best, model=net, data=(x, y), validation=0.2, out="run", quiet=True).status == 0
    assert "describes no network" in str(raises(tt.TopologyError, lambda: tt.tune("all_reduce", out="none", quiet=True)))


def test_simulate_check_graph_and_timeline():
    run = tt.simulate("ring_all_reduce", set={"run.steps": 3, "simulate.gradient": "10ms", "link": {"at": "*", "latency": "1ms"}},
                      compute="none")
    assert run.records[-1]["status"] == "done" and not (run.folder / "model.safetensors").exists()
    assert "no such file" in str(raises(tt.TroupeError, run.state_dict))
    plan = tt.check("dpsgd_ring", set={"workers.count": 6})
    assert "same bits" in plan and plan.plan["workers"] == 6
    drawing = tt.graph("dpsgd_ring", wiring_only=True)
    assert drawing._repr_svg_().startswith("<svg")
    drawing.save("ring.svg")
    assert pathlib.Path("ring.svg").read_text() == drawing.svg
    assert "<svg" in tt.timeline("star", steps=1, workers=[0, 1], set={"simulate.gradient": "1ms"}).svg


def test_a_dashboard_can_be_watched():
    run = tt.start(write("long.toml", LONG), out="out", dashboard="127.0.0.1:0", quiet=True)
    next(iter(run))
    wait_for(lambda: run.dashboard)
    watched = tt.watch(run.dashboard)
    wait_for(lambda: watched.status()["status"] == "training")
    last = {}
    for state in watched:
        run.stop()
        last = state
    assert last["status"] == "interrupted" and run.wait().status == 130, last
    assert "no dashboard answers" in str(raises(tt.TroupeError, watched.status))


def test_the_options_are_those_of_the_command():
    from troupe_train._process import OPTIONS

    others = {"help", "set", "out", "resume", "quiet", "json", "output", "vary", "repeat", "target", "simulate", "link", "links",
              "probe", "listen", "budget"}
    for command, names in OPTIONS.items():
        found = re.findall(r"^  (?:-\w,)?--([\w-]+)", troupe(command, "--help").stdout, re.MULTILINE)
        have = {name.replace("-", "_") for name in found} - others
        if command in ("graph", "timeline"):
            have.discard("overwrite")  # of a drawing, which is a temporary file here
        assert have == set(names.split()), (command, have, names)


def test_values_are_written_as_toml():
    from troupe_train._process import toml

    values = {"text": 'a "b" \\ \n \x01 \x7f é 😀', "yes": True, "number": 3, "real": 1e-05, "large": 1e22, "list": [1, [2.5, "x"]],
              "table": {"at": "*", "a key": {"b": [False]}}, "path": pathlib.Path("a/b"), "lowest": float("-inf")}
    written = {key: toml(value) for key, value in values.items()}
    if sys.version_info >= (3, 11):
        import tomllib

        for key, text in written.items():
            assert tomllib.loads(f"key = {text}")["key"] == (str(values[key]) if key == "path" else values[key]), text
    assert toml(float("nan")) == "nan" and toml((1, 2)) == "[1, 2]"
    import numpy

    assert toml(numpy.float32(0.5)) == "0.5" and toml(numpy.arange(2)) == "[0, 1]"


def test_a_torch_elsewhere_is_named_to_the_command_of_the_package():
    shutil.copytree(SOURCE / "python/troupe_train", "site/troupe_train", ignore=shutil.ignore_patterns("__pycache__"))
    pathlib.Path("site/troupe_train/bin").mkdir()
    command = pathlib.Path("site/troupe_train/bin/troupe")
    command.write_text('#!/bin/sh\necho "path $LD_LIBRARY_PATH, arguments $*"\n')
    command.chmod(0o755)
    environment = {key: value for key, value in ENVIRONMENT.items() if key not in ("TROUPE_BINARY", "LD_LIBRARY_PATH")}
    environment["PYTHONPATH"] = os.path.abspath("site")
    text = "import sys; from troupe_train._process import main; main()"

    def printed():
        words = [sys.executable, "-c", text, "run", "a b"]
        return subprocess.run(words, capture_output=True, text=True, check=True, env=environment).stdout

    torch = pathlib.Path(importlib.util.find_spec("torch").origin).parent
    assert printed() == f"path {torch / 'lib'}, arguments run a b\n", printed()
    pathlib.Path("site/torch").symlink_to(torch)
    assert printed() == "path , arguments run a b\n", printed()


@thorough
def test_the_script_becomes_the_command():
    text = "from troupe_train._process import main; main()"
    done = subprocess.run([sys.executable, "-c", text, "check", "nothing.toml"], capture_output=True, text=True, check=False,
                          env=ENVIRONMENT)
    assert done.returncode == 2 and "nothing.toml: no such file" in done.stderr, done
    done = subprocess.run([sys.executable, "-c", text, "--version"], capture_output=True, text=True, check=True,
                          env=ENVIRONMENT)
    assert done.stdout == troupe("--version").stdout, done


main(globals())
