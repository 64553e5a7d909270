"""What --out and -o may touch: files that Troupe has not written are neither removed nor replaced unless that is said, and
neither are the results of a run that has not ended well."""

import os
import pathlib
import shutil
import subprocess
import time

from nodes import background, free_ports, node_tables
from troupe_command import BINARY, TINY, main, metrics, troupe, write

OUTPUTS = ("report.html", "trace.json", "links.csv", "deliveries.bin", "workers.csv", "topology.toml", "recorded_from/notes",
           "epochs.csv.tmp", ".writable", "copy/notes", "links-b.csv")


def mine(folder, names):
    """Fills a folder with files of a user, and returns what it then contains."""
    for name in names:
        path = pathlib.Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
    return contents(folder)


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes()
            for path in pathlib.Path(folder).rglob("*") if path.is_file() and not path.is_symlink()}


def killed(out, *settings):
    """Leaves a run that was killed after its first evaluation."""
    with subprocess.Popen([BINARY, "run", "tiny.toml", "--out", out, "--quiet", "--set", "run.steps=10000000",
                           "--set", "evaluate.every=5", *settings]) as run:
        while not pathlib.Path(out, "model_best.safetensors").exists():
            assert run.poll() is None, "the run ended before it was killed"
            time.sleep(0.01)
        run.kill()


def test_files_of_others_are_kept():
    tiny = write("tiny.toml", TINY)
    nodes = write("nodes.toml", TINY.replace("count = 2\n", "") + '[[node]]\nname = "a"\n[[node]]\nname = "b"\n'
                  '[[link]]\nat = "w0"\nlatency = "1us"\n')
    troupe("run", tiny, "--record", "--out", "recorded")
    before = mine("exp", OUTPUTS)
    for command in (["run", tiny], ["run", nodes, "--trace"], ["simulate", tiny], ["replay", "recorded"]):
        said = troupe(*command, "--out", "exp", status=2).stderr
        assert "exp: the folder is not that of a run: it contains " in said and "--overwrite" in said, said
        assert contents("exp") == before, (command, said)
    said = troupe("compare", tiny, "--out", "exp", status=2).stderr
    assert "exp: the folder is not that of a comparison" in said, said
    assert contents("exp") == before
    troupe("run", tiny, "--out", "exp", "--overwrite")
    kept = {name for name, text in contents("exp").items() if text == b"mine"}
    assert kept == {"recorded_from/notes", "epochs.csv.tmp", ".writable", "copy/notes", "links-b.csv"}, kept
    troupe("run", tiny, "--out", "exp", "--overwrite", "--set", "run.seed=2")
    assert {name for name, text in contents("exp").items() if text == b"mine"} == kept


def test_folders_that_people_have():
    tiny = write("tiny.toml", TINY)
    pathlib.Path("checkout/.git").mkdir(parents=True)
    write("checkout/.git/HEAD", "ref: refs/heads/main\n")
    for folder, names in {"checkout": ["README.md"], "home": [".profile"], "data/digits": ["train.csv"],
                          "topologies": ["topology.toml"], "copied": ["topology.toml"]}.items():
        before = mine(folder, names)
        troupe("run", tiny, "--out", folder, status=2)
        assert contents(folder) == before, folder
    # A topology that a run has written makes no run of the folder into which it was copied.
    troupe("run", tiny, "--out", "run", "--quiet")
    shutil.copy("run/topology.toml", "copied/topology.toml")
    said = troupe("run", "copied/topology.toml", "--out", "copied", status=2).stderr
    assert "copied: " in said and contents("copied").keys() == {"topology.toml"}, said
    os.symlink("run", "link")
    assert "finished run" in troupe("run", tiny, "--out", "link", status=2).stderr
    os.symlink("nowhere", "broken")
    assert "it is a link" in troupe("run", tiny, "--out", "broken", status=2).stderr
    said = troupe("run", tiny, "--out", "run", "--overwrite", "--set", "model.init=link/model.safetensors", status=2).stderr
    assert "the run reads " in said and "would be overwritten" in said, said
    pathlib.Path("disk/lost+found").mkdir(parents=True)
    troupe("run", tiny, "--out", "disk", "--quiet")


def test_results_of_a_run_that_was_killed_are_kept():
    write("tiny.toml", TINY)
    killed("out")
    before = contents("out")
    said = troupe("run", "tiny.toml", "--out", "out", status=2).stderr
    assert "but with model_best.safetensors; replace it with --overwrite" in said and "--resume" not in said, said
    assert contents("out") == before
    killed("saved", "--set", "checkpoint.every=5")
    while not list(pathlib.Path("saved/checkpoints").glob("step-*")):  # it was killed too early
        shutil.rmtree("saved")
        killed("saved", "--set", "checkpoint.every=5", "--set", "evaluate.every=10")
    before = contents("saved")
    said = troupe("run", "tiny.toml", "--out", "saved", status=2).stderr
    assert "continue it with --resume saved, replace it with --overwrite" in said, said
    assert contents("saved") == before
    troupe("run", "tiny.toml", "--out", "out", "--overwrite", "--quiet")
    assert metrics("out")[-1]["status"] == "done"


def test_a_run_that_ended_before_any_result_is_replaced():
    file = write("tiny.toml", TINY)
    said = troupe("run", file, "--out", "out", "--set", "optimizer.lr=1000000", status=1)
    assert metrics("out")[-1]["status"] == "failed", said.stderr
    mine("out", ["notes.txt"])
    troupe("run", file, "--out", "out", "--quiet")
    assert pathlib.Path("out/notes.txt").read_text() == "mine"
    nodes = write("nodes.toml", TINY.replace("count = 2\n", "") + '[[node]]\nname = "a"\n[[node]]\nname = "b"\n')
    troupe("run", nodes, "--out", "never", "--csv", "out/epochs.csv", status=2)
    assert not pathlib.Path("never").exists(), "a run that never began leaves nothing"


def test_a_comparison_keeps_what_is_not_of_it():
    write("tiny.toml", TINY)
    troupe("compare", "tiny.toml", "--out", ".", status=2)  # tiny.toml itself is there
    troupe("compare", "tiny.toml", "--out", "here", "--quiet")
    troupe("run", "tiny.toml", "--out", "here/runs/of_mine", "--quiet")
    own = {"here/runs/of_mine", "here/pictures/mine.svg", "here/notes.txt", "here/runs/tiny/seed-1/notes.txt"}
    for name in own - {"here/runs/of_mine"}:
        pathlib.Path(name).write_text("mine")
    troupe("compare", "tiny.toml", "--out", "here", "--overwrite", "--quiet", "--set", "run.steps=2")
    assert all(pathlib.Path(name).exists() for name in own), [name for name in own if not pathlib.Path(name).exists()]
    assert metrics("here/runs/tiny/seed-1")[-1]["step"] == 2
    pathlib.Path("foreign/runs").mkdir(parents=True)
    pathlib.Path("foreign/comparison.json").write_text('{"mine": true}')
    said = troupe("compare", "tiny.toml", "--out", "foreign", "--overwrite", status=2).stderr
    assert "foreign/comparison.json: not the description of a comparison" in said, said
    # The folder of a run has a topology file, but it is not meant.
    said = troupe("compare", "here/runs/of_mine", "--out", "other", status=2).stderr
    assert "contains the results of a run" in said and "topology.toml" in said, said
    said = troupe("compare", "here", "--out", "other", status=2).stderr
    assert "continue it with --resume here" in said and not pathlib.Path("other").exists(), said


def test_a_drawing_replaces_only_a_drawing():
    file = write("tiny.toml", TINY)
    for name in ("wiring.svg", "wiring.dot"):
        for _ in range(2):
            troupe("graph", file, "-o", name)
        assert "<!-- Drawn by troupe graph -->" in pathlib.Path(name).read_text() or name.endswith("dot")
        mine(".", [name])
        said = troupe("graph", file, "-o", name, status=2).stderr
        assert f"{name}: there is a file of this name" in said and "--overwrite" in said, said
        assert pathlib.Path(name).read_text() == "mine"
        troupe("graph", file, "-o", name, "--overwrite")
        assert pathlib.Path(name).read_text() != "mine"
    mine(".", ["other.svg.tmp"])
    troupe("graph", file, "-o", "other.svg")
    assert pathlib.Path("other.svg.tmp").read_text() == "mine"


def test_no_output_replaces_a_pipe_or_what_it_was_made_from():
    file = write("tiny.toml", TINY)
    for ending in (".txt", ".svg"):
        os.mkfifo("pipe" + ending)
        os.symlink("pipe" + ending, "link" + ending)
        for name in ("pipe" + ending, "link" + ending):
            asked = [("graph", file, "-o", name)] if ending == ".svg" else \
                [("run", file, "--csv", name, "--out", "out"), ("run", file, "--epoch-log", name, "--out", "out")]
            for more in ((), ("--overwrite",)):
                for words in asked:
                    said = troupe(*words, *more, status=2).stderr
                    assert f"{name}: this is a pipe, not a regular file; choose another" in said, said
            assert pathlib.Path(name).is_fifo() and not pathlib.Path("out").exists()
    shutil.copy(file, "tiny.svg")
    said = troupe("graph", "tiny.svg", "-o", "tiny.svg", "--overwrite", status=2).stderr
    assert "tiny.svg: this is the topology file itself" in said and pathlib.Path("tiny.svg").read_text() == TINY, said


def test_a_run_that_cannot_be_replaced_stays_whole():
    file = write("tiny.toml", TINY)
    troupe("run", file, "--out", "out")
    mine("out/trace.json", ["of_mine"])
    before = contents("out")
    said = troupe("run", file, "--out", "out", "--overwrite", status=2).stderr
    assert "trace.json is a folder with files, where a run writes a file; move it away" in said, said
    assert contents("out") == before
    shutil.rmtree("out/trace.json")
    before = contents("out")
    os.mkfifo("pipe")
    troupe("run", file, "--out", "out", "--overwrite", "--csv", "pipe", status=2)
    assert contents("out") == before


def test_nodes_started_by_hand_share_a_folder_or_are_refused():
    ports = free_ports(2)
    write("hand.toml", TINY.replace("count = 2\n", "") + node_tables([1, 1], ports, ["a", "b"]))
    before = mine("mine", ["trace-b.json"])
    said = troupe("node", "hand.toml", "--name", "b", "--trace", "--out", "mine", status=2).stderr
    assert "mine: the folder is not that of a run" in said and contents("mine") == before, said
    with background("node", "hand.toml", "--name", "b", "--trace", "--out", "out", name="b"):
        troupe("node", "hand.toml", "--name", "a", "--trace", "--out", "out")
    assert pathlib.Path("out/model.safetensors").exists()


main(globals())
