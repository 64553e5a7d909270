"""`troupe compare`: its files, recomputed from the raw metrics of the runs by code of this script; comparisons that are
interrupted, continued, extended and simulated; and what is refused."""

import csv
import html.parser
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import time
import xml.etree.ElementTree

from troupe_command import BINARY, TINY, main, metrics, troupe, write

COLUMNS = ("file,repeat,seed,status,seconds,samples,updates,bytes_sent,final_accuracy,best_accuracy,seconds_to_target,"
           "staleness_mean,idle_share").split(",")
EVALUATED = TINY + "[evaluate]\nevery = 10\n"
STAR = EVALUATED.replace("all_reduce", "star")
SERVER = EVALUATED.replace('"exchange", "apply"', '"exchange"').replace(
    '"all_reduce"', '"parameter_server"\nsends = "gradient"\napply = "each"')
TARGET = 0.3


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def number(text):
    return None if text == "" else float(text)


def recomputed(folder, target):
    """Returns what a row of compare.csv must hold, from the lines that the run has written."""
    lines = metrics(folder)
    end = lines[-1]
    assert end["event"] == "end", end
    accuracies = [(line["val_accuracy"], line["seconds"]) for line in lines
                  if line["event"] == "evaluation" and line["val_accuracy"] is not None]
    workers = rows_of(pathlib.Path(folder, "workers.csv"))
    waited = sum(float(worker["exchange_wait_seconds"]) for worker in workers) / len(workers)
    return {"status": end["status"], "seconds": end["seconds"], "updates": end["updates"],
            "bytes_sent": end["bytes_sent"], "final_accuracy": end["val_accuracy"],
            "best_accuracy": max(accuracies)[0],
            "seconds_to_target": next((seconds for accuracy, seconds in accuracies if accuracy >= target), None),
            "staleness_mean": end["staleness_mean"], "samples": sum(int(worker["samples"]) for worker in workers),
            "idle_share": waited / end["train_seconds"]}


def check_rows(out, repeats, target, batch=8, workers=2, steps=20, first_seed=1):
    rows = rows_of(f"{out}/compare.csv")
    assert list(rows[0]) == COLUMNS, rows[0]
    for row in rows:
        stem = pathlib.Path(row["file"].split()[0]).stem
        assert int(row["seed"]) == first_seed + int(row["repeat"]) - 1, row
        folder, = pathlib.Path(out, "runs").glob(f"{stem}*/seed-{row['seed']}")
        for key, wanted in recomputed(folder, target).items():
            assert (row[key] if key == "status" else number(row[key])) == wanted, (key, row, wanted)
        assert int(row["samples"]) == batch * workers * steps, row
    assert len(rows) % repeats == 0, rows
    return rows


def check_curves(out, rows):
    """Every evaluation of every run is a point of curves.csv, and nothing else is."""
    points = rows_of(f"{out}/curves.csv")
    for row in rows:
        mine = [point for point in points if (point["file"], point["repeat"]) == (row["file"], row["repeat"])]
        stem = pathlib.Path(row["file"].split()[0]).stem
        folder, = pathlib.Path(out, "runs").glob(f"{stem}*/seed-{row['seed']}")
        lines = {line["step"]: line for line in reversed(metrics(folder)) if line["event"] in ("evaluation", "epoch")}
        assert [int(point["step"]) for point in mine] == sorted(lines), mine
        for point in mine:
            line = lines[int(point["step"])]
            for key in ("updates", "seconds", "train_seconds", "bytes_sent", "train_loss", "val_loss", "val_accuracy"):
                assert number(point[key]) == line[key], (key, point, line)
            assert int(point["samples"]) == 16 * int(point["step"]), point


class Page(html.parser.HTMLParser):
    """Collects what a page would load, and its figures."""

    def __init__(self):
        super().__init__()
        self.loads, self.figures, self.points, self.data, self.in_data = [], 0, [], "", False

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        for key in ("src", "href", "srcset", "data", "action", "poster"):
            if key in given:
                self.loads.append((tag, given[key]))
        self.figures += given.get("class") == "figure"
        self.points += json.loads(given.get("data-points", "[]"))
        self.in_data = given.get("id") == "data"

    def handle_data(self, data):
        if self.in_data:
            self.data += data

    def handle_endtag(self, tag):
        self.in_data = False


def check_page(out):
    text = pathlib.Path(out, "compare.html").read_text()
    page = Page()
    page.feed(text)
    assert all(target.startswith("data:image/svg+xml;base64,") for _, target in page.loads), page.loads
    assert not re.search(r"@import|url\(|https?://(?!www\.w3\.org/)", text), "the page loads nothing"
    assert page.figures >= 16 and page.points, page.figures
    assert "{{" not in text
    return json.loads(page.data)


def check_markdown(out):
    text = pathlib.Path(out, "compare.md").read_text()
    shown = re.findall(r"\]\(([^)]+)\)", text)
    assert len(shown) > 10
    for path in shown:
        content = pathlib.Path(out, path).read_text()
        if path.endswith(".svg"):
            xml.etree.ElementTree.fromstring(content)
    return text


def test_the_figures_are_those_of_the_raw_metrics():
    write("star.toml", STAR)
    write("server.toml", SERVER)
    asked = ["compare", "star.toml", "server.toml", "--repeat", 2, "--target", TARGET, "--out", "out"]
    said = troupe(*asked, "--json")
    rows = check_rows("out", 2, TARGET)
    assert [row["file"] for row in rows] == ["star.toml", "star.toml", "server.toml", "server.toml"], rows
    assert {row["staleness_mean"] == "" for row in rows[:2]} == {True} and rows[2]["staleness_mean"] != "", rows
    check_curves("out", rows)
    assert said.stderr.count("run ") == 4 and " left" in said.stderr, said.stderr
    found = json.loads(said.stdout)
    assert check_page("out")["results"] == found
    for variant in found["variants"]:
        mine = [row for row in rows if row["file"] == variant["file"]]
        for key in ("seconds", "bytes_sent", "final_accuracy"):
            values = [float(row[key]) for row in mine]
            assert variant[key] == {"median": statistics.median(values), "lowest": min(values),
                                    "highest": max(values)}, (key, variant)
    text = check_markdown("out")
    assert "exchange.0.kind" in text and "run.seed" not in text and "model.name" not in text, text
    assert "Best final accuracy" in found["conclusion"] and "2 repeats" in found["conclusion"], found["conclusion"]


def test_equal_seeds_give_the_weights_of_troupe_run():
    write("star.toml", STAR)
    troupe("compare", "star.toml", "--out", "out", "--quiet")
    troupe("run", "star.toml", "--out", "alone")
    assert pathlib.Path("out/runs/star/seed-1/model.safetensors").read_bytes() == \
        pathlib.Path("alone/model.safetensors").read_bytes()


def test_varied_settings_make_a_grid_whose_rows_name_them():
    write("star.toml", STAR)
    troupe("compare", "star.toml", "--vary", "optimizer.lr=0.01,0.1", "--vary", "data.batch_size=4,8", "--set",
           "run.steps=4", "--out", "out")
    rows = rows_of("out/compare.csv")
    assert [row["file"] for row in rows] == [f"star.toml optimizer.lr={lr} data.batch_size={size}"
                                             for lr in ("0.01", "0.1") for size in ("4", "8")], rows
    assert [int(row["samples"]) for row in rows] == [32, 64, 32, 64], rows
    settings = json.loads(troupe("compare", "--resume", "out", "--json").stdout)["settings_that_differ"]
    assert set(settings) == {"optimizer.lr", "data.batch_size"}, settings


def test_a_simulated_comparison_repeats_itself():
    write("star.toml", STAR)
    write("server.toml", SERVER)
    asked = ["compare", "star.toml", "server.toml", "--simulate", "--set", "simulate.gradient=5ms", "--set", "link.at=*",
             "--set", "link.bandwidth=50Mbit/s", "--repeat", 2, "--target", TARGET]
    troupe(*asked, "--out", "one")
    troupe(*asked, "--out", "two")
    for name in ("compare.csv", "curves.csv"):
        assert pathlib.Path("one", name).read_bytes() == pathlib.Path("two", name).read_bytes(), name
    rows = check_rows("one", 2, TARGET)
    assert "virtual" in check_markdown("one")
    # A gradient has 5 ms; without a network, 20 steps would take little more than 100 ms.
    assert all(float(row["seconds"]) > 0.2 for row in rows), rows


def test_the_time_of_a_gradient_is_measured_once_for_all():
    write("star.toml", STAR)
    write("reduce.toml", EVALUATED)
    troupe("compare", "star.toml", "reduce.toml", "--simulate", "--out", "out")
    times = {re.search(r'gradient += "(.*)"', path.read_text())[1] for path in pathlib.Path("out/topologies").iterdir()}
    assert len(times) == 1 and times != {"measure"}, times


def interrupted(out):
    """Leaves a comparison that was interrupted in its second run."""
    process = subprocess.Popen([BINARY, "compare", "star.toml", "slow.toml", "--out", out], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 100
    while not pathlib.Path(out, "runs/slow/seed-1/metrics.jsonl").exists():
        assert time.monotonic() < deadline and process.poll() is None, process.communicate()
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)
    assert process.returncode == 130, (process.returncode, said)
    return said


def test_an_interrupted_comparison_is_continued_and_finished_runs_are_kept():
    write("star.toml", STAR)
    write("slow.toml", STAR.replace("steps = 20", "steps = 100000"))
    said = interrupted("out")
    assert "continue with: troupe compare --resume out" in said[1], said
    rows = rows_of("out/compare.csv")
    assert [row["status"] for row in rows] == ["done"], (rows, said)
    kept = os.stat("out/runs/star/seed-1/metrics.jsonl").st_mtime_ns
    # The files are not needed any more, and their changes have no effect.
    os.remove("star.toml")
    text = pathlib.Path("out/topologies/slow.toml").read_text()
    pathlib.Path("out/topologies/slow.toml").write_text(re.sub("steps( *)= 100000", r"steps\1= 20", text))
    said = troupe("compare", "--resume", "out").stdout
    assert "run 1 of 1  slow" in said, said
    assert os.stat("out/runs/star/seed-1/metrics.jsonl").st_mtime_ns == kept
    check_rows("out", 1, 2)
    troupe("compare", "--resume", "out", "--repeat", 2, "--target", TARGET)
    assert os.stat("out/runs/star/seed-1/metrics.jsonl").st_mtime_ns == kept
    assert len(check_rows("out", 2, TARGET)) == 4


def test_a_failed_run_is_reported_and_does_not_end_the_comparison():
    write("star.toml", STAR)
    write("wild.toml", STAR.replace("lr = 0.05", "lr = 1e6"))
    said = troupe("compare", "wild.toml", "star.toml", "--out", "out", status=1)
    assert "1 run of the comparison failed" in said.stderr and "--resume out" in said.stderr, said
    assert "not finite" in said.stdout, said.stdout
    assert [row["status"] for row in rows_of("out/compare.csv")] == ["failed", "done"]
    check_page("out")
    assert "failed" in check_markdown("out")


def test_a_folder_stands_for_its_files():
    pathlib.Path("some").mkdir()
    write("some/b.toml", STAR)
    write("some/a.toml", EVALUATED)
    troupe("compare", "some", "--set", "run.steps=2", "--out", "out", "--quiet")
    assert [row["file"] for row in rows_of("out/compare.csv")] == ["some/a.toml", "some/b.toml"]


def test_mistakes_are_found_before_anything_runs():
    write("star.toml", STAR)
    write("bad.toml", STAR.replace("star", "stra"))
    pathlib.Path("empty").mkdir()
    for asked, says in ((["star.toml", "bad.toml"], 'did you mean "star"'),
                        (["star.toml", "star.toml"], "is given twice"),
                        (["star.toml", "--vary", "optimizer.lr"], "has no values"),
                        (["star.toml", "--vary", "run.seed=1,2"], "use --repeat"),
                        (["star.toml", "--vary", "optimizer.lrr=1,2"], "--vary optimizer.lrr=1:"),
                        (["star.toml", "--target", "97"], "--target"),
                        (["empty"], "contains no .toml file"),
                        ([], "no topology file"),
                        (["--resume", "nowhere"], "does not contain a comparison")):
        said = troupe("compare", *asked, *([] if "--resume" in asked else ["--out", "out"]), status=2).stderr
        assert says in said, (asked, said)
        assert not pathlib.Path("out/runs").exists() and not pathlib.Path("nowhere").exists()
    troupe("compare", "star.toml", "--set", "run.steps=2", "--out", "out", "--quiet")
    assert "--overwrite" in troupe("compare", "star.toml", "--out", "out", status=2).stderr
    changed = troupe("compare", "star.toml", "--resume", "out", status=2).stderr
    assert "run.steps of star has changed" in changed, changed
    troupe("compare", "star.toml", "--set", "run.steps=2", "--resume", "out", "--quiet")
    troupe("compare", "star.toml", "--out", "out", "--overwrite", "--quiet")
    assert len(rows_of("out/compare.csv")) == 1


main(globals())
