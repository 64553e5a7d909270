"""Sparse data sets and models as users see them: the user's own files, messages for faulty files, Hogwild! training,
and interruption by a signal."""

import json
import os
import pathlib
import random
import re
import signal

from nodes import background, free_ports, node_tables, nothing_is_left
from troupe_command import SOURCE, main, metrics, thorough, troupe, write

HOGWILD = SOURCE / "topologies" / "hogwild_sparse.toml"
FILE = """
[run]
seed = 1
epochs = 3
[model]
name = "logistic"
[data]
name = "libsvm"
file = "train.txt"
test_file = "test.txt"
batch_size = 1
[optimizer]
lr = 0.1
[workers]
count = 1
loop = ["gradient", "apply"]
[exchange]
kind = "shared"
"""
RATINGS = (FILE.replace("logistic", "matrix_completion").replace("libsvm", "triplets").replace("lr = 0.1", "lr = 0.05")
           .replace("train.txt", "known.txt").replace("test.txt", "asked.txt"))
BEFORE = ["--set", 'workers.loop=["gradient","exchange","apply"]', "--set", "exchange.kind=all_reduce"]


def classes(low="-1", high="1", end="\n", columns=30):
    """Writes train.txt and test.txt: sparse rows on two sides of a plane; returns the topology file."""
    generator = random.Random(3)
    plane = [generator.gauss(0, 1) for _ in range(columns)]
    for name, count in (("train.txt", 400), ("test.txt", 100)):
        lines = []
        for _ in range(count):
            row = {column: round(generator.uniform(0.1, 2), 3) * generator.choice((-1, 1))
                   for column in sorted(generator.sample(range(columns), generator.randint(1, min(6, columns))))}
            label = high if sum(plane[column] * value for column, value in row.items()) > 0 else low
            lines.append(" ".join([label, *(f"{column + 1}:{value}" for column, value in row.items())]) + end)
        pathlib.Path(name).write_text("".join(lines), newline="")
    return write("classes.toml", FILE)


def ratings():
    """Writes known.txt and asked.txt, parts of a matrix of rank two; returns the topology file."""
    generator = random.Random(4)
    users, items = ([[generator.gauss(0, 1) for _ in range(2)] for _ in range(count)] for count in (20, 15))
    entries = [f"{u}\t{i}\t{a[0] * b[0] + a[1] * b[1]:.4f}\n" for u, a in enumerate(users) for i, b in enumerate(items)]
    generator.shuffle(entries)
    write("known.txt", "".join(entries[:240]))
    write("asked.txt", "".join(entries[240:]).replace("\t", "::"))
    return write("ratings.toml", RATINGS)


def settings(*pairs):
    return [word for pair in pairs for word in ("--set", pair)]


def train(file, *pairs, out="out"):
    """Trains and returns the end of metrics.jsonl, and what was said."""
    said = troupe("run", file, "--out", out, "--overwrite", *settings(*pairs))
    end = metrics(out)[-1]
    assert end["event"] == "end" and end["status"] == "done", end
    assert pathlib.Path(out, "model.safetensors").is_file()
    return end, said


def content(out):
    return pathlib.Path(out, "model.safetensors").read_bytes()


def refuse(file, *pairs, says):
    """Demands that run and check refuse the file, in one message of these words, and that nothing is written."""
    for command in (["run", file, "--out", "refused"], ["check", file]):
        done = troupe(*command, *settings(*pairs), status=2)
        for word in says:
            assert word in done.stderr, f"'{word}' is missing from: {done.stderr}"
        assert done.stderr.startswith("error: ") and len(done.stderr.splitlines()) == 1, done.stderr
        assert not pathlib.Path("refused").exists(), "something was written"


def evaluated(*names):
    given = settings(f"data.file={names[0]}", f"data.test_file={names[1]}")
    said = troupe("eval", "out/model.safetensors", *given).stdout
    return json.loads(troupe("eval", "out/model.safetensors", "--json", *given).stdout), said


def close(found, expected):
    return abs(found - expected) <= 1e-6 * abs(expected)


def test_classes_from_end_to_end():
    end, said = train(classes())
    assert end["val_accuracy"] > 0.9 and "row/s" in said.stdout, (end, said.stdout)
    found, words = evaluated("train.txt", "test.txt")
    assert found["accuracy"] == end["val_accuracy"] and close(found["loss"], end["val_loss"]), (found, end)
    assert "100 samples" in words and f"accuracy {100 * end['val_accuracy']:.2f} %" in words, words


def test_ratings_from_end_to_end():
    end, said = train(ratings())
    assert end["val_accuracy"] is None and end["val_loss"] < 0.5, end
    assert "accuracy" not in said.stdout and "val " not in said.stdout, said.stdout
    found, words = evaluated("known.txt", "asked.txt")
    assert found["accuracy"] is None and close(found["loss"], end["val_loss"]), (found, end)
    assert "accuracy" not in words and "loss" in words, words


def test_labels_and_line_ends_do_not_show_in_the_weights():
    train(classes(), out="plain")
    for low, high, end in (("0", "1", "\n"), ("1", "2", "\r\n"), ("-1.0", "+1", " # a remark\n\n")):
        train(classes(low, high, end))
        assert content("out") == content("plain"), (low, high, end)


def test_rows_of_nothing_are_samples():
    classes()
    for name in ("train.txt", "test.txt"):
        with open(name, "a") as file:
            file.write("1\n-1\n")
    for wiring in ([], settings("optimizer.momentum=0.5", "data.batch_size=2")):
        troupe("run", "classes.toml", "--out", "out", "--overwrite", *wiring)
    assert "402 training samples" in troupe("check", "classes.toml").stdout


def test_the_smallest_sets():
    train(classes(columns=1))
    train(HOGWILD, "data.columns=1", "data.nonzeros=1", "run.epochs=1")
    train(HOGWILD, "data.columns=20", "data.nonzeros=20", "run.epochs=1")
    train(HOGWILD, "data.rows=10", "run.epochs=2")
    train(HOGWILD, "data.rows=10", "data.batch_size=10", "workers.count=1", "run.epochs=2")
    train(HOGWILD, "data.rows=101", "data.batch_size=7", "workers.count=3", "run.epochs=2")
    refuse(HOGWILD, "data.columns=5", says=["data.nonzeros = 20", "data.columns, which is 5"])
    refuse(HOGWILD, "data.rows=10", "data.batch_size=11", says=["data.batch_size = 11", "use at most 5"])
    refuse(HOGWILD, "data.rows=10", "workers.count=11", says=["workers.count = 11", "at most 10 workers"])
    write("one.txt", "3 7 4.5\n")
    ratings()
    train("ratings.toml", "data.file=one.txt", "data.test_file=one.txt")


def test_check_says_how_sparse_a_set_is():
    write("train.txt", "1 1:1 2:1 3:1\n-1 3:1 4:1\n1 5:1\n-1 5:1 6:1\n")
    file = write("four.toml", FILE.replace('test_file = "test.txt"\n', ""))
    said = troupe("check", file).stdout
    for word in ("Ω = 3", "Δ = 0.5", "ρ = 0.5", "6 columns"):
        assert word in said, f"'{word}' is missing from {said}"
    found = json.loads(troupe("check", file, "--json").stdout)["sparsity"]
    assert found == {"omega": 3, "delta": 0.5, "rho": 0.5, "rho_is_exact": True, "mean_nonzeros": 2.0}, found


def test_mapped_rows_train_to_the_same_bytes():
    for file, names in (classes(), ["train.txt", "test.txt"]), (ratings(), ["known.txt", "asked.txt"]):
        train(file, out="read")
        for _ in "made", "found":
            train(file, "data.mapped=true")
            assert content("out") == content("read")
            assert all(pathlib.Path(f"{name}.rows").is_file() for name in names)


@thorough
def test_what_is_wrong_with_a_file_is_said_with_its_place_and_mend():
    file = classes()
    without = write("without.toml", FILE.replace('file = "train.txt"\n', ""))
    refuse(without, says=["data.file is not set", "set it to"])
    refuse(file, "data.file=nowhere.txt", says=["nowhere.txt: no such file", "set data.file"])
    refuse(file, "data.test_file=nowhere.txt", says=["nowhere.txt: no such file", "set data.test_file"])
    refuse(file, "data.file=.", says=["not a regular file", "data.file"])
    write("broken.txt", "1 1:1\n-1 2;1\n")
    refuse(file, "data.file=broken.txt", says=["broken.txt:2:", "2;1", "instead of index:value"])
    refuse(file, "data.test_file=broken.txt", says=["broken.txt:2:"])
    write("three.txt", "1 1:1\n2 2:1\n\n3 3:1\n")
    refuse(file, "data.file=three.txt", says=["three.txt:4:", "label 3", "expected only 1 and 2"])
    write("one.txt", "1 1:1\n1 2:1\n")
    refuse(file, "data.file=one.txt", says=["one.txt:", "every label is 1", "expected two"])
    write("other.txt", "1 1:1\n0 2:1\n")
    refuse(file, "data.test_file=other.txt", says=["other.txt:2:", "label 0", "training set", "-1 and 1"])
    write("empty.txt", "# nothing\n\n")
    refuse(file, "data.file=empty.txt", says=["empty.txt:", "no samples"])
    write("bare.txt", "1\n-1\n")
    refuse(file, "data.file=bare.txt", "data.test_file=bare.txt", says=["bare.txt:", "no sample has an index"])
    write("user.txt", "0 0 1\n1 x 2\n")
    refuse(ratings(), "data.file=user.txt", says=["user.txt:2:", '"x"', "instead of the number of an item"])


def test_a_model_that_does_not_fit_the_data_is_refused():
    file = classes()
    refuse(file, "data.name=digits", says=["logistic", "does not fit", "digits", "requires sparse samples",
                                         'use for instance model.name = "convnet", "lenet" or "resnet20", or a data '
                                         "set of sparse rows in 2 classes"])
    refuse(file, "model.name=convnet", says=["convnet", "does not fit", "libsvm", "requires images",
                                            '; use model.name = "logistic" or "svm", or a data set of images of at '
                                            "least 16 x 16 pixels"])
    refuse(file, "model.name=mlp", says=["does not fit", "requires dense samples", '; use model.name = "logistic"'])
    refuse(file, "model.name=matrix_completion", says=["does not fit", "requires sparse ratings"])
    refuse(ratings(), "model.name=svm", says=["does not fit", "requires sparse samples"])


def test_nothing_is_said_of_how_sparse_tensors_are_made():
    for settings_of in ([], ["exchange.send=bucket"], ["optimizer.momentum=0.5"]):
        _, said = train(ratings(), "workers.count=2", *BEFORE[1::2], *settings_of)
        assert not said.stderr, said.stderr


def test_rows_are_not_scaled_like_images():
    refuse(classes(), "data.mean=[0.5]", "data.std=[0.5]", says=["data.mean", "libsvm", "remove both keys"])
    refuse(HOGWILD, "data.mean=[0.5]", "data.std=[0.5]", says=["data.mean", "sparse", "remove both keys"])


def test_no_accuracy_is_waited_for_where_there_is_none():
    refuse(ratings(), "evaluate.target_accuracy=0.9", says=["target_accuracy", "matrix_completion", "patience"])
    troupe("run", HOGWILD, "--out", "out", *settings("evaluate.target_accuracy=0.8"))
    assert metrics("out")[-1]["status"] == "stopped_early"


def test_patience_goes_by_the_loss_where_there_is_no_accuracy():
    troupe("run", ratings(), "--out", "out", *settings("evaluate.patience=2", "optimizer.lr=0", "run.epochs=50"))
    end = metrics("out")[-1]
    assert end["status"] == "stopped_early" and end["epoch"] == 3, end


def test_weights_are_begun_with_and_must_fit():
    file, other = classes(), ratings()
    end, _ = train(file, out="made")
    again, _ = train(file, "model.init=made/model.safetensors", "run.steps=0")
    assert close(again["val_loss"], end["val_loss"]) and content("out")[-4 * 30:] == content("made")[-4 * 30:], again
    train(other, out="factors")
    refuse(other, "model.init=made/model.safetensors", says=["made/model.safetensors", "not the weights of matrix_comp"])
    refuse(other, "model.init=factors/model.safetensors", "model.rank=3",
           says=["users.weight [20, 10] instead of [20, 3]"])
    refuse(HOGWILD, "model.init=made/model.safetensors", says=["weight [1, 30] instead of [1, 2000]"])


def test_eval_refuses_other_data_than_that_of_the_weights():
    train(classes())
    for given, words in ((["--data", "sparse"], ["samples of size 30", "data of the run"]),
                         (["--data", "digits"], ["does not fit"]), ([], ["data.file is not set"])):
        said = troupe("eval", "out/model.safetensors", *given, status=2).stderr
        assert all(word in said for word in words), said


def test_hogwild_learns_with_any_number_of_workers():
    for count in 1, 2, 3:
        for how in "", "exchange.atomic=true", "exchange.lock=true":
            end, _ = train(HOGWILD, f"workers.count={count}", "run.epochs=4", *([how] if how else []))
            assert end["val_accuracy"] > 0.88, (count, how, end)
            assert end["updates"] == count * end["step"] == sum(end["staleness_counts"]), end


def test_replicas_on_cores_are_averaged():
    end, said = train(HOGWILD, "exchange.replicas=core", 'exchange.every="500 steps"', "run.epochs=4")
    assert end["val_accuracy"] > 0.87 and end["bytes_sent"] > 0, end
    assert "workers share no memory" in said.stderr, said.stderr
    refuse(HOGWILD, "exchange.every=5", says=["every sets how often", 'use replicas = "node"'])


def test_replicas_on_one_numa_node_are_said_to_be_one():
    if len(list(pathlib.Path("/sys/devices/system/node").glob("node[0-9]*"))) > 1:
        return  # several memories
    _, said = train(HOGWILD, "exchange.replicas=node", "run.epochs=1")
    checked = troupe("check", HOGWILD, *settings("exchange.replicas=node")).stdout
    for text in said.stderr, checked:
        assert "one NUMA node" in text and "one shared memory" in text, text


def test_a_loss_that_is_not_finite_names_steps_and_worker():
    def fail(*pairs):
        said = troupe("run", ratings(), "--out", "out", "--overwrite", *settings("optimizer.lr=10", *pairs), status=1)
        found = re.search(r"the loss of worker (\d) in (.*) is not finite \((?:nan|inf)\): training diverged; reduce optimizer.lr",
                          said.stderr)
        assert found, said.stderr
        return found.group(2)

    assert fail() == "one of the steps 1 to 240"
    assert fail("workers.count=2") == "one of the steps 1 to 120"
    assert re.fullmatch(r"step \d+", fail("optimizer.momentum=0.5"))


def two_processes(text):
    return write("two.toml", text.replace("count = 1\n", "") + node_tables([1, 1]))


def test_two_processes_come_to_the_bytes_of_one():
    for file, text in (classes(), FILE), (ratings(), RATINGS):
        train(file, "workers.count=2", *BEFORE[1::2], out="one")
        for mapped in "false", "true":
            train(two_processes(text), f"data.mapped={mapped}", *BEFORE[1::2])
            assert content("out") == content("one")
    nothing_is_left()


def test_nodes_that_read_other_rows_do_not_train_together():
    rows = "1 1:1 2:0.5\n-1 3:1\n1 1:2 30:1\n"
    text = FILE.replace("count = 1\n", "") + node_tables([1, 1], free_ports(2))
    os.environ["TROUPE_SECRET"] = "5e" * 32  # without it, each folder has a secret of its own
    for folder in "here", "there":
        os.mkdir(folder)
        write(f"{folder}/two.toml", text)  # which names its samples relative to itself
        write(f"{folder}/test.txt", rows)
    write("here/train.txt", rows)
    for what, old, new in (("a column", " 2:", " 4:"), ("a value", ":0.5", ":0.75"), ("a label", "1 1:2", "-1 1:2"),
                           ("where a row ends", " 2:0.5\n-1", "\n-1 2:0.5")):
        write("there/train.txt", rows.replace(old, new))
        with background("node", "here/two.toml", "--name", "alpha", "--out", "out", name="alpha") as alpha:
            said = troupe("node", "there/two.toml", "--name", "beta", status=2).stderr
            assert "the samples of libsvm differ" in said, (what, said)
            assert "refused node beta" in alpha.said(), (what, alpha)
    del os.environ["TROUPE_SECRET"]


def test_two_processes_share_a_memory():
    text = re.sub(r"(?m)^count *=.*\n", "", HOGWILD.read_text()) + node_tables([2, 1])
    end, _ = train(write("two.toml", text), "run.epochs=4")
    assert end["val_accuracy"] > 0.88 and end["updates"] == 3 * end["step"], end
    nothing_is_left()


def test_ctrl_c_ends_hogwild_with_130_and_weights():
    for how in "exchange.atomic=false", "exchange.lock=true":
        out = how.split("=")[0]
        with background("run", HOGWILD, "--out", out, *settings("run.epochs=1000000", how)) as run:
            run.until_trained(out)
            run.process.send_signal(signal.SIGINT)
            seconds = run.wait(130)
            assert seconds < 3, f"took {seconds:.1f} s"
        assert metrics(out)[-1]["event"] == "end" and metrics(out)[-1]["step"] > 0
        same = settings("data.rows=50000", "data.columns=2000", "data.nonzeros=20")
        assert "accuracy" in troupe("eval", f"{out}/model.safetensors", *same).stdout


main(globals())
