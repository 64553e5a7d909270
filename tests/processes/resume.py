"""Runs that are killed with SIGKILL at five random moments, and resumed each time, end in the same bytes as a run that
was left alone: model.safetensors, model_best.safetensors and metrics.jsonl, apart from times and `resume` lines. A case
with two placements changes from one to the other with each resume.

    resume.py            a few cases, which cover each optimizer, each schedule and changed placements
    resume.py --full     every deterministic topology with each optimizer and schedule
    resume.py --seed N   other moments
"""

import dataclasses
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time

from nodes import node_tables, processes, until
from troupe_command import BINARY, SOURCE, main, metrics, timeless, troupe, write

STEPS, EVERY, KILLS = 120, 5, 5
FULL = "--full" in sys.argv
SEED = int(sys.argv[sys.argv.index("--seed") + 1]) if "--seed" in sys.argv else 1
MORE = f'\n[evaluate]\nevery = 40\n[checkpoint]\nevery = {EVERY}\nkeep = {STEPS}\n'
OPTIMIZERS = {"sgd": 'name = "sgd"\nlr = 0.05\nmomentum = 0.9\n',
              "adam": 'name = "adam"\nlr = 0.002\n',
              "novograd": 'name = "novograd"\nlr = 0.01\n'}
SCHEDULES = {"constant": "", "step": 'schedule = "step"\ndecay_epochs = [1]\n', "cosine": 'schedule = "cosine"\n'}
TOPOLOGIES = ["all_reduce", "choco", "data_parallel", "ddp", "diloco", "dpsgd_ring", "easgd", "gossip_pga", "hierarchy",
              "int8_ddp", "model_averaging", "post_local_sgd", "powersgd", "ring_all_reduce", "single", "slowmo", "star",
              "star_overlapped", "streaming_diloco", "sync_ps", "top_k", "two_nodes"]
ASYNCHRONOUS = {"asgd", "hogwild", "hogwild_sparse"}
ONE, TWO = "one process", "two nodes"
FEW = [("all_reduce", "sgd", "constant", [ONE]), ("ddp", "adam", "cosine", [ONE]), ("sync_ps", "novograd", "step", [ONE]),
       ("two_nodes", "sgd", "step", [TWO]), ("dpsgd_ring", "adam", "constant", [ONE, TWO]),
       ("easgd", "sgd", "cosine", [TWO, ONE]), ("top_k", "sgd", "constant", [TWO, ONE]),
       ("post_local_sgd", "sgd", "cosine", [ONE, TWO]), ("powersgd", "sgd", "constant", [ONE, TWO]),
       ("streaming_diloco", "adam", "constant", [TWO, ONE])]


@dataclasses.dataclass
class Tally:
    """What was done to the runs of this script."""
    kills: int = 0
    before_first: int = 0  # kills before the first checkpoint was complete
    unfinished: int = 0    # kills that left a checkpoint unfinished
    checkpoints: int = 0   # those that were complete, of all runs that were killed

    def __str__(self):
        return (f"{self.kills} kills ({self.before_first} before the first checkpoint, {self.unfinished} while one was "
                f"being written), {self.checkpoints} checkpoints")


def topology(name, optimizer, schedule):
    """Returns a short run of a file of topologies/: an epoch and a quarter."""
    text = (SOURCE / "topologies" / f"{name}.toml").read_text()
    text, changed = re.subn(r"epochs = 3", f"steps = {STEPS}", text)
    assert changed == 1, name
    text = text.replace("batch_size = 16", "batch_size = 32").replace("batch_size = 64", "batch_size = 128")
    text, changed = re.subn(r"\[optimizer\]\n([^\[\n]+\n)+", f"[optimizer]\n{OPTIMIZERS[optimizer]}{SCHEDULES[schedule]}", text)
    assert changed == 1, name
    if optimizer == "novograd":
        text = text.replace("shards = 2", "shards = 1")  # it requires whole layers
    return text + MORE


def placed(text, placement):
    """Returns the same run of four workers with another placement."""
    text = re.sub(r"count += 4\n", "", re.sub(r"\[\[node\]\]\n([^\[\n]+\n)+", "", text))
    return text + node_tables([2, 2]) if placement == TWO else text.replace("[workers]\n", "[workers]\ncount = 4\n")


def newest(out):
    return max((int(path.name[5:]) for path in pathlib.Path(out, "checkpoints").glob("step-*")), default=0)


def unfinished(out):
    return any(pathlib.Path(out, "checkpoints").glob(".step-*"))


def kill_at(draw, process, out, step):
    """Kills the process and its nodes shortly after its checkpoint of `step`, or at its start if `step` has none, or
    while it writes the next checkpoint. Returns false if the run ended before."""
    while newest(out) < step // EVERY * EVERY and process.poll() is None:
        time.sleep(0.002)
    if draw.random() < 0.4:
        while not unfinished(out) and process.poll() is None:
            time.sleep(0.0005)
    else:
        time.sleep(draw.uniform(0, 0.03 if step >= EVERY else 0.5))
    if process.poll() is not None:
        assert process.returncode == 0, process.communicate()
        return False
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    until(lambda: not processes(), "all nodes are gone")
    return True


def killed_repeatedly(files, draw, tally):
    """Makes a run into out/ that is killed five times. `files`: one for each placement, used in turn."""
    kills = 0
    for part in range(KILLS + 1):
        file = files[part % len(files)]
        fresh = newest("out") == 0
        command = ["run", file, "--out", "out", "--overwrite"] if fresh else ["run", file, "--resume", "out"]
        if part == KILLS:
            troupe(*command)
            break
        process = subprocess.Popen([BINARY, *command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True, start_new_session=True)
        step = draw.randrange(part * STEPS // (KILLS + 1), (part + 1) * STEPS // (KILLS + 1))
        if not kill_at(draw, process, "out", step):
            break
        kills += 1
        tally.before_first += newest("out") == 0
        tally.unfinished += unfinished("out")
    assert kills > 0, "the run ended before it could be killed"
    tally.kills += kills
    tally.checkpoints += len(list(pathlib.Path("out", "checkpoints").glob("step-*")))


def expect_same():
    for name in ("model.safetensors", "model_best.safetensors"):
        assert pathlib.Path("out", name).read_bytes() == pathlib.Path("whole", name).read_bytes(), f"{name} differs"
    assert timeless("out") == timeless("whole"), "the metrics differ"
    assert any(line["event"] == "resume" for line in metrics("out")), "no run was resumed"


def check(cases):
    tally = Tally()
    for name, optimizer, schedule, placements in cases:
        case = f"{name}, {optimizer}, {schedule}, {' and '.join(placements)}"
        text = topology(name, optimizer, schedule)
        files = [write(f"{index}.toml", text if len(placements) == 1 else placed(text, placement))
                 for index, placement in enumerate(placements)]
        begin = time.monotonic()
        try:
            troupe("run", files[0], "--out", "whole", "--overwrite")
            killed_repeatedly(files, random.Random(f"{SEED} {case}"), tally)
            expect_same()
        except AssertionError as error:
            raise AssertionError(f"{case}, seed {SEED}: {error}") from error
        print(f"  {case}: {time.monotonic() - begin:.1f} s", flush=True)
        shutil.rmtree("out")
    assert tally.unfinished > 0, "no run was killed while it wrote a checkpoint"
    print(f"  {len(cases)} cases, all equal: {tally}")


def test_resumed_runs_end_in_the_same_bytes():
    if not FULL:
        return check(FEW)
    check([(name, optimizer, schedule, [TWO if name == "two_nodes" else ONE])
           for name in TOPOLOGIES for optimizer in OPTIMIZERS for schedule in SCHEDULES])


def test_with_changed_placements():
    if not FULL:
        return print("SKIPPED: only with --full; two of the few cases change the placement")
    check([(name, optimizer, schedule, placements) for name in TOPOLOGIES if name not in ("single", "data_parallel")
           for optimizer, schedule, placements in
           (("sgd", "step", [ONE, TWO]), ("adam", "constant", [TWO, ONE]), ("novograd", "cosine", [ONE, TWO]))])


def test_no_deterministic_topology_is_missing():
    found = {path.stem for path in (SOURCE / "topologies").glob("*.toml")}
    assert found == set(TOPOLOGIES) | ASYNCHRONOUS, found ^ set(TOPOLOGIES) ^ ASYNCHRONOUS


main(globals())
