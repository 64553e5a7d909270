"""What a run leaves behind: every file of the contract, well-formed, and the same bytes again."""

import json
import math
import pathlib

from troupe_command import TINY, epochs, main, metrics, troupe, write

KEYS = {"event", "epoch", "step", "updates", "seconds", "samples_per_second", "train_loss", "val_loss", "val_accuracy",
        "bytes_sent", "staleness_mean", "staleness_max", "consensus_distance"}


def test_every_output_is_there_and_well_formed():
    troupe("run", write("tiny.toml", TINY), "--out", "deep/er/out")
    out = pathlib.Path("deep/er/out")
    names = {path.name for path in out.iterdir()}
    assert {"topology.toml", "metrics.jsonl", "epochs.csv", "model.safetensors", "graph.svg"} <= names, names
    lines = metrics(out)
    assert [line["event"] for line in lines][0] == "start", lines
    assert lines[-1]["event"] == "end" and lines[-1]["step"] == 20, lines[-1]
    for line in lines:
        assert KEYS <= set(line), KEYS - set(line)
        assert set(line) == set(lines[0]), "every key on every line"
        assert line["event"] in ("start", "epoch", "evaluation", "end"), line
    evaluations = [line for line in lines if line["event"] == "evaluation"]
    assert len(evaluations) == 1 and evaluations[0]["step"] == 20, "one evaluation, at the end"
    assert 0 <= evaluations[0]["val_accuracy"] <= 1 and math.isfinite(evaluations[0]["val_loss"])
    assert lines[-1]["bytes_sent"] > 0
    steps = [line["step"] for line in lines]
    assert steps == sorted(steps), steps
    assert "<svg" in (out / "graph.svg").read_text()


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
