"""The commands other than run, each once: they work from any folder and print what they should."""

import json
import os
import pathlib
import re
import subprocess
import unicodedata

from troupe_command import BINARY, SOURCE, TINY, main, metrics, thorough, troupe, write

KERNEL_SETTINGS = ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "ONEDNN_DEFAULT_FPMATH_MODE",
                   "DNNL_DEFAULT_FPMATH_MODE", "MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS")


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


def test_no_library_is_loaded_from_the_current_folder():
    said = subprocess.run(["readelf", "-d", BINARY], capture_output=True, text=True, check=True).stdout
    paths = re.findall(r"R(?:UN)?PATH\).*\[(.*)\]", said)
    assert paths and all(path.startswith("/") for path in ":".join(paths).split(":")), paths


def test_check_says_what_a_step_sends():
    said = troupe("check", write("tiny.toml", TINY)).stdout
    assert "byte" in said or "MiB" in said or "kB" in said or "KiB" in said, said


@thorough
def test_graph_draws_every_example():
    for file in catalogue():
        if '"mnist"' in file.read_text():
            continue
        troupe("graph", file, "-o", "wiring.svg")
        assert "<svg" in pathlib.Path("wiring.svg").read_text()
        troupe("graph", file, "-o", "wiring.dot")
        assert "evaluator" in pathlib.Path("wiring.dot").read_text()
        troupe("graph", file, "-o", "wiring.dot", "--wiring-only")
        assert "evaluator" not in pathlib.Path("wiring.dot").read_text()
        assert "graph" in pathlib.Path("wiring.dot").read_text()
    troupe("graph", write("tiny.toml", TINY), "-o", "drawings/of/wiring.svg")
    assert "<svg" in pathlib.Path("drawings/of/wiring.svg").read_text()


def test_eval_needs_the_weights_alone():
    troupe("run", write("tiny.toml", TINY), "--out", "out")
    said = troupe("eval", "out/model.safetensors").stdout
    assert "accuracy" in said and "loss" in said, said
    again = troupe("eval", "out/model.safetensors").stdout
    assert said == again


@thorough
def test_weights_say_how_shortcuts_and_widths_were_made():
    tiny = write("tiny.toml", TINY)
    for model, setting in (("resnet20", "shortcut=pad"), ("wide_resnet_pooled", "width=1")):
        made = (f"model.name={model}", f"model.{setting}", "model.initializer=normal", "run.steps=0")
        troupe("run", tiny, "--out", model, *(part for word in made for part in ("--set", word)))
        line = [line for line in metrics(model) if line["val_loss"] is not None][-1]
        said = json.loads(troupe("eval", f"{model}/model.safetensors", "--json").stdout)
        assert abs(said["loss"] - line["val_loss"]) < 1e-6, (said, line)


def test_eval_reports_on_each_class():
    troupe("run", write("tiny.toml", TINY), "--out", "out")
    weights = "out/model.safetensors"
    found = json.loads(troupe("eval", weights, "--json", "--per-class", "--top-k", "3").stdout)
    classes = found["classes"]
    assert [each["class"] for each in classes] == [str(digit) for digit in range(10)], classes
    assert sum(each["samples"] for each in classes) == found["sample_count"], found
    correct = sum(each["recall"] * each["samples"] for each in classes)
    assert abs(correct / found["sample_count"] - found["accuracy"]) < 1e-9, found
    for each in classes:
        total = each["precision"] + each["recall"]
        assert abs(each["f1"] - (2 * each["precision"] * each["recall"] / total if total else 0)) < 1e-9, each
    assert found["accuracy"] <= found["top_k_accuracy"] <= 1, found
    said = troupe("eval", weights, "--per-class", "--top-k", "3").stdout
    assert "top-3 accuracy" in said and "precision" in said and "macro average" in said, said
    assert "classes" not in json.loads(troupe("eval", weights, "--json").stdout)


def test_eval_takes_one_setting_of_a_line_of_weights():
    troupe("run", write("tiny.toml", TINY), "--out", "out")
    raw = pathlib.Path("out/model.safetensors").read_bytes()
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:8 + size])
    header["__metadata__"]["made_by"] = json.dumps(["run.seed=1\ndata.file=\"elsewhere\""])
    forged = json.dumps(header).encode()
    pathlib.Path("forged.safetensors").write_bytes(len(forged).to_bytes(8, "little") + forged + raw[8 + size:])
    said = troupe("eval", "forged.safetensors", status=2).stderr
    assert "a setting in the metadata made_by spans several lines" in said, said


def test_eval_reports_on_two_classes_of_one_score_and_refuses_numbers():
    text = TINY.replace("lenet", "{}").replace("digits", "{}")
    troupe("run", write("two.toml", text.format("logistic", "sparse")), "--out", "two")
    found = json.loads(troupe("eval", "two/model.safetensors", "--json", "--per-class").stdout)
    assert len(found["classes"]) == 2, found
    assert sum(each["samples"] for each in found["classes"]) == found["sample_count"], found
    ratings = write("ratings.txt", "".join(f"{user} {item} {user + item}\n" for user in range(8) for item in range(8)))
    numbers = text.format("matrix_completion", "triplets").replace("batch_size", f'file = "{ratings}"\nbatch_size')
    troupe("run", write("numbers.toml", numbers), "--out", "numbers")
    asked = ["eval", "numbers/model.safetensors", "--set", f"data.file={ratings}"]
    assert json.loads(troupe(*asked, "--json").stdout)["sample_count"] == 64
    said = troupe(*asked, "--per-class", status=2).stderr
    assert "triplets is a regression data set and has no classes; remove --per-class" in said, said


def test_list_shows_of_each_optimizer_what_it_goes_by():
    optimizers = {each["name"]: each for each in json.loads(troupe("list", "optimizers", "--json").stdout)["optimizers"]}
    assert set(optimizers) == {"sgd", "adam", "adamw", "novograd"}, optimizers
    assert "momentum" in optimizers["sgd"]["settings"] and "betas" not in optimizers["sgd"]["settings"]
    for name in ("adam", "adamw", "novograd"):
        settings = optimizers[name]["settings"]
        assert {"lr", "betas", "eps", "weight_decay", "schedule"} <= set(settings), settings
        assert "momentum" not in settings and "nesterov" not in settings, settings


def test_words_of_a_step_that_do_not_go_together_are_refused():
    tiny = write("tiny.toml", TINY)
    for words, says in ((["name=adam", "momentum=0.9"], "optimizer.momentum is used only by"),
                        (["name=novograd", "nesterov=true"], "optimizer.nesterov is used only by"),
                        (["betas=[0.9, 0.99]"], "optimizer.betas is used only by"),
                        (["eps=1e-6"], "optimizer.eps is used only by"),
                        (["name=adamw", "betas=[0.9]"], "expected two"),
                        (["name=adamw", "betas=[0.9, 1.0]"], "below 1"),
                        (["warmup_start=0.1"], "optimizer.warmup_epochs"),
                        (["nesterov=true"], "optimizer.momentum"),
                        (["schedule=step"], "optimizer.decay_epochs"),
                        (["schedule=step", "decay_epochs=[3, 2]"], "must be in ascending order")):
        refused = troupe("check", tiny, *(part for word in words for part in ("--set", f"optimizer.{word}")), status=2)
        assert says in refused.stderr, refused.stderr
    server = ("exchange.kind=parameter_server", "workers.loop=[\"gradient\", \"exchange\"]", "optimizer.name=novograd")
    wired = [part for word in server for part in ("--set", word)]
    assert "shards = 1" in troupe("check", tiny, *wired, "--set", "exchange.shards=2", status=2).stderr
    troupe("check", tiny, *wired)


def test_a_file_may_extend_another():
    write("base.toml", TINY)
    write("own.toml", 'extends = "base.toml"\n[run]\nsteps = 3\n[exchange]\nkind = "star"\n')
    troupe("run", "own.toml", "--out", "out", "--set", "optimizer.lr=0.1")
    text = pathlib.Path("out/topology.toml").read_text()
    assert "extends" not in text and re.search(r"steps += 3", text) and '"star"' in text and '"lenet"' in text, text


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
    both = troupe("explain", "optimizer.lr", "run.seed").stdout
    assert both == said + "\n" + troupe("explain", "run.seed").stdout, both
    assert troupe("explain", "optimizer.lr", "optimiser.lr", status=2).stdout == ""


def test_version_names_what_it_was_built_with():
    said = troupe("--version").stdout
    for name in ("LibTorch", "2.11", "CAF", "0.17.6"):
        assert name in said, said


def test_version_describes_the_arithmetic():
    def lines(**variables):
        environment = {name: value for name, value in os.environ.items() if name not in KERNEL_SETTINGS}
        said = subprocess.run([BINARY, "--version"], capture_output=True, text=True, check=True, timeout=60,
                              env=dict(environment, **variables)).stdout
        return dict(re.findall(r"^(CPU capability|CPU|arithmetic|bfloat16 arithmetic|kernel selection) (.+)$", said,
                               re.MULTILINE))
    usual = lines()
    assert len(usual) == 5 and usual["kernel selection"] == "default", usual
    assert lines() == usual
    for variable in ("MKL_CBWR=COMPATIBLE", "ONEDNN_MAX_CPU_ISA=SSE41", "ATEN_CPU_CAPABILITY=default"):
        name, value = variable.split("=")
        other = lines(**{name: value})
        assert other["kernel selection"] == variable, other
        assert other["CPU"] == usual["CPU"] and other["arithmetic"] != usual["arithmetic"], (usual, other)


def test_help_is_wrapped_and_also_a_command():
    for command in ([], ["run"], ["data", "fetch"], ["compare"]):
        said = troupe(*command, "--help").stdout
        assert max(map(len, said.splitlines())) <= 80, said
        assert troupe("help", *command).stdout == said, command
    said = troupe("help", "runn", status=2).stderr
    assert 'unknown command "runn"' in said and "did you mean run" in said.replace('"run"', "run"), said


def test_a_command_of_other_programs_is_understood():
    for word, meant in {"trian": "run", "train": "run", "evaluate": "eval", "smulate": "simulate", "plot": "graph"}.items():
        said = troupe(word, status=2).stderr
        assert f'unknown command "{word}"' in said and f"did you mean {meant}?" in said.replace('"', ""), said


def test_explain_prints_keys_that_several_kinds_have_once():
    said = troupe("explain", "exchange.send").stdout
    assert said.count("exchange.send") == 1 and '(kind = "star" or "all_reduce")' in said, said
    assert "as described above" not in troupe("explain", "exchange.alpha").stdout + troupe("explain", "model").stdout
    assert "default  Defaults to 0.9/n\n" in troupe("explain", "exchange.alpha").stdout
    assert "staleness_bound  an integer" in troupe("list", "exchanges").stdout.replace("\n", " ")


def test_help_of_every_command():
    for command in ("run", "check", "graph", "eval", "list", "explain", "data"):
        assert troupe(command, "--help").stdout
    assert "run" in troupe("--help").stdout


main(globals())
