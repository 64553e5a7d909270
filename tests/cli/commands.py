"""The commands besides run, each once: they work from any folder and say what they are asked for."""

import json
import pathlib
import re
import unicodedata

from troupe_command import SOURCE, TINY, main, troupe, write


def catalogue():
    files = sorted((SOURCE / "topologies").glob("*.toml"))
    assert files
    return files


def test_check_prints_the_plan_of_every_example():
    for file in catalogue():
        if '"mnist"' in file.read_text():
            continue  # wants its files
        said = troupe("check", file).stdout
        assert "worker" in said and "evaluator" in said, said


def test_check_says_what_a_step_sends():
    said = troupe("check", write("tiny.toml", TINY)).stdout
    assert "byte" in said or "MiB" in said or "kB" in said or "KiB" in said, said


def test_graph_draws_every_example():
    for file in catalogue():
        if '"mnist"' in file.read_text():
            continue
        troupe("graph", file, "-o", "wiring.svg")
        assert "<svg" in pathlib.Path("wiring.svg").read_text()
        troupe("graph", file, "-o", "wiring.dot")
        assert "graph" in pathlib.Path("wiring.dot").read_text()


def test_eval_needs_the_weights_alone():
    troupe("run", write("tiny.toml", TINY), "--out", "out")
    said = troupe("eval", "out/model.safetensors").stdout
    assert "accuracy" in said and "loss" in said, said
    again = troupe("eval", "out/model.safetensors").stdout
    assert said == again


def test_list_names_what_a_file_may_name():
    said = troupe("list").stdout
    for name in ("convnet", "lenet", "resnet20", "resnet18", "digits", "mnist", "fashion_mnist", "cifar10", "all_reduce",
                 "star", "gossip", "parameter_server", "elastic", "sgd"):
        assert name in said, f"{name} is missing from {said}"


def test_list_tells_of_each_exchange_what_it_sends_and_equals():
    kinds = json.loads(troupe("list", "exchanges", "--json").stdout)["exchanges"]
    said = troupe("list", "exchanges").stdout
    table = (SOURCE / "docs" / "algorithms.md").read_text()
    rows = set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE))
    assert rows == {kind["name"] for kind in kinds}, "docs/algorithms.md has rows for other exchanges than there are"
    for kind in kinds:
        for key in ("explanation", "source", "sends", "equation", "picture", "messages", "bytes", "synchronisation",
                    "staleness", "equals", "shown_by"):
            assert kind[key].strip(), f"{kind['name']} does not tell its {key}"
        for path in kind["shown_by"].split(", "):
            assert (SOURCE / path).is_file(), f"{kind['name']} is shown by {path}, which is no file"
            assert path in said, path
        for line in kind["picture"].splitlines():
            assert line in said, f"the picture of {kind['name']} is not shown as it is"
    assert max(map(columns, said.splitlines())) <= 100, said


def columns(line):
    return sum(not unicodedata.combining(letter) for letter in line)


def test_check_shows_who_mixes_with_whom():
    file = SOURCE / "topologies" / "dpsgd_ring.toml"
    exchange = json.loads(troupe("check", file, "--json").stdout)["exchanges"][0]
    for row in exchange["mixing_matrix"]:
        assert abs(sum(row) - 1) < 1e-9 and sum(weight > 0 for weight in row) == 3, row
    assert abs(exchange["spectral_gap"] - 2 / 3) < 1e-9, exchange
    assert "spectral gap" in troupe("check", file).stdout
    served = json.loads(troupe("check", SOURCE / "topologies" / "sync_ps.toml", "--json").stdout)["exchanges"][0]
    assert served["mixing_matrix"] is None and [server["id"] for server in served["servers"]] == [4, 5], served


def test_explain_tells_a_key():
    said = troupe("explain", "optimizer.lr").stdout
    assert "0.01" in said, said
    assert "direct" not in said
    assert "ring" in troupe("explain", "exchange.route").stdout


def test_version_names_what_it_was_built_with():
    said = troupe("--version").stdout
    for name in ("LibTorch", "2.11", "CAF", "0.17.6"):
        assert name in said, said


def test_help_of_every_command():
    for command in ("run", "check", "graph", "eval", "list", "explain", "data"):
        assert troupe(command, "--help").stdout
    assert "run" in troupe("--help").stdout


main(globals())
