"""The output of a run: every documented file is written and well-formed, and a second run writes the same bytes."""

import json
import math
import os
import pathlib

from troupe_command import TINY, epochs, main, metrics, thorough, troupe, write

KEYS = {"event", "epoch", "step", "updates", "seconds", "samples_per_second", "train_loss", "val_loss", "val_accuracy",
        "val_top_k_accuracy", "lr", "epoch_seconds", "data_wait", "bytes_sent", "staleness_mean", "staleness_max",
        "gradients_refused",
        "consensus_distance", "consensus_distance_before", "consensus_distance_after", "consensus_distance_max",
        "train_seconds", "train_accuracy", "stopped_by", "steered",
        "epoch_train_loss", "train_loss_workers", "val_accuracy_workers", "origin", "changed"}


def test_every_output_is_there_and_well_formed():
    troupe("run", write("tiny.toml", TINY), "--out", "deep/er/out")
    out = pathlib.Path("deep/er/out")
    names = {path.name for path in out.iterdir()}
    assert names == {"topology.toml", "metrics.jsonl", "epochs.csv", "model.safetensors", "model_best.safetensors",
                     "graph.svg", "workers.csv", "report.html", ".troupe-run"}, names
    lines = metrics(out)
    assert [line["event"] for line in lines][0] == "start", lines
    assert lines[-1]["event"] == "end" and lines[-1]["step"] == 20, lines[-1]
    assert set(lines[0]["origin"]) == {"begun", "seed", "troupe", "libtorch", "cpu", "cpu_capability"}, lines[0]
    assert lines[0]["origin"]["seed"] == 1 and all(line["origin"] is None for line in lines[1:]), lines[0]
    for line in lines:
        assert KEYS <= set(line), KEYS - set(line)
        assert set(line) == set(lines[0]), "every key on every line"
        assert line["event"] in ("start", "epoch", "evaluation", "end"), line
    evaluations = [line for line in lines if line["event"] == "evaluation"]
    assert len(evaluations) == 1 and evaluations[0]["step"] == 20, "one evaluation, at the end"
    assert 0 <= evaluations[0]["val_accuracy"] <= 1 and math.isfinite(evaluations[0]["val_loss"])
    assert lines[-1]["bytes_sent"] > 0
    assert math.isclose(evaluations[0]["train_loss"], sum(evaluations[0]["train_loss_workers"]) / 2), evaluations[0]
    steps = [line["step"] for line in lines]
    assert steps == sorted(steps), steps
    assert "<svg" in (out / "graph.svg").read_text()


# Keys of the other JSON outputs. Readers rely on them: they may be added to, never taken away or renamed.
CHECK = {"control", "file", "model", "parameters", "data", "training_samples", "sample_shape", "sample_kind", "evaluated",
         "classes_of_a_worker", "sparsity", "mean", "std", "workers", "batch_size", "devices", "loop", "steps_per_epoch", "steps", "budget", "evaluate_every",
         "checkpoint_every", "messages_per_step", "bytes_per_step",
         "messages_between_nodes_per_step", "bytes_between_nodes_per_step",
         "slowdown", "links", "faults", "result", "same_bits", "notes", "warnings", "exchanges", "nodes", "actors"}
EXCHANGE = {"name", "kind", "sends", "answers", "every", "encoding", "ratio", "rank", "feedback", "members", "servers", "settings", "choices",
            "assumed_links", "mixing_matrix", "spectral_gap",
            "contraction", "edges"}
EVALUATION = {"loss", "accuracy", "sample_count"}
LISTED = {"name", "explanation", "settings"}
FACTS = {"source", "sends", "equation", "picture", "messages", "bytes", "synchronisation", "staleness", "equals",
         "shown_by"}


def test_json_outputs_have_the_keys_that_readers_rely_on():
    file = write("tiny.toml", TINY)
    plan = json.loads(troupe("check", file, "--json").stdout)
    assert set(plan) == CHECK, set(plan) ^ CHECK
    assert set(plan["exchanges"][0]) == EXCHANGE, set(plan["exchanges"][0]) ^ EXCHANGE
    assert set(plan["exchanges"][0]["edges"][0]) == {"from", "to", "messages", "bytes", "used"}
    assert set(plan["nodes"][0]) == {"name", "first_rank", "workers"} and set(plan["actors"][0]) == {"name", "node"}
    troupe("run", file, "--out", "json")
    found = json.loads(troupe("eval", "json/model.safetensors", "--json", "--per-class", "--top-k", "2").stdout)
    assert set(found) == EVALUATION | {"top_k_accuracy", "classes"}, found
    assert set(found["classes"][0]) == {"class", "precision", "recall", "f1", "samples"}, found
    lists = json.loads(troupe("list", "--json").stdout)
    assert set(lists) == {"models", "losses", "data", "exchanges", "optimizers"}
    assert all(set(item) == LISTED for item in lists["models"])
    assert all(set(item) == LISTED | FACTS for item in lists["exchanges"])
    keys = json.loads(troupe("explain", "--json").stdout)
    assert all({"key", "description"} <= set(key) for key in keys)
    documented = pathlib.Path(os.environ["TROUPE_SOURCE"], "docs/outputs.md").read_text()
    missing = [key for key in KEYS | CHECK | EXCHANGE if f"`{key}`" not in documented]
    assert not missing, missing


def test_an_epoch_is_a_row_of_epochs_csv():
    text = TINY.replace("steps = 20", "epochs = 2").replace("batch_size = 8", "batch_size = 512")
    text = text.replace("lenet", "convnet")
    troupe("run", write("two.toml", text), "--out", "two")
    rows = epochs("two")
    assert len(rows) == 2, rows
    assert [line["epoch"] for line in metrics("two") if line["event"] == "epoch"] == [1, 2]
    for row in rows:
        for value in row.values():
            assert value == "" or math.isfinite(float(value)), row


def test_lines_say_learning_rate_and_epoch_time():
    text = TINY.replace("steps = 20", "epochs = 2").replace("batch_size = 8", "batch_size = 512")
    text = text.replace("lr = 0.05", 'lr = 0.05\nwarmup_epochs = 1\nschedule = "cosine"').replace("lenet", "convnet")
    said = troupe("run", write("two.toml", text), "--out", "two", "--set", "evaluate.top_k=3").stdout
    lines, rows = metrics("two"), epochs("two")
    assert lines[0]["lr"] is None and lines[0]["epoch_seconds"] is None, lines[0]
    first, second = (line for line in lines if line["event"] == "epoch")
    steps = second["step"] - first["step"]
    assert math.isclose(first["lr"], 0.05 * (steps - 1) / steps, rel_tol=1e-9), first
    assert math.isclose(second["lr"], 0.025 * (1 + math.cos(math.pi * (steps - 1) / steps)), rel_tol=1e-9), second
    assert math.isclose(first["epoch_seconds"] + second["epoch_seconds"], second["train_seconds"], abs_tol=1e-6), lines
    assert second["val_accuracy"] <= second["val_top_k_accuracy"] <= 1, second
    for line, row in zip((first, second), rows, strict=True):
        assert list(row)[-5:] == ["epoch_seconds", "lr", "train_seconds", "train_accuracy", "epoch_train_loss"], row
        for key in list(row)[-5:]:
            assert math.isclose(float(row[key]), line[key], rel_tol=1e-9), (key, row, line)
        assert 0 <= line["train_accuracy"] <= 1 and line["train_seconds"] <= line["seconds"], line
    shown = [line for line in said.splitlines() if line.startswith("epoch ")]
    assert len(shown) == 2 and all(len(line) <= 96 for line in shown), said
    assert "epoch 2/2" in shown[1] and " img/s  loss " in shown[1] and " val " in shown[1], said
    assert f"  train {100 * second['train_accuracy']:4.1f} %  val" in shown[1], (shown[1], second)
    assert shown[1].endswith(f"({second['epoch_seconds']:.1f} s)"), (shown[1], second)


def test_the_best_result_is_kept():
    bad = write("bad.toml", TINY.replace("lr = 0.05", "lr = 0.05\nmomentum = 0.9").replace("steps = 20", "steps = 40"))
    troupe("run", bad, "--out", "out", "--set", "evaluate.every=4")
    accuracies = [line["val_accuracy"] for line in metrics("out") if line["event"] == "evaluation"]
    assert len(accuracies) == 10, accuracies
    best = json.loads(troupe("eval", "out/model_best.safetensors", "--json").stdout)
    assert math.isclose(best["accuracy"], max(accuracies)), (best, accuracies)
    troupe("run", bad, "--out", "out", "--overwrite", "--set", "run.steps=0")
    assert (pathlib.Path("out/model_best.safetensors").read_bytes()
            == pathlib.Path("out/model.safetensors").read_bytes()), "one evaluation is the best of its run"


def test_a_run_that_takes_too_long_ends_in_good_order():
    long = write("long.toml", TINY.replace("steps = 20", 'steps = 10000000\nmax_seconds = 1'))
    done = troupe("run", long, "--out", "out", timeout=60)
    lines = metrics("out")
    assert lines[-1]["event"] == "end" and lines[-1]["status"] == "max_seconds", lines[-1]
    assert 0 < lines[-1]["step"] < 10_000_000 and lines[-1]["seconds"] >= 1, lines[-1]
    assert lines[-2]["event"] in ("evaluation", "epoch") and lines[-1]["val_accuracy"] is not None, lines[-2:]
    assert pathlib.Path("out/model.safetensors").exists() and pathlib.Path("out/model_best.safetensors").exists()
    assert "max_seconds" in done.stdout, done.stdout


def test_a_run_stops_early_when_it_is_good_enough():
    early = write("early.toml", TINY.replace("steps = 20", "steps = 100000"))
    troupe("run", early, "--out", "out", "--set", "evaluate.every=10", "--set", "evaluate.target_accuracy=0.3",
           "--set", "optimizer.momentum=0.9")
    lines = metrics("out")
    accuracies = [line["val_accuracy"] for line in lines if line["event"] == "evaluation"]
    assert lines[-1]["stopped_by"] == "target_accuracy", lines[-1]
    assert lines[-1]["status"] == "stopped_early" and lines[-1]["step"] == 10 * len(accuracies), lines[-1]
    assert min(accuracies[-2:]) >= 0.3, accuracies
    assert not any(min(pair) >= 0.3 for pair in zip(accuracies[:-2], accuracies[1:-1], strict=True)), accuracies
    troupe("run", early, "--out", "still", "--set", "evaluate.every=10", "--set", "optimizer.lr=0",
           "--set", "evaluate.patience=3")
    end = metrics("still")[-1]
    assert end["stopped_by"] == "patience", end
    assert end["status"] == "stopped_early" and end["step"] == 40, end  # the first sets the mark, three are no better


def csv_of(lines):
    """The file of --csv, as the published program writes it: Python's round, and its own text of a float."""
    rows = [(round(line["train_seconds"], 1), round(line["val_accuracy"], 4))
            for line in lines if line["event"] == "evaluation"]
    return "".join(f"{time},{accuracy}\n" for time, accuracy in [("time", "val_accuracy"), (0.0, 0.0), *rows])


@thorough
def test_csv_has_a_row_for_each_evaluation():
    tiny = write("tiny.toml", TINY)
    troupe("run", tiny, "--out", "out", "--set", "evaluate.every=2", "--csv", "of/{ranks}ranks-{batch}bs-{lr}lr.csv")
    path = pathlib.Path("of/2ranks-8bs-0.05lr.csv")
    assert path.read_bytes().decode() == csv_of(metrics("out")), (path.read_text(), metrics("out"))
    assert path.read_text().startswith("time,val_accuracy\n0.0,0.0\n") and len(path.read_text().splitlines()) == 12
    refused = troupe("run", tiny, "--out", "again", "--csv", path, status=2)
    assert "--overwrite" in refused.stderr and str(path) in refused.stderr, refused.stderr
    troupe("run", tiny, "--out", "again", "--csv", path, "--overwrite")
    assert len(path.read_text().splitlines()) == 3
    for option in ("--csv", "--epoch-log"):
        for pattern in ("{rank}.csv", "{ranks.csv"):
            refused = troupe("run", tiny, "--out", "other", option, pattern, status=2)
            assert "{ranks}" in refused.stderr and "{optimizer}" in refused.stderr, refused.stderr
            assert option in refused.stderr, refused.stderr
    refused = troupe("run", tiny, "--out", "other", "--csv", "x.csv", "--epoch-log", "./x.csv", status=2)
    assert "both --csv and --epoch-log" in refused.stderr, refused.stderr
    assert not pathlib.Path("other").exists()


def test_the_epoch_log_has_a_line_for_each_epoch():
    text = TINY.replace("steps = 20", "epochs = 3").replace("batch_size = 8", "batch_size = 512")
    two = write("two.toml", text.replace("lenet", "convnet"))
    troupe("run", two, "--out", "out", "--epoch-log", "{ranks}-{model}.txt", "--set", "evaluate.every=2 epochs")
    lines = [line for line in metrics("out") if line["event"] == "epoch"]
    assert [line["val_accuracy"] is None for line in lines] == [True, False, False], lines
    wanted = "".join(f"{line['epoch']}  {line['train_seconds']:.2f}  {line['epoch_train_loss']:.4f}  "
                     + ("nan\n" if line["val_accuracy"] is None else f"{100 * line['val_accuracy']:.2f}\n")
                     for line in lines)
    assert pathlib.Path("2-convnet.txt").read_bytes().decode() == wanted, wanted
    refused = troupe("run", two, "--out", "again", "--epoch-log", "2-convnet.txt", status=2)
    assert "--overwrite" in refused.stderr and "--epoch-log" in refused.stderr, refused.stderr


def test_training_time_leaves_out_evaluations_that_training_waits_for():
    tiny = write("tiny.toml", TINY)
    troupe("run", tiny, "--out", "free", "--set", "evaluate.every=5")
    troupe("run", tiny, "--out", "paused", "--set", "evaluate.every=5", "--set", "evaluate.pause_training=true")
    lines = [line for line in metrics("paused") if line["event"] == "evaluation"]
    assert len(lines) == 4, lines
    held_back = [line["seconds"] - line["train_seconds"] for line in lines]
    assert held_back[0] == 0 and all(a < b for a, b in zip(held_back, held_back[1:])), held_back
    assert pathlib.Path("paused/model.safetensors").read_bytes() == pathlib.Path("free/model.safetensors").read_bytes()


def test_epochs_keep_their_last_batch_where_they_are_told_to():
    text = TINY.replace("steps = 20", "epochs = 2").replace("batch_size = 8", "batch_size = 3500")
    text = text.replace("lenet", "convnet") + "[evaluate]\nbatch_size = 300\n"
    keeping = write("keeping.toml", text.replace("[optimizer]", "drop_last = false\n[optimizer]"))
    check = json.loads(troupe("check", keeping, "--json").stdout)
    assert check["steps_per_epoch"] == 2 and check["steps"] == 4, check  # 6000 = 3500 + 2500
    said = troupe("check", keeping, "--set", "evaluate.split=workers", "--set", "evaluate.drop_last=true").stdout
    assert "(5,000 in the last step of an epoch)" in said, said
    assert "divided into 2 shares of 1,000 whose results are averaged, without the last 100 of each share" in said, said
    troupe("run", keeping, "--out", "kept")
    kept = [line for line in metrics("kept") if line["event"] == "epoch"]
    assert [line["step"] for line in kept] == [2, 4], kept
    assert math.isclose(kept[0]["samples_per_second"] * kept[0]["epoch_seconds"], 12_000, rel_tol=1e-9), kept
    troupe("run", write("dropping.toml", text), "--out", "dropped")
    assert [line["step"] for line in metrics("dropped") if line["event"] == "epoch"] == [1, 2]


def test_the_first_of_several_nodes_writes_csv():
    nodes = "".join(f'[[node]]\nname = "{name}"\naddress = "127.0.0.1:0"\n' for name in ("alpha", "beta"))
    file = write("nodes.toml", TINY.replace("count = 2\n", "") + nodes)
    troupe("run", file, "--out", "out", "--csv", "{model}-{seed}.csv", "--epoch-log", "{model}-{seed}.txt",
           "--set", "data.batch_size=300")
    assert pathlib.Path("lenet-1.csv").read_text() == csv_of(metrics("out"))
    assert len(pathlib.Path("lenet-1.txt").read_text().splitlines()) == 1
    refused = troupe("run", file, "--out", "other", "--csv", "{modell}.csv", status=2)
    assert "{model}" in refused.stderr, refused.stderr


def test_the_same_run_twice_gives_the_same_bytes():
    tiny = write("tiny.toml", TINY)
    for kind in ("all_reduce", "star"):
        for out in ("first", "second"):
            troupe("run", tiny, "--out", kind + out, "--set", f"exchange.kind={kind}", "--set", "model.name=convnet")
        first, second = (pathlib.Path(kind + out, "model.safetensors").read_bytes() for out in ("first", "second"))
        assert first == second, f"{kind}: the weights differ"


def test_the_written_topology_gives_the_same_weights():
    troupe("run", write("tiny.toml", TINY), "--out", "out")
    troupe("run", "out/topology.toml", "--out", "again")
    assert pathlib.Path("out/model.safetensors").read_bytes() == pathlib.Path("again/model.safetensors").read_bytes()
    assert pathlib.Path("out/topology.toml").read_bytes() == pathlib.Path("again/topology.toml").read_bytes()


def test_a_finished_folder_is_refused_unless_told():
    tiny = write("tiny.toml", TINY)
    troupe("run", tiny, "--out", "out")
    before = pathlib.Path("out/model.safetensors").read_bytes()
    refused = troupe("run", tiny, "--out", "out", "--set", "run.seed=2", status=2)
    assert "--overwrite" in refused.stderr and "out" in refused.stderr, refused.stderr
    assert pathlib.Path("out/model.safetensors").read_bytes() == before
    troupe("run", tiny, "--out", "out", "--set", "run.seed=2", "--overwrite")
    assert pathlib.Path("out/model.safetensors").read_bytes() != before


def test_zero_steps_write_the_initial_weights():
    tiny = write("tiny.toml", TINY)
    troupe("run", tiny, "--out", "zero", "--set", "run.steps=0")
    troupe("run", tiny, "--out", "zero_star", "--set", "run.steps=0", "--set", "exchange.kind=star")
    assert pathlib.Path("zero/model.safetensors").stat().st_size > 4 * 129_068
    assert (pathlib.Path("zero/model.safetensors").read_bytes()
            == pathlib.Path("zero_star/model.safetensors").read_bytes()), "initial weights know no wiring"
    troupe("run", tiny, "--out", "from_zero", "--set", "run.steps=0", "--set", "run.seed=9",
           "--set", "model.init=zero/model.safetensors")
    def tensors(name):
        data = pathlib.Path(name, "model.safetensors").read_bytes()
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8:8 + length])
        return {key: data[8 + length:][slice(*entry["data_offsets"])]
                for key, entry in header.items() if key != "__metadata__"}
    assert tensors("from_zero") == tensors("zero")


def test_without_out_a_run_gets_a_folder_of_its_own():
    troupe("run", write("tiny.toml", TINY), "--set", "run.steps=1")
    folders = list(pathlib.Path("runs").glob("tiny-*"))
    assert len(folders) == 1 and (folders[0] / "model.safetensors").exists(), folders


def test_quiet_says_nothing():
    done = troupe("run", write("tiny.toml", TINY), "--out", "out", "--quiet")
    assert done.stdout == "" and done.stderr == "", done


main(globals())
