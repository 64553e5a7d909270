"""The commands besides run, each once: they work from any folder and say what they are asked for."""

import pathlib

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
    for name in ("convnet", "lenet", "digits", "mnist", "fashion_mnist", "all_reduce", "star", "gossip",
                 "parameter_server", "elastic", "sgd"):
        assert name in said, f"{name} is missing from {said}"


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
