"""`troupe tune`: what it tries, what it writes, that its answer can be run as it is, and that a search continues."""

import csv
import json
import pathlib
import signal
import subprocess
import time
import tomllib

from troupe_command import BINARY, TINY, main, thorough, troupe, write

# A logistic regression whose gradient takes 5 ms, so that what the network costs is the same on any machine.
SMALL = """
[run]
seed = 1
steps = 400
[model]
name = "logistic"
[data]
name = "sparse"
rows = 2000
columns = 999
nonzeros = 5
batch_size = 4
[optimizer]
lr = 0.5
[evaluate]
every = "40 steps"
[workers]
count = 2
loop = ["gradient", "exchange", "apply"]
[exchange]
kind = "all_reduce"
[simulate]
gradient = "5ms"
"""


def rows_in(folder):
    with open(pathlib.Path(folder, "tune.csv"), newline="") as file:
        return list(csv.DictReader(file))


def test_on_a_slow_network_the_answer_sends_less_and_can_be_run():
    file = write("small.toml", SMALL)
    said = troupe("tune", file, "--link", "100kbit/s,10ms", "--target", "0.6", "--budget", "30s", "--out", "slow").stdout
    print("  " + "\n  ".join(said.splitlines()))
    rows = rows_in("slow")
    assert list(rows[0]) == ["settings", "seconds_per_step", "megabytes_per_worker", "predicted_seconds_to_target",
                             "accuracy", "seed", "kind"], rows[0]
    best, given = rows[0], next(row for row in rows if not row["settings"])
    assert best["kind"] == "curve" and float(best["seconds_per_step"]) < float(given["seconds_per_step"]) / 2, best
    assert float(best["megabytes_per_worker"]) < float(given["megabytes_per_worker"]), best
    assert float(best["predicted_seconds_to_target"]) > 0 and float(best["accuracy"]) >= 0.6, best
    assert {row["kind"] for row in rows} == {"curve", "timing"}, rows
    plan = troupe("check", "slow/best.toml").stdout
    assert "100kbit/s" in plan, plan
    text = pathlib.Path("slow/best.toml").read_text()
    assert "real" in text and 'gradient = "5ms"' in text, text
    troupe("run", "slow/best.toml", "--set", "run.steps=20", "--out", "run", "--quiet")
    page = pathlib.Path("slow/tune.html").read_text()
    assert "{{" not in page and "Use " in page and "<svg" in page
    for name in ("tune.md", "tune.html"):
        assert "measured on this model and these data only" in pathlib.Path("slow", name).read_text(), name


def test_on_a_fast_network_nothing_that_sends_less_is_tried():
    file = write("small.toml", SMALL)
    troupe("tune", file, "--link", "10Gbit/s", "--target", "0.6", "--budget", "20s", "--out", "fast", "--quiet")
    rows = rows_in("fast")
    tried = {row["settings"] for row in rows if row["kind"] == "curve"}
    assert tried == {""}, tried  # the exact average of the file itself
    assert "no faster per step than" in pathlib.Path("fast/tune.md").read_text()


def test_vary_names_what_is_tried():
    file = write("small.toml", SMALL.replace('kind = "all_reduce"', 'kind = "all_reduce"\nsends = "parameters"').replace(
        '"exchange", "apply"', '"apply", "exchange"'))
    write("home.toml", '[[link]]\nat = "w0"\nbandwidth = "1Mbit/s"\nlatency = "5ms"\n[workers]\nslowdown = [1, 2]\n')
    troupe("tune", file, "--links", "home.toml", "--vary", "exchange.every=2,16", "--budget", "20s", "--out", "varied",
           "--quiet")
    assert {row["settings"] for row in rows_in("varied")} == {"exchange.every=2", "exchange.every=16"}
    assert "slowdown" in pathlib.Path("varied/best.toml").read_text()


@thorough
def test_an_interrupted_search_continues_with_what_it_has():
    file = write("small.toml", SMALL.replace("rows = 2000", "rows = 20000"))
    with subprocess.Popen([BINARY, "tune", file, "--link", "100kbit/s,10ms", "--budget", "40s", "--out", "out"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as search:
        while not list(pathlib.Path().glob("out/runs/*/seed-*/metrics.jsonl")):
            time.sleep(0.05)
            assert search.poll() is None, search.stderr.read()
        search.send_signal(signal.SIGINT)
        _, said = search.communicate(timeout=60)
        assert search.returncode == 130 and "tune --resume out" in said, said
    done = {path: path.stat().st_mtime_ns for path in pathlib.Path().glob("out/runs/*/seed-*/metrics.jsonl")
            if '"event":"end"' in path.read_text() and '"interrupted"' not in path.read_text()}
    troupe("tune", "--resume", "out", "--quiet")
    assert all(path.stat().st_mtime_ns == at for path, at in done.items())
    assert json.loads(pathlib.Path("out/tune.json").read_text())["budget"] == 40
    assert "interrupted" not in pathlib.Path("out/tune.md").read_text()
    write("out/of_mine.txt", "kept")
    assert "--resume" in troupe("tune", file, "--link", "1Mbit/s", "--out", "out", status=2).stderr
    troupe("tune", file, "--link", "1Mbit/s", "--vary", "exchange.kind=all_reduce", "--budget", "20s", "--out", "out",
           "--overwrite", "--quiet")
    assert len(rows_in("out")) >= 1 and pathlib.Path("out/of_mine.txt").exists()


def test_mistakes_are_named_before_anything_runs():
    file = write("tiny.toml", TINY)
    for words, why in {
            (): "describes no network; give its bandwidth and latency with --link",
            ("--link", "fast"): '--link is "fast"; expected a bandwidth',
            ("--link", "1Mbit/s", "--budget", "soon"): '--budget is "soon"; expected a duration',
            ("--link", "1Mbit/s", "--target", "95"): "number from 0 to 1",
            ("--link", "1Mbit/s", "--vary", "exchange.every"): "has no values",
            ("--link", "1Mbit/s", "--vary", "exchange.evry=1,2"): '--vary exchange.evry=1: [exchange] has no key "evry"',
            ("--links", "none.toml"): "none.toml",
            ("--link", "1Mbit/s", "--target", "nan"): "from 0 to 1",
            ("--probe", "beta"): '--probe is "beta"; expected an address and a port',
            ("--probe", "127.0.0.1:1"): "(Connection refused); run `troupe tune --listen 127.0.0.1:1` on that machine",
            ("--probe", "127.0.0.1:1", "--link", "1Mbit/s"): "--link",
    }.items():
        said = troupe("tune", file, *words, "--out", "out", status=2).stderr
        assert why in said, said
        assert not pathlib.Path("out/runs").exists()
    said = troupe("tune", file, "--link", "1Mbit/s", "--budget", "1ms", "--out", "short", status=1).stdout
    assert "the budget of 0.00100 s is too short" in said, said
    troupe("tune", file, "--link", "1Mbit/s", "--budget", "1ms", "--out", "blocked", "--set", "workers.device=cuda", status=1)
    assert tomllib.loads(pathlib.Path("blocked/best.toml").read_text())["workers"]["device"] == "cuda"
    write("blocked/runs", "")
    words = ["tune", file, "--link", "1Mbit/s", "--vary", "exchange.every=1", "--budget", "60s", "--out", "blocked", "--overwrite"]
    assert "blocked/runs" in troupe(*words, status=2).stderr
    assert "does not contain a search" in troupe("tune", "--resume", ".", status=2).stderr
    assert "no topology file is given" in troupe("tune", status=2).stderr
    pathlib.Path("mine").mkdir()
    write("mine/file.txt", "")
    assert "mine" in troupe("tune", file, "--link", "1Mbit/s", "--out", "mine", status=2).stderr


main(globals())
