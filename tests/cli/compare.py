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

from troupe_command import BINARY, TINY, main, metrics, thorough, troupe, write

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
            at_step, in_all = 16 * int(point["step"]), 16 * 20
            # Workers of an asynchronous server may be ahead of the step that all of them have reached.
            most = in_all if stem == "server" else at_step
            assert at_step <= int(point["samples"]) <= most, point


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
    assert page.figures >= 24 and page.points, page.figures
    assert "no values" not in text
    assert "{{" not in text
    return json.loads(page.data)


def check_markdown(out):
    text = pathlib.Path(out, "compare.md").read_text()
    shown = re.findall(r"(?<!\\)\]\(([^)]+)\)", text)
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
    assert "exchange.kind" in text and "run.seed" not in text and "model.name" not in text, text
    assert "exchange.apply" in text and "bucket" not in text and "exchange.0" not in text, text
    assert re.search(r"\nTroupe [^,]+, LibTorch [^;]+; CPU [^;]+; cores \d+\.\n", text), text
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


@thorough
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


def stopped(out, how):
    """Leaves a comparison that a signal has ended in its second run. Returns its exit status and what it said."""
    process = subprocess.Popen([BINARY, "compare", "star.toml", "slow.toml", "--out", out], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 100
    while not pathlib.Path(out, "runs/slow/seed-1/metrics.jsonl").exists():
        assert time.monotonic() < deadline and process.poll() is None, process.communicate()
        time.sleep(0.02)
    process.send_signal(how)
    said = process.communicate(timeout=60)
    return process.returncode, *said


@thorough
def test_an_interrupted_comparison_is_continued_and_finished_runs_are_kept():
    write("star.toml", STAR)
    write("slow.toml", STAR.replace("steps = 20", "steps = 100000"))
    status, *said = stopped("out", signal.SIGINT)
    assert status == 130 and f"continue with: {BINARY} compare --resume out" in said[1], (status, said)
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


def command_lines():
    """Yields those of all processes."""
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield path.read_bytes()
        except OSError:  # it has ended
            pass


def test_a_comparison_that_is_killed_leaves_no_run_behind_and_can_be_continued():
    write("star.toml", STAR)
    write("slow.toml", STAR.replace("steps = 20", "steps = 100000"))
    assert stopped("out", signal.SIGKILL)[0] == -signal.SIGKILL
    runs = str(pathlib.Path("out/runs").resolve()).encode()
    deadline = time.monotonic() + 20
    while any(runs in each for each in command_lines()):
        assert time.monotonic() < deadline, "the run that was killed goes on"
        time.sleep(0.02)
    text = pathlib.Path("out/topologies/slow.toml").read_text()
    pathlib.Path("out/topologies/slow.toml").write_text(re.sub("steps( *)= 100000", r"steps\1= 20", text))
    said = troupe("compare", "--resume", "out").stdout
    assert "run 1 of 1  slow" in said, said
    check_rows("out", 1, 2)


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


def test_settings_of_a_simulation_are_settings_of_a_comparison():
    write("star.toml", STAR)
    asked = ["star.toml", "--simulate", "--vary", "simulate.cores=1,2", "--set", "run.steps=2", "--set", "evaluate.every=2"]
    troupe("compare", *asked, "--out", "out", "--quiet")
    page = pathlib.Path("out/compare.md").read_text()
    assert "simulate.cores" in page and "same settings" not in page, page
    gradients = {re.search(r"^gradient = (.*)$", file.read_text(), re.MULTILINE)[1]
                 for file in pathlib.Path("out/topologies").iterdir()}
    assert len(gradients) == 1 and '"measure"' not in gradients, gradients  # both measure two workers at a time
    troupe("compare", *asked, "--resume", "out", "--quiet")
    said = troupe("compare", *asked, "--set", "simulate.jitter=0.3", "--resume", "out", status=2).stderr
    assert "simulate.jitter of star, cores=1 has changed" in said, said


@thorough
def test_mistakes_are_found_before_anything_runs():
    write("star.toml", STAR)
    write("bad.toml", STAR.replace("star", "stra"))
    pathlib.Path("empty").mkdir()
    hundreds = []
    for key in "optimizer.lr", "optimizer.momentum", "data.validation", "optimizer.weight_decay", "model.width":
        hundreds += ["--vary", key + "=" + ",".join(f"0.{i:03}" for i in range(100))]
    for asked, says in ((["star.toml", "bad.toml"], 'did you mean "star"'),
                        (["star.toml", "star.toml"], "is given twice"),
                        (["star.toml", "--vary", "optimizer.lr"], "has no values"),
                        (["star.toml", "--vary", "run.seed=1,2"], "use --repeat"),
                        (["star.toml", "--vary", "optimizer.lr=1", "--vary", "optimizer.lr=2"],
                         "--vary optimizer.lr is given twice; expected all its values in one"),
                        (["star.toml", "--set", "link.at=w9", "--set", "link.latency=1ms"], "star.toml"),
                        (["star.toml", "--vary", "optimizer.lrr=1,2"], "--vary optimizer.lrr=1:"),
                        (["star.toml", "--target", "97"], '--target is "97"; expected a number from 0 to 1;'),
                        (["star.toml", "--target", "nan"], '--target is "nan"; expected a number from 0 to 1'),
                        (["star.toml", *hundreds], "100 of model.width are too many variants; expected at most 10,000"),
                        (["star.toml"] * 2 + ["--vary", "run.steps=" + ",".join(map(str, range(5001)))],
                         "2 files × 5,001 of run.steps are too many variants; expected at most 10,000"),
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


def test_a_comparison_removes_nothing_but_an_earlier_comparison():
    write("star.toml", STAR)
    for name in ("runs", "topologies", "wirings", "pictures"):
        folder = pathlib.Path("results", name)
        folder.mkdir(parents=True)
        (folder / "mine.txt").write_text("precious")
        for more in ([], ["--overwrite"]):
            said = troupe("compare", "star.toml", "--out", "results", *more, status=2).stderr
            assert f"results/{name}: a comparison needs this name" in said and "--out" in said, said
        assert [file.read_text() for file in pathlib.Path("results").rglob("*.txt")] == ["precious"]
        (folder / "mine.txt").unlink()
        folder.rmdir()


@thorough
def test_a_damaged_comparison_is_refused_or_left_out():
    write("star.toml", STAR)
    troupe("compare", "star.toml", "--set", "run.steps=2", "--out", "out", "--quiet")
    path = pathlib.Path("out/comparison.json")
    whole = path.read_text()
    for wrong in ({"repeats": 0}, {"repeats": 4_000_000_000}, {"repeats": -1}, {"repeats": 1.5}, {"target": 1.5},
                  {"target": "x"}, {"first_seed": -1}, {"first_seed": 2**63 - 1}, {"variants": []}, {"variants": 3},
                  {"variants": [{"folder": "../star"}]}, {"format": 2}, {"machines": [3]}, {"simulated": 1}):
        path.write_text(json.dumps(json.loads(whole) | wrong))
        said = troupe("compare", "--resume", "out", status=2).stderr
        assert said.count("\n") == 1 and "out/comparison.json" in said, (wrong, said)
    for text in ("", "{", "[" * 100000, whole[:-10], "null"):
        path.write_text(text)
        troupe("compare", "--resume", "out", status=2)
    path.write_text(whole)
    # Numbers that no run writes: they are shown or left out, and the report is written all the same.
    run = pathlib.Path("out/runs/star/seed-1/metrics.jsonl")
    lines = [json.loads(line) for line in run.read_text().splitlines()]
    for value in (1e300, -1e300, 5e-324, 2**64 - 1, -1, "x", None, [], 1e19):
        run.write_text("\n".join(json.dumps({key: value if isinstance(old, float) else old for key, old in line.items()})
                                 for line in lines) + '\n{"event": 3}\n[1]\nnull\n{"event": "epoch"}\n')
        troupe("compare", "--resume", "out")
        page = Page()
        page.feed(pathlib.Path("out/compare.html").read_text())
        assert json.loads(page.data), value
    pathlib.Path("out/runs/star/seed-1/workers.csv").write_text("rank,samples\n,,\n1\n")
    troupe("compare", "--resume", "out")


def test_names_of_files_are_shown_as_they_are():
    names = ["a|b*_[c](d)&lt;~~.toml", "<script>alert(1)</script>, \"q\".toml", "ä ö, ü.toml", "-x.toml"]
    pathlib.Path("odd").mkdir()
    for name in names[1:]:
        write(f"odd/{name.replace('/', '∕')}", STAR)
    write(f"odd/{names[0]}", EVALUATED)
    troupe("compare", "odd", "--set", "run.steps=2", "--out", "out", "--quiet")
    assert {row["file"] for row in rows_of("out/compare.csv")} == {str(path) for path in pathlib.Path("odd").iterdir()}
    assert "<script>alert" not in pathlib.Path("out/compare.html").read_text()
    check_page("out")
    text = check_markdown("out")
    assert "a\\|b\\*\\_\\[c\\](d)\\&lt;\\~\\~" in text, text


main(globals())
