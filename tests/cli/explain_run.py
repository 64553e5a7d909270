"""troupe explain-run: shares that add up, the right culprit, and suggestions that are valid and help. The runs are
simulated, so that they are what they are whatever else this machine does."""

import json
import math
import pathlib

from troupe_command import TINY, main, troupe, write

SIMULATED = TINY.replace("count = 2", "count = 4").replace("steps = 20", "steps = 24") + """
[simulate]
gradient = "10ms"
jitter = 0
[[link]]
at = "*"
bandwidth = "10Gbit/s"
latency = "10us"
"""
SLOW_WORKER = ["workers.slowdown=[1, 1, 1, 4]"]
GRADIENT, PARAMETERS = 'workers.loop=["gradient", "exchange", "apply"]', 'workers.loop=["gradient", "apply", "exchange"]'
SERVER = 'workers.loop=["gradient", "exchange"]'
WIRINGS = {
    "all_reduce": [GRADIENT],
    "star": ["exchange.kind=star", GRADIENT],
    "model averaging": ["exchange.sends=parameters", "exchange.every=2", PARAMETERS],
    "gossip": ["exchange.kind=gossip", "exchange.graph=complete", PARAMETERS],
    "servers": ["exchange.kind=parameter_server", SERVER],
    "backup": ["exchange.kind=parameter_server", "exchange.apply=first", "exchange.first=4", SERVER],
    "bounded": ["exchange.kind=parameter_server", "exchange.apply=each", "exchange.staleness_bound=1", SERVER],
    "elastic": ["exchange.kind=elastic", "exchange.every=2", PARAMETERS],
}


def options(settings):
    return [word for setting in settings for word in ("--set", setting)]


def simulate(file, settings, out):
    troupe("simulate", file, "--compute", "none", "--out", out, "--quiet", *options(settings))
    return json.loads(troupe("explain-run", out, "--json").stdout)


def network_file(network=False):
    """Writes the file, with a slow network if requested."""
    return write("run.toml", SIMULATED.replace("10Gbit/s", "20Mbit/s").replace("10us", "2ms") if network else SIMULATED)


def expect_shares(found):
    for shares in [found["mean"], *found["workers"]]:
        parts = [shares[key] for key in ("compute", "data", "exchange", "other")]
        assert all(0 <= part <= 1 for part in parts) and math.isclose(sum(parts), 1, abs_tol=1e-9), shares


def test_the_slow_worker_is_named_and_every_suggestion_is_valid():
    file = network_file()
    helped = {}
    for name, wiring in WIRINGS.items():
        found = simulate(file, wiring + SLOW_WORKER, name)
        expect_shares(found)
        assert found["slowest_worker"] == 3 and math.isclose(found["slowness"], 4, rel_tol=0.2), found
        assert found["suggestions"], (name, found["summary"])
        for number, suggestion in enumerate(found["suggestions"]):
            troupe("check", pathlib.Path(name, "topology.toml"), *options(suggestion["set"]))
            again = simulate(pathlib.Path(name, "topology.toml"), suggestion["set"], f"{name}-{number}")
            helped.setdefault(name, []).append(again["seconds"] < 0.95 * found["seconds"])
        print("  ", name, [suggestion["set"] for suggestion in found["suggestions"]], helped[name])
        assert all(helped[name]), (name, found["seconds"])


def test_a_slow_network_is_told_from_a_slow_worker():
    file = network_file(network=True)
    for name in ("all_reduce", "star", "model averaging", "servers"):
        found = simulate(file, WIRINGS[name], name)
        expect_shares(found)
        assert "The exchanges themselves" in found["summary"], found["summary"]
        helped = []
        for number, suggestion in enumerate(found["suggestions"]):
            if suggestion["set"][0].startswith("data."):
                troupe("check", pathlib.Path(name, "topology.toml"), *options(suggestion["set"]))
            else:
                again = simulate(pathlib.Path(name, "topology.toml"), suggestion["set"], f"{name}-{number}")
                helped.append(again["seconds"] < 0.95 * found["seconds"])
        print("  ", name, [suggestion["set"] for suggestion in found["suggestions"]], helped)
        assert any(helped), (name, found["suggestions"])


def test_links_are_read_where_a_run_has_written_them():
    file = network_file()
    simulate(file, WIRINGS["all_reduce"], "out")
    pathlib.Path("out/links.csv").write_text(
        "interface,direction,messages,bytes,busy_seconds,busy_share,wait_mean_seconds,wait_max_seconds\n"
        "w0,send,10,1000,0.1,0.1,0.001,0.002\nw1,receive,10,1000,0.8,0.8,0.004,0.01\n")
    found = json.loads(troupe("explain-run", "out", "--json").stdout)
    assert found["busiest_link"] == "w1 receives" and len(found["links"]) == 2, found
    assert "w1 receives, is occupied for 80.0 % of the run" in found["summary"], found["summary"]


def test_a_real_run_is_explained_in_words_and_many_workers_are_grouped():
    troupe("run", write("tiny.toml", TINY), "--out", "out")
    said = troupe("explain-run", "out").stdout
    assert "computing" in said and "worker  steps" in said and "█" in said and "\x1b" not in said, said
    troupe("simulate", write("many.toml", SIMULATED), "--compute", "none", "--out", "many", "--set", "workers.count=40",
           "--set", "run.steps=2", "--set", "data.batch_size=4")
    said = troupe("explain-run", "many").stdout
    assert "\n   0–2 " in said and "\n    39 " in said, said


def test_what_is_not_a_finished_run_is_refused():
    said = troupe("explain-run", "nowhere", status=2).stderr
    assert "nowhere: there is no metrics.jsonl" in said, said
    troupe("run", write("tiny.toml", TINY), "--out", "out")
    rows = pathlib.Path("out/workers.csv").read_text()
    pathlib.Path("out/workers.csv").unlink()
    assert "there is no workers.csv" in troupe("explain-run", "out", status=2).stderr
    pathlib.Path("out/workers.csv").write_text(rows.replace("\n0,20,", "\n0,many,"))
    assert "out/workers.csv:2: the value of steps is not a number" in troupe("explain-run", "out", status=2).stderr


def test_the_files_of_a_run_do_not_control_the_terminal():
    troupe("simulate", network_file(network=True), "--compute", "none", "--out", "out", "--quiet")
    links = pathlib.Path("out/links.csv")
    links.write_text(links.read_text().replace("\nw", "\n\x1b[31mw"))
    said = troupe("explain-run", "out").stdout
    assert "\\x1b[31mw" in said and "\x1b" not in said, said


main(globals())
