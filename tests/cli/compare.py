"""troupe compare: the numbers in compare.csv are those of the runs, and the report is one file."""

import csv
import json
import pathlib
import re

from troupe_command import TINY, main, metrics, troupe, write

COLUMNS = ["file", "repeat", "seed", "status", "seconds", "samples", "updates", "bytes_sent", "final_accuracy",
           "best_accuracy", "seconds_to_target", "staleness_mean", "idle_share"]
EVALUATED = TINY + "[evaluate]\nevery = 5\n"
STAR = EVALUATED.replace("all_reduce", "star")
SERVER = EVALUATED.replace('"gradient", "exchange", "apply"', '"gradient", "exchange"').replace(
    'kind = "all_reduce"', 'kind = "parameter_server"\nsends = "gradient"\napply = "each"')


def compare(*arguments, status=0):
    write("star.toml", STAR)
    write("server.toml", SERVER)
    return troupe("compare", "star.toml", "server.toml", "--out", "comparison", *arguments, status=status)


def rows_of(name):
    with open(name, newline="") as file:
        return list(csv.DictReader(file))


def workers_of(folder):
    return rows_of(pathlib.Path(folder, "workers.csv"))


def expected_row(folder, target):
    """What the row of a run says, from the files of the run alone."""
    lines = metrics(folder)
    end = lines[-1]
    evaluated = [line for line in lines if line["event"] == "evaluation"]
    reached = [line["seconds"] for line in evaluated if line["val_accuracy"] >= target]
    workers = workers_of(folder)
    waited = sum(float(worker["exchange_wait_seconds"]) for worker in workers) / len(workers)
    return {"status": end["status"], "seconds": end["seconds"], "updates": end["updates"],
            "samples": sum(int(worker["samples"]) for worker in workers),
            "bytes_sent": end["bytes_sent"], "final_accuracy": end["val_accuracy"],
            "best_accuracy": max(line["val_accuracy"] for line in evaluated),
            "seconds_to_target": reached[0] if reached else None, "staleness_mean": end["staleness_mean"],
            "idle_share": waited / evaluated[-1]["train_seconds"]}


def test_the_table_repeats_what_the_runs_have_measured():
    compare("--repeat", 2, "--target", 0.1, "--quiet")
    rows = rows_of("comparison/compare.csv")
    assert list(rows[0]) == COLUMNS, list(rows[0])
    assert [(row["file"], row["repeat"], row["seed"]) for row in rows] == [
        ("star.toml", "1", "1"), ("star.toml", "2", "2"), ("server.toml", "1", "1"), ("server.toml", "2", "2")]
    seen = 0
    for folder in sorted(pathlib.Path("comparison/runs").glob("*/seed-*")):
        if not (folder / "metrics.jsonl").exists():
            continue
        row = expected_row(folder, 0.1)
        found = [one for one in rows if one["seconds"] and float(one["seconds"]) == row["seconds"]]
        assert len(found) == 1, (folder, row)
        for key, value in row.items():
            text = found[0][key]
            if value is None:
                assert text == "", (folder, key, text)
            elif isinstance(value, str):
                assert text == value, (folder, key, text)
            else:
                assert abs(float(text) - value) <= 1e-9 * abs(value), (folder, key, text, value)
        seen += 1
    assert seen == 4, seen


def test_the_report_needs_nothing_from_outside():
    compare("--quiet")
    page = pathlib.Path("comparison/compare.html").read_text()
    assert not re.search(r'(src|href)="(?!#|data:)', page), "a script, style, picture or font from outside"
    assert "@import" not in page and "url(http" not in page
    assert "star" in page and "server" in page
    assert "Results" in pathlib.Path("comparison/compare.md").read_text()


def test_a_comparison_is_resumed_and_varied_and_simulated():
    compare("--quiet")
    before = pathlib.Path("comparison/compare.csv").read_text()
    troupe("compare", "--resume", "comparison", "--quiet")
    assert pathlib.Path("comparison/compare.csv").read_text() == before, "runs that are complete are kept"
    write("star.toml", STAR)
    troupe("compare", "star.toml", "--vary", "optimizer.lr=0.01,0.05", "--simulate", "--set", "simulate.gradient=1ms",
           "--out", "varied", "--quiet")
    assert len(rows_of("varied/compare.csv")) == 2


def test_results_are_printed_as_json():
    result = json.loads(compare("--json").stdout.splitlines()[-1])
    assert result, result


def test_bad_input_is_refused():
    done = compare("--repeat", 0, status=2)
    assert "repeat" in done.stderr, done.stderr
    done = troupe("compare", "missing.toml", "--out", "other", status=2)
    assert "missing.toml" in done.stderr, done.stderr


main(globals())
