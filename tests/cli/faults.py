"""troupe simulate of a file with several nodes: the bytes of `troupe run`, its own bytes again, and what it says about faults,
which `troupe run` refuses."""

import json
import pathlib

from troupe_command import BINARY, TINY, main, metrics, timeless, troupe, write

NODES = TINY.replace("count = 2\n", "") + """
[simulate]
gradient = "10ms"
[[node]]
name = "alpha"
[[node]]
name = "beta"
"""
ASYNCHRONOUS = NODES.replace('"gradient", "exchange", "apply"', '"gradient", "exchange"').replace(
    'kind = "all_reduce"', 'kind = "parameter_server"\nsends = "gradient"\napply = "each"')
LINK = '[[link]]\nbetween = ["alpha", "beta"]\nbandwidth = "100Mbit/s"\nlatency = "2ms"\n'


def fault(text):
    return "[[fault]]\n" + "\n".join(text.split("; ")) + "\n"


def outputs(folder):
    """Returns what a folder has, by name, without the mark of the folder, which names the process."""
    return {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()
            if path.is_file() and path.name != ".troupe-run"}


def test_simulated_nodes_end_in_the_bytes_of_a_run():
    file = write("nodes.toml", NODES + LINK)
    troupe("run", file, "--out", "run")
    for seed in 0, 1:
        troupe("simulate", file, "--seed", seed, "--out", f"simulated{seed}")
        assert outputs("run")["model.safetensors"] == outputs(f"simulated{seed}")["model.safetensors"], seed
        assert timeless("run") == timeless(f"simulated{seed}"), seed


def test_the_same_seed_gives_the_same_bytes_of_every_output():
    for text in (NODES + LINK, ASYNCHRONOUS + LINK, NODES + fault('kind = "kill"; at = "step 7"; node = "beta"')):
        file = write("nodes.toml", text)
        status = 1 if "fault" in text else 0
        for out in "one", "two":
            troupe("simulate", file, "--seed", 3, "--trace", "--out", out, "--overwrite", status=status)
        one, two = outputs("one"), outputs("two")
        assert one.keys() == two.keys() and "trace.json" in one, one.keys()
        for name, held in one.items():
            assert held == two[name], name


def test_a_fault_ends_the_simulated_run_and_is_named():
    for text, words in {
            'kind = "kill"; at = "step 7"; node = "beta"': "node beta is lost: it was killed or disconnected",
            'kind = "kill"; at = "50ms"; node = "alpha"': "node alpha is lost: it was killed or disconnected",
            'kind = "freeze"; at = "step 7"; node = "beta"': "node beta is lost: it was silent for 5000 ms (run.silence)",
            'kind = "partition"; at = "step 7"; between = ["alpha", "beta"]': "node beta is lost: it was silent for 5000 ms"}.items():
        file = write("nodes.toml", NODES + fault(text))
        done = troupe("simulate", file, "--out", "out", "--overwrite", status=1)
        assert f"error: the simulated run failed: {words}" in done.stderr, done.stderr
        assert f"to repeat it up to this point: {BINARY} simulate nodes.toml --seed 0 --events" in done.stderr, done.stderr
        end = metrics("out")[-1]
        assert (end["event"], end["status"]) == ("end", "failed"), end
        silent = "silent" in words
        assert (4 if silent else 0.05) <= end["seconds"] < (9 if silent else 4), end


def test_a_short_fault_changes_no_byte():
    troupe("simulate", write("whole.toml", NODES), "--out", "whole")
    for text in ('kind = "freeze"; at = "step 7"; node = "beta"; lasts = "3s"',
                 'kind = "slow"; at = "step 7"; node = "beta"; latency = "20ms"'):
        troupe("simulate", write("short.toml", NODES + fault(text)), "--out", "short", "--overwrite")
        assert outputs("whole")["model.safetensors"] == outputs("short")["model.safetensors"], text
        # 13 steps, each with one hop of 20 ms or more
        assert metrics("short")[-1]["seconds"] > metrics("whole")[-1]["seconds"] + 0.25, text


def test_a_fault_for_which_the_run_ends_too_early_is_named():
    file = write("early.toml", NODES + fault('kind = "kill"; at = "1h"; node = "beta"'))
    done = troupe("simulate", file, "--out", "early")
    assert "warning: the run ended before the fault kill beta at 1h, which did not happen" in done.stderr, done.stderr


def test_faults_are_checked_and_shown():
    file = write("nodes.toml", NODES + fault('kind = "freeze"; at = "step 7"; node = "beta"; lasts = "3s"'))
    assert "freeze beta at step 7 for 3s" in troupe("check", file).stdout
    faults = json.loads(troupe("check", file, "--json").stdout)["faults"]
    assert faults == [{"kind": "freeze", "at_step": 7, "at_microseconds": None, "node": "beta", "between": [],
                       "lasts_microseconds": 3_000_000, "latency_microseconds": None}], faults
    for command in ("run", file), ("node", file, "--name", "alpha"):
        done = troupe(*command, "--out", "out", status=2)
        assert "nodes.toml:" in done.stderr and "[[fault]] works only in `troupe simulate`" in done.stderr, done.stderr
        assert not pathlib.Path("out").exists()
    for command in "check", "simulate":
        done = troupe(command, file, "--set", "fault.0.node=bet", status=2)
        assert "names \"bet\"; expected \"alpha\" or \"beta\" (did you mean" in done.stderr, done.stderr
        done = troupe(command, write("one.toml", TINY + fault('kind = "kill"; at = "1s"; node = "alpha"')), status=2)
        assert "expected at least two [[node]] sections" in done.stderr, done.stderr


main(globals())
