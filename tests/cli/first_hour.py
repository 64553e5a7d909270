"""What new users see in the first hour: hints for mistyped words, warnings, derived defaults, accurate final
reports."""

import json
import pathlib
import re
import signal

from nodes import background, free_ports, node_tables
from troupe_command import TINY, main, metrics, thorough, troupe, write


def with_exchange(text):
    return TINY.replace('kind = "all_reduce"', text)


def two_nodes(more=""):
    text = TINY.replace("count = 2\n", "").replace("steps = 20", "steps = 20\n" + more)
    return write("nodes.toml", text + node_tables([1, 1], free_ports(2)))


def test_the_bare_command_prints_its_help():
    said = troupe(status=2).stdout
    assert "run" in said and "check" in said and "explain" in said, said


def test_mistyped_words_are_answered_with_what_was_meant():
    tiny = write("tiny.toml", TINY)
    said = troupe("check", tiny, "--set", "lr=1", status=2).stderr
    assert "optimizer.lr=value" in said, said
    said = troupe("check", tiny, "--set", "optimizer.learning_rate=1", status=2).stderr
    assert 'did you mean "lr"?' in said, said
    said = troupe("run", tiny, "--epochs", "3", status=2).stderr
    assert "did you mean --set run.epochs=3?" in said, said
    said = troupe("run", tiny, "--lr=0.1", status=2).stderr
    assert "did you mean --set optimizer.lr=0.1?" in said, said
    said = troupe("run", tiny, "--overwrit", status=2).stderr
    assert "did you mean --overwrite?" in said, said
    for wrong, right in (("--workers", "workers.count=4"), ("--step", "run.steps=4"), ("--model", "model.name=4"),
                         ("--learning-rate", "optimizer.lr=4"), ("--batch-size", "data.batch_size=4")):
        said = troupe("run", tiny, wrong, "4", status=2).stderr
        assert f"did you mean --set {right}?" in said, (wrong, said)
    for words in (["list", "--epochs", "3"], ["eval", "weights", "--lr", "3"], ["run", tiny, "--name", "x"]):
        assert "did you mean" not in troupe(*words, status=2).stderr, words
    said = troupe("run", tiny, '--no_decay=["a b"]', status=2).stderr
    assert """--set 'optimizer.no_decay=["a b"]'?""" in said, said
    said = troupe("data", "fetch", "mnist", "--dri", "x", status=2).stderr
    assert "did you mean --dir?" in said, said
    said = troupe("explain", "optimizer.learning_rate", status=2).stderr
    assert 'did you mean "optimizer.lr"?' in said, said
    lines = troupe("explain").stdout.splitlines()
    names = [line.split("  ")[0] for line in lines]
    assert len(names) == len(set(names)), sorted(name for name in names if names.count(name) > 1)


def test_a_shared_budget_is_for_workers_that_do_not_wait():
    asgd = write("asgd.toml", with_exchange('kind = "parameter_server"\napply = "each"').replace(', "apply"', "")
                 .replace("steps = 20", 'steps = 20\nbudget = "total"'))
    assert "20 steps (" in troupe("check", asgd).stdout
    assert "on average over the workers" in troupe("check", asgd).stdout
    assert json.loads(troupe("check", asgd, "--json").stdout)["budget"] == "total"
    troupe("run", asgd, "--out", "asgd")
    end = metrics("asgd")[-1]
    assert (end["step"], end["updates"], end["status"]) == (20, 40, "done"), end
    alone = write("alone.toml", TINY.split("[exchange]")[0].replace(', "exchange"', "").replace("count = 2", "count = 1"))
    troupe("run", alone, "--out", "own")
    troupe("run", alone, "--set", "run.budget=total", "--out", "shared")
    assert pathlib.Path("own/model.safetensors").read_bytes() == pathlib.Path("shared/model.safetensors").read_bytes()
    said = troupe("check", write("waits.toml", TINY), "--set", "run.budget=total", status=2).stderr
    assert 'run.budget = "total" requires a wiring in which no worker waits for another' in said, said


def test_the_distance_of_workers_is_measured_before_they_are_averaged():
    loop = '"gradient", "exchange", "apply"'
    averaged = with_exchange('kind = "all_reduce"\nsends = "parameters"\nevery = 10')
    apart = TINY.split("[exchange]")[0].replace(loop, '"gradient", "apply"').replace("steps = 20", "steps = 10")
    troupe("run", write("averaged.toml", averaged.replace(loop, '"gradient", "apply", "exchange"')), "--set",
           "evaluate.every=10 steps", "--out", "averaged")
    troupe("run", write("apart.toml", apart), "--out", "apart")
    first, last = [line for line in metrics("averaged") if line["event"] == "evaluation"]
    moved = metrics("apart")[-1]
    assert first["consensus_distance"] == 0 < first["consensus_distance_before"]
    assert first["consensus_distance_before"] == moved["consensus_distance"], (first, moved)
    assert moved["consensus_distance_before"] is None
    end = metrics("averaged")[-1]
    assert end["consensus_distance_max"] == max(line["consensus_distance_before"] for line in (first, last)), end


@thorough
def test_the_distance_after_mixing_leaves_out_the_steps_since():
    # By how much an exchange multiplies the distance at most.
    mixings = {'kind = "all_reduce"\nsends = "parameters"': 0,
               'kind = "gossip"\ngraph = "ring"': 1 / 3}
    for exchange, most in mixings.items():
        for loop in ('"gradient", "apply", "exchange"', '"gradient", "exchange", "apply"'):
            text = with_exchange(exchange).replace('"gradient", "exchange", "apply"', loop)
            file = write("mixed.toml", text.replace("count = 2", "count = 4"))
            for every in (1, 3):
                settings = ["--set", f"exchange.every={every}", "--set", "run.steps=10", "--set", "data.batch_size=4"]
                troupe("run", file, *settings, "--set", "evaluate.every=5 steps", "--out", "mixed", "--overwrite")
                for line in metrics("mixed"):
                    if line["event"] != "evaluation":
                        continue
                    before, after = line["consensus_distance_before"], line["consensus_distance_after"]
                    assert before > 0 and 0 <= after <= most * before * 1.001, (exchange, loop, every, line)
                    ends_with_mixing = loop.endswith('"exchange"') and line["step"] % every == 0
                    assert (after == line["consensus_distance"]) == ends_with_mixing, (exchange, loop, every, line)
                # Two steps later, the distance after mixing is still that at the step that ended with it.
                if every == 3 and loop.endswith('"exchange"'):
                    troupe("run", file, *settings, "--set", "evaluate.every=3 steps", "--out", "once", "--overwrite")
                    later = next(line for line in metrics("mixed") if line["step"] == 5)
                    once = next(line for line in metrics("once") if line["step"] == 3)
                    assert later["consensus_distance_after"] == once["consensus_distance"], (exchange, later, once)


def test_each_worker_is_evaluated_where_it_is_asked_for():
    more = "\n[evaluate]\neach_worker = true\n"
    apart = TINY.split("[exchange]")[0].replace(', "exchange"', "")
    troupe("run", write("apart.toml", apart + more), "--out", "each")
    end = metrics("each")[-1]
    assert len(set(end["val_accuracy_workers"])) == 2, end
    averaged = with_exchange('kind = "all_reduce"\nsends = "parameters"\nevery = 5')
    averaged = averaged.replace('"gradient", "exchange", "apply"', '"gradient", "apply", "exchange"')
    troupe("run", write("averaged.toml", averaged + more), "--out", "same")
    end = metrics("same")[-1]
    assert end["val_accuracy_workers"] == 2 * [end["val_accuracy"]], end
    centre = with_exchange('kind = "elastic"') + more
    troupe("run", write("centre.toml", centre), "--out", "centre")
    end = metrics("centre")[-1]
    assert len(end["val_accuracy_workers"]) == 2 and end["val_accuracy"] is not None, end
    said = troupe("check", write("agree.toml", TINY + more), status=2).stderr
    assert "evaluate.each_worker = true has no effect, because all workers have the same parameters" in said, said


def test_workers_without_an_exchange_are_warned_about():
    alone = write("alone.toml", TINY.split("[exchange]")[0].replace(', "exchange"', ""))
    said = troupe("check", alone).stdout
    assert "\n  warning     no exchange connects the 2 workers" in said, said
    said = troupe("run", alone, "--out", "alone").stderr
    assert "warning: no exchange connects the 2 workers" in said, said
    said = troupe("check", alone, "--set", "workers.count=1").stdout
    assert "warning" not in said, said
    assert "warning" not in troupe("check", write("tiny.toml", TINY)).stdout


def test_settings_without_effect_are_warned_about():
    tiny = write("tiny.toml", TINY)
    for setting, words in (("optimizer.lr=0", "optimizer.lr = 0 does not change"),
                           ('optimizer.no_decay=["*.bias"]', "no_decay has no effect"),
                           ("optimizer.schedule_by=epoch", "schedule_by has no effect")):
        said = troupe("check", tiny, "--set", setting).stdout
        assert "\n  warning " in said and words in said, said


def test_check_and_topology_toml_show_derived_defaults():
    gossip = write("gossip.toml", with_exchange('kind = "gossip"\nsends = "parameters"'))
    assert "graph = ring" in troupe("check", gossip).stdout
    troupe("run", gossip, "--out", "gossip")
    assert re.search(r'graph += "ring"', pathlib.Path("gossip/topology.toml").read_text())
    troupe("run", "gossip/topology.toml", "--out", "again")
    assert pathlib.Path("again/model.safetensors").read_bytes() == pathlib.Path("gossip/model.safetensors").read_bytes()
    elastic = write("elastic.toml", with_exchange('kind = "elastic"'))
    assert "alpha = 0.45" in troupe("check", elastic).stdout
    assert json.loads(troupe("check", elastic, "--json").stdout)["exchanges"][0]["settings"]["alpha"] == 0.45


def test_settings_of_buckets_show_only_where_there_are_buckets():
    whole = troupe("check", write("tiny.toml", TINY)).stdout
    assert "bucket_mb" not in whole and "route = auto" in whole, whole
    bucket = troupe("check", "tiny.toml", "--set", "exchange.send=bucket").stdout
    assert "bucket_mb = 25" in bucket, bucket


def test_check_needs_no_data_where_it_is_told_so():
    mnist = write("mnist.toml", TINY.replace('"digits"', '"mnist"\ndir = "nowhere"'))
    assert "nowhere" in troupe("check", mnist, status=2).stderr
    plan = json.loads(troupe("check", mnist, "--no-data", "--json").stdout)
    assert plan["training_samples"] == 60_000 and plan["steps_per_epoch"] == 3_750, plan
    plan = json.loads(troupe("check", mnist, "--no-data", "--json", "--set", "data.validation=0.1").stdout)
    assert plan["training_samples"] == 54_000, plan
    text = write("text.toml", TINY.replace('"digits"', '"text"\nfile = "nothing.txt"'))
    assert "remove --no-data" in troupe("check", text, "--no-data", status=2).stderr


def test_check_refuses_an_address_that_run_would_refuse():
    nodes = pathlib.Path(two_nodes()).read_text().replace("127.0.0.1", "10.0.0.1")
    said = troupe("check", write("far.toml", nodes), status=2).stderr
    assert "loopback" in said and "10.0.0.1" in said, said


def test_check_counts_the_classes_of_each_worker():
    tiny = write("tiny.toml", TINY)
    said = troupe("check", tiny, "--set", "data.split=by_label").stdout
    assert "each worker sees" in said and "\n              w0 " in said and "\n              w1 " in said, said
    plan = json.loads(troupe("check", tiny, "--set", "data.split=by_label", "--json").stdout)
    counts = plan["classes_of_a_worker"]["samples"]
    assert len(counts) == 2 and all(sum(each) == 6_000 for each in counts), counts


def test_check_shows_padding_shares_and_pauses():
    three = write("three.toml", TINY.replace("count = 2", "count = 7"))
    said = troupe("check", three, "--set", "data.remainder=pad", "--set", "evaluate.pause_training=true",
                  "--set", "evaluate.split=workers").stdout
    for words in ("padded to 12,005 samples", "while the workers wait", "7 shares of 286"):
        assert words in said, (words, said)


def test_a_failed_simulation_ends_in_virtual_time():
    file = write("tiny.toml", TINY + '[simulate]\ngradient = "30s"\n')
    for out in ("one", "other"):
        troupe("simulate", file, "--out", out, "--set", "optimizer.lr=1e6", status=1)
    last = metrics("one")[-1]
    assert last["status"] == "failed" and last["seconds"] >= 30, last
    assert pathlib.Path("one/metrics.jsonl").read_bytes() == pathlib.Path("other/metrics.jsonl").read_bytes()


def test_a_failed_run_ends_its_metrics():
    troupe("run", write("tiny.toml", TINY), "--out", "failed", "--set", "optimizer.lr=1e6", status=1)
    last = metrics("failed")[-1]
    assert last["event"] == "end" and last["status"] == "failed" and last["seconds"] > 0, last


def test_an_interrupted_run_says_which_step_its_accuracy_is_of():
    text = TINY.replace("steps = 20", "steps = 100000000") + '[evaluate]\nevery = "25 steps"\n'
    with background("run", write("long.toml", text), "--out", "out") as run:
        file = pathlib.Path("out/metrics.jsonl")
        run.until(lambda: file.exists() and '"evaluation"' in file.read_text(), "an evaluation")
        run.process.send_signal(signal.SIGINT)
        run.wait(130, within=30)
        said = run.printed()
    lines = metrics("out")
    evaluated = [line["step"] for line in lines if line["event"] == "evaluation"][-1]
    end = lines[-1]
    ending = next(line for line in said.splitlines() if line.startswith("interrupted after"))
    print(f"  {ending}")
    assert end["step"] == evaluated or ending.endswith(f"after step {evaluated:,}"), (ending, evaluated, end["step"])


def test_nodes_wait_for_each_other_no_longer_than_they_are_told():
    for name, words in (("alpha", ["waiting for node beta to join", "node beta did not join within 1s"]),
                        ("beta", ["waiting for node alpha at", "could not be reached within 1s"])):
        done = troupe("node", two_nodes('join_timeout = "1s"'), "--name", name, "--out", name, status=1)
        for each in [*words, "run.join_timeout"]:
            assert each in done.stderr, (each, done.stderr)
        assert done.seconds < 10, done.seconds


def test_what_files_hold_does_not_control_the_terminal():
    name = "\\u001b[31mred" + "x" * 100_000
    said = troupe("check", write("escape.toml", TINY + f'["{name}"]\nkey = 1\n'), status=2).stderr
    assert "\x1b" not in said and len(said) < 3_000, said[:3_000]


main(globals())
