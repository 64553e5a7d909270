"""troupe run --record and troupe replay: asynchronous runs on threads and on processes are repeated bit for bit.

    replay.py            a few runs of each kind
    replay.py --full     also thirty runs of each wiring on threads and on four processes: undisturbed, interrupted, killed
"""

import json
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import sys
import time

from checked_files import blocks_of, crc32c
from troupe_command import BINARY, main, metrics, thorough, timeless, troupe, write

SERVER = """
[run]
seed = 1
steps = 60
[model]
name = "lenet"
[data]
name = "digits"
batch_size = 4
[optimizer]
lr = 0.02
momentum = 0.5
[evaluate]
every = 20
[workers]
count = 4
slowdown = [1, 1, 2, 1]
loop = ["gradient", "exchange"]
[exchange]
kind = "parameter_server"
sends = "gradient"
apply = "each"
"""
ELASTIC = SERVER.replace('"gradient", "exchange"', '"gradient", "exchange", "apply"').replace(
    'kind = "parameter_server"\nsends = "gradient"', 'kind = "elastic"\nsends = "parameters"\nevery = 2\nalpha = 0.2')
SHARED = SERVER.replace('"gradient", "exchange"', '"gradient", "apply"').replace(
    'kind = "parameter_server"\nsends = "gradient"\napply = "each"', 'kind = "shared"\nlock = true').replace(
    "slowdown = [1, 1, 2, 1]\n", "")
WIRINGS = {
    "asynchronous SGD": (SERVER, ()),
    "bounded staleness": (SERVER, ("exchange.staleness_bound=2",)),
    "backup workers": (SERVER.replace('"each"', '"first"\nfirst = 3'), ()),
    "three servers, shared budget": (SERVER, ("exchange.shards=3", "run.budget=total")),
    "elastic averaging": (ELASTIC, ()),
    "elastic averaging, shared budget": (ELASTIC, ("run.budget=total",)),
    "shared memory": (SHARED, ()),
    "shared memory, local steps": (SHARED, ("exchange.local_steps=3",)),
}
FULL = "--full" in sys.argv
FOUR_PROCESSES = "".join(f'[[node]]\nname = "{name}"\nworkers = 1\n' for name in "abcd")


def over_processes(text):
    return text.replace("count = 4\n", "") + FOUR_PROCESSES


def replay(folder, *arguments, status=0):
    return troupe("replay", folder, "--out", f"{folder}-again", "--overwrite", *arguments, status=status)


def demand_same(folder):
    run, again = ({path.name: path.read_bytes() for path in pathlib.Path(out).glob("*.safetensors")}
                  for out in (folder, f"{folder}-again"))
    wanted = {"model.safetensors"}
    if any(line["event"] == "evaluation" for line in timeless(folder)):
        wanted.add("model_best.safetensors")  # a run that is interrupted before its first evaluation has none
    assert wanted == set(run) and run == again, (wanted, list(run), list(again))
    assert timeless(folder) == timeless(f"{folder}-again")


def demand_same_as_far(folder):
    """Compares the metrics of a run that was killed, or lost a node, with those of its replay, but for the end. Either may
    lack the last lines of the other, because the recording and the metrics reach the disk separately."""
    run, again = ([line for line in timeless(out) if line["event"] != "end"] for out in (folder, f"{folder}-again"))
    assert again[:len(run)] == run[:len(again)], (run, again)


def record_and_replay(text, *settings):
    write("file.toml", text)
    troupe("run", "file.toml", "--record", "--out", "run", "--overwrite", *settings)
    replay("run")
    demand_same("run")


@thorough
def test_each_asynchronous_wiring_on_threads():
    record_and_replay(SERVER)
    record_and_replay(SERVER, "--set", "exchange.shards=3", "--set", "run.budget=total")
    record_and_replay(ELASTIC, "--set", "run.budget=total")
    record_and_replay(SHARED)
    record_and_replay(SHARED, "--set", "exchange.local_steps=3", "--set", "run.budget=total")


@thorough
def test_each_asynchronous_wiring_on_four_processes():
    for text in (ELASTIC, SHARED):
        record_and_replay(over_processes(text))


@thorough
def test_a_run_that_is_stopped_early_or_by_its_time_limit():
    record_and_replay(SERVER, "--set", "run.steps=2000", "--set", "evaluate.target_accuracy=0.6")
    record_and_replay(ELASTIC, "--set", "run.steps=100000", "--set", "run.max_seconds=1", "--set", "run.budget=total")


@thorough
def test_a_run_that_is_interrupted():
    for text in (SERVER, over_processes(SERVER), SHARED):
        shutil.rmtree("run", ignore_errors=True)
        write("file.toml", text)
        with subprocess.Popen([BINARY, "run", "file.toml", "--record", "--out", "run", "--quiet",
                               "--set", "run.steps=100000"]) as run:
            wait_for_recording("run")
            run.send_signal(signal.SIGINT)
            assert run.wait(30) == 130
        replay("run")
        demand_same("run")


CHECKPOINTS = '[checkpoint]\nevery = "10 steps"\n'


def record_part(text):
    """Records the end of a run of 80 steps, which is continued from a checkpoint. Returns where the recording keeps it."""
    shutil.rmtree("run", ignore_errors=True)
    file = write("file.toml", text + CHECKPOINTS)
    troupe("run", file, "--set", "run.steps=45", "--out", "run")
    troupe("run", "--resume", "run", "--set", "run.steps=80", "--record")
    shutil.rmtree("run/checkpoints")  # the recording needs none of them
    kept, = pathlib.Path("run/recorded_from/checkpoints").iterdir()
    return kept


@thorough
def test_a_recording_of_a_continued_run_begins_at_its_checkpoint():
    for text in (SERVER, over_processes(ELASTIC), SHARED):
        assert (record_part(text) / "manifest.json").exists()
        replay("run")
        assert pathlib.Path("run/model.safetensors").read_bytes() == pathlib.Path("run-again/model.safetensors").read_bytes()
        again = timeless("run-again")
        assert metrics("run-again")[0]["event"] == "resume" and again == timeless("run")[-len(again):], again
    assert "the recording begins at step" in replay("run", "--until", 1, status=2).stderr
    troupe("run", "file.toml", "--record", "--out", "run", "--overwrite")
    assert not pathlib.Path("run/recorded_from").exists()
    replay("run")
    demand_same("run")


def test_a_recording_without_its_checkpoint_is_refused():
    kept = record_part(SERVER)
    manifest = kept / "manifest.json"
    text = manifest.read_text()
    manifest.unlink()
    manifest.write_text(text.replace('"step"', '"stop"'))
    assert "begins with another checkpoint" in replay("run", status=2).stderr
    manifest.write_text(text)
    weights = next(each for each in kept.iterdir() if each.suffix == ".safetensors")
    whole = weights.read_bytes()
    weights.unlink()
    weights.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert "cannot be used: " + weights.name in replay("run", status=2).stderr
    shutil.rmtree(kept)
    assert "begins with a checkpoint, which is missing" in replay("run", status=2).stderr


def wait_for_recording(folder):
    path = pathlib.Path(folder, "deliveries.bin")
    for _ in range(600):
        time.sleep(0.05)
        if path.exists() and path.stat().st_size > 20_000:
            return
    raise AssertionError("nothing was recorded within 30 s")


@thorough
def test_a_run_that_is_killed_replays_as_far_as_it_was_recorded():
    for text in (SERVER, over_processes(SERVER)):
        shutil.rmtree("run", ignore_errors=True)
        write("file.toml", text)
        with subprocess.Popen([BINARY, "run", "file.toml", "--record", "--out", "run", "--quiet",
                               "--set", "run.steps=100000"], stderr=subprocess.DEVNULL, process_group=0) as run:
            wait_for_recording("run")
            os.killpg(run.pid, signal.SIGKILL)
        done = replay("run")
        assert "the recording is of a run that did not finish" in done.stderr, done.stderr
        again = metrics("run-again")
        assert again[-1]["status"] == "interrupted" and again[-1]["step"] > 5, again[-1]
        demand_same_as_far("run")


def test_a_replay_ends_at_the_requested_step():
    write("file.toml", SERVER)
    troupe("run", "file.toml", "--record", "--out", "run")
    weights = set()
    for _ in range(2):
        done = replay("run", "--until", 23)
        assert "the replay was ended after 23 steps" in done.stderr, done.stderr
        end = metrics("run-again")[-1]
        assert (end["event"], end["step"], end["status"]) == ("end", 23, "interrupted"), end
        weights.add(pathlib.Path("run-again/model.safetensors").read_bytes())
    assert len(weights) == 1


@thorough
def test_a_requested_step_beyond_the_end_replays_the_whole_run():
    write("file.toml", SERVER.replace("[run]", '[run]\nbudget = "total"', 1))
    troupe("run", "file.toml", "--record", "--out", "run")
    steps = metrics("run")[-1]["step"]
    # Times the number of workers, 2^62 and 2^63 are 0 in 64 bits.
    for until in steps, 1_000_000, 2 ** 62, 2 ** 63, 2 ** 64 - 1:
        replay("run", "--until", until)
        end = metrics("run-again")[-1]
        assert (end["step"], end["status"]) in ((steps, "done"), (steps, "interrupted")), (until, end)
        same = pathlib.Path("run-again/model.safetensors").read_bytes() == pathlib.Path("run/model.safetensors").read_bytes()
        assert same, until


def test_what_cannot_be_recorded_is_refused():
    write("file.toml", SHARED.replace("lock = true", ""))
    done = troupe("run", "file.toml", "--record", "--out", "run", status=2)
    assert "set lock = true" in done.stderr, done.stderr
    assert not pathlib.Path("run").exists()
    write("file.toml", SERVER)
    troupe("run", "file.toml", "--out", "run")
    done = replay("run", status=2)
    assert "run --record" in done.stderr, done.stderr


def test_two_entries_that_have_changed_places_are_found():
    write("file.toml", SERVER)
    troupe("run", "file.toml", "--record", "--out", "run")
    path = pathlib.Path("run/deliveries.bin")
    whole = path.read_bytes()
    at, count = next(iter(blocks_of(whole)))
    parts = []  # of the first block: place, rank, step of each contribution
    for place in range(at + 16, at + 16 + 40 * count, 40):
        step, _, actor, kind, rank = struct.unpack_from("<QQIII", whole, place)
        if actor and kind == 1:
            parts.append((place, rank, step))
    first, second = next((a, b) for a, b in zip(parts, parts[1:]) if a[1] != b[1])
    swapped = bytearray(whole)
    swapped[first[0]:first[0] + 40], swapped[second[0]:second[0] + 40] = (
        whole[second[0]:second[0] + 40], whole[first[0]:first[0] + 40])
    path.write_bytes(swapped)
    done = replay("run", status=2)
    assert "deliveries.bin: block 1 at byte" in done.stderr and "checksum" in done.stderr, done.stderr

    # Also if the checksum fits.
    body = bytes(swapped[at + 16:at + 16 + 40 * count])
    struct.pack_into("<I", swapped, at + 12, crc32c(bytes(swapped[at:at + 12]) + body))
    path.write_bytes(swapped)
    done = replay("run", status=1)
    assert f"the contribution of rank {second[1]} to step {second[2] + 1}" in done.stderr, done.stderr


@thorough
def test_damaged_recordings_and_other_topologies_are_refused():
    write("file.toml", SERVER)
    troupe("run", "file.toml", "--record", "--out", "run")
    path = pathlib.Path("run/deliveries.bin")
    whole = path.read_bytes()
    draw = random.Random(1)
    for _ in range(12):
        other = bytearray(whole)
        other[draw.randrange(len(other) // 2)] ^= 1 << draw.randrange(8)
        path.write_bytes(other)
        done = replay("run", status=2)
        assert "deliveries.bin: " in done.stderr, done.stderr
    path.write_bytes(whole)
    topology = pathlib.Path("run/topology.toml")
    topology.write_text(topology.read_text().replace("0.02", "0.03"))
    done = replay("run", status=2)
    assert "optimizer.lr" in done.stderr, done.stderr


def record(settings, disturbance, draw):
    """Records a run of file.toml into the folder run, interrupted or with a node killed at a random moment if requested."""
    shutil.rmtree("run", ignore_errors=True)
    command = [BINARY, "run", "file.toml", "--record", "--out", "run", "--quiet"]
    for each in (*settings, *(["run.steps=100000"] if disturbance else [])):
        command += ["--set", each]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, process_group=0) as run:
        if disturbance:
            wait_for_recording("run")
            time.sleep(draw.uniform(0, 0.5))
            children = pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
            if disturbance == "interrupted":
                run.send_signal(signal.SIGINT)
            elif children:
                os.kill(int(draw.choice(children)), signal.SIGKILL)
            else:
                os.killpg(run.pid, signal.SIGKILL)
        assert run.wait(60) == {"": 0, "interrupted": 130}.get(disturbance, run.returncode), run.returncode


def test_thirty_runs_of_each_wiring():
    if not FULL:
        return print("SKIPPED: only with --full")
    draw = random.Random(1)
    for name, (text, settings) in WIRINGS.items():
        for placed in (text, over_processes(text)):
            write("file.toml", placed)
            for number in range(30):
                disturbance = ("", "interrupted", "killed")[number % 3]
                record(settings, disturbance, draw)
                replay("run")
                if disturbance != "killed":
                    demand_same("run")
                    continue
                demand_same_as_far("run")
            print(f"{name}, {'four processes' if placed != text else 'threads'}: 30 runs replayed", flush=True)


def test_a_replay_prints_json():
    write("file.toml", SERVER)
    troupe("run", "file.toml", "--record", "--out", "run", "--quiet")
    lines = [json.loads(line) for line in replay("run", "--json").stdout.splitlines()]
    assert lines[-1]["event"] == "end" and lines[-1]["status"] == "done", lines[-1]


main(globals())
