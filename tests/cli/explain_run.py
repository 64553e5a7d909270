"""troupe explain-run: shares that add up, the right cause, and suggestions whose predicted gain is that of another run
with them. Most runs are simulated, so that they do not depend on what else this machine does."""

import csv
import json
import math
import os
import pathlib
import re

from troupe_command import SOURCE, TINY, main, thorough, troupe, write

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


def expect_predictions(name, found, least=1):
    """Simulates the run with each suggestion: the time for as many samples is what was predicted."""
    assert len(found["suggestions"]) >= least, (name, found["summary"])
    samples = samples_of(name)
    for number, suggestion in enumerate(found["suggestions"]):
        assert suggestion["seconds"] <= 0.95 * found["seconds"], (name, suggestion)
        again = simulate(pathlib.Path(name, "topology.toml"), suggestion["set"], f"{name}-{number}")
        took = again["seconds"] * samples / samples_of(f"{name}-{number}")
        saved, predicted = found["seconds"] - took, found["seconds"] - suggestion["seconds"]
        assert abs(predicted - saved) <= 0.2 * saved, (name, suggestion, found["seconds"], took)
    print("  ", name, found["seconds"], [(each["set"], each["seconds"]) for each in found["suggestions"]])


def samples_of(folder):
    with open(pathlib.Path(folder, "workers.csv"), newline="") as file:
        return sum(int(row["samples"]) for row in csv.DictReader(file))


@thorough
def test_a_slow_worker_is_the_cause_and_predictions_hold():
    file = network_file()
    for name, wiring in WIRINGS.items():
        found = simulate(file, wiring + SLOW_WORKER, name)
        expect_shares(found)
        assert found["slowest_worker"] == 3 and math.isclose(found["slowness"], 4, rel_tol=0.2), found
        assert found["cause"] == "slow_worker", (name, found["summary"])
        expect_predictions(name, found)


@thorough
def test_a_slow_network_is_the_cause_and_predictions_hold():
    file = network_file(network=True)
    for name in ("all_reduce", "star", "model averaging", "servers"):
        found = simulate(file, WIRINGS[name], name)
        expect_shares(found)
        assert found["cause"] == "exchanges", (name, found["summary"])
        assert "The links hold the workers back most" in found["summary"], found["summary"]
        expect_predictions(name, found)


def test_a_slow_worker_is_not_blamed_where_links_take_the_time():
    found = simulate(network_file(network=True), WIRINGS["all_reduce"] + ["workers.slowdown=[1, 1, 1, 2]"], "uneven")
    assert found["cause"] == "exchanges", found["summary"]
    assert " tune uneven/topology.toml\n" in troupe("explain-run", "uneven").stdout
    local_sgd = [each for each in found["suggestions"] if "exchange.every=8" in each["set"]]
    assert local_sgd and local_sgd[0]["seconds"] < 0.5 * found["seconds"], found["suggestions"]


def test_another_route_is_suggested_first_because_it_keeps_the_weights():
    file = write("far.toml", SIMULATED.replace("10Gbit/s", "1Gbit/s").replace("10us", "50ms"))
    found = simulate(file, WIRINGS["all_reduce"] + ["exchange.route=chain"], "chain")
    first = found["suggestions"][0]
    assert first["set"] == ["exchange.route=auto"] and not first["changes_training"], found["suggestions"]
    expect_predictions("chain", found)


def test_evaluation_is_the_cause_where_workers_wait_for_it():
    file = write("run.toml", SIMULATED + "[evaluate]\nevery = 4\npause_training = true\n")
    found = simulate(file, WIRINGS["all_reduce"] + ["simulate.evaluate=100ms"], "evaluation")
    assert found["cause"] == "evaluation" and "Evaluation holds the workers back most" in found["summary"], found
    assert ["evaluate.every=8 steps"] in [each["set"] for each in found["suggestions"]], found["suggestions"]


def test_waiting_for_samples_and_for_cores_is_told_apart_from_computing():
    """Made from the tables of a run, because whether a real one waits depends on the machine."""
    troupe("run", write("tiny.toml", TINY), "--out", "out", "--quiet")
    # With the CPU time of the workers, nine tenths of that of all cores, of which there may be one.
    loading = max(1, 4.5 * os.cpu_count() - 5)
    for columns, cause, words in (((10, 6, 0, 4, 0), "data", "Samples arrive too late"),
                                  ((10, 0, 0, 5, loading), "data", "threads that make samples use the cores"),
                                  ((10, 0, 0, 2, 0), "cores", "had one in 20.0 % of the time")):
        busy, data, exchange, cpu, loading = columns
        rows = "".join(f"{rank},20,160,1000,{busy},{data},{exchange},{cpu},{loading}\n" for rank in range(2))
        pathlib.Path("out/workers.csv").write_text(
            "worker,steps,samples,bytes_sent,busy_seconds,data_wait_seconds,exchange_wait_seconds,cpu_seconds,"
            "loading_cpu_seconds\n" + rows)
        metrics = pathlib.Path("out/metrics.jsonl")
        lines = [json.loads(line) for line in metrics.read_text().splitlines()]
        lines[-1].update(seconds=10, train_seconds=10)
        metrics.write_text("".join(json.dumps(line) + "\n" for line in lines))
        found = json.loads(troupe("explain-run", "out", "--json").stdout)
        assert found["cause"] == cause and words in found["summary"], found
        assert abs(found["contention"] - (busy - data) / cpu) < 1e-9, found


def test_a_run_whose_data_is_elsewhere_is_explained_without_predictions():
    troupe("run", write("tiny.toml", TINY), "--out", "out", "--quiet")
    file = pathlib.Path("out/topology.toml")
    file.write_text(re.sub(r'name *= "digits"', 'name = "mnist"\ndir = "nowhere"', file.read_text()))
    found = json.loads(troupe("explain-run", "out", "--json").stdout)
    assert found["cause"] is None and not found["suggestions"] and "nowhere" in found["not_simulated"], found
    said = troupe("explain-run", "out").stdout
    assert "The run cannot be simulated here, so nothing is suggested:" in said and "worker  steps" in said, said


def test_nothing_is_predicted_from_steps_that_are_too_short_to_simulate():
    troupe("run", SOURCE / "topologies" / "hogwild_sparse.toml", "--out", "out", "--quiet")
    found = json.loads(troupe("explain-run", "out", "--json").stdout)
    assert found["cause"] is None and not found["suggestions"] and "less than 10 us" in found["not_simulated"], found
    assert "links" not in found["summary"], found["summary"]


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
    assert "nowhere: the folder does not exist; expected the results folder of a run" in said, said
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
