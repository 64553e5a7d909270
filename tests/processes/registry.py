"""What must hold of every exchange in the registry, over several processes: replicas that the wiring keeps equal are
equal after every step, and the weights are those of one process, bit for bit. tests/simulation/registry_test.cpp tests
the same in virtual time.

    registry.py          20 exchanges, drawn with their settings, encodings, workers and nodes; the files of topologies/
                         with encoding = "bf16", each with one number of workers
    registry.py --full   every combination of choices with 2 to 17 workers; those files with 2 to 17 workers
"""

import json
import os
import random
import subprocess
import sys
import tomllib

from nodes import node_tables, weights
from troupe_command import SOURCE, main, thorough, troupe, write

FULL = "--full" in sys.argv


@thorough
def test_drawn_exchanges():
    made = subprocess.run([os.environ["TROUPE_DRAWN"], ".", *([] if FULL else ["20"])], capture_output=True, text=True,
                          check=True)
    drawn = [line.split(" ", 1) for line in made.stdout.splitlines()]
    assert len(drawn) >= 20, made
    for number, what in drawn:
        print(" ", what, flush=True)
        for placed in "one", "more":
            troupe("run", f"{number}.{placed}.toml", "--out", placed, "--overwrite", "--quiet")
        assert weights("one") == weights("more"), f"{what}: the weights differ"


def for_workers(name, given, count):
    """Settings that give a file of topologies/ so many workers."""
    made = ["run.steps=3", "run.verify_every=1", f"workers.count={count}"]
    if "device" in given["workers"]:
        made.append("workers.device=cpu")
    if "global_batch_size" in given["data"]:
        made.append(f"data.global_batch_size={16 * count}")
    if name in ("diloco", "model_averaging", "slowmo"):
        made.append("exchange.every=1")
    if name == "streaming_diloco":
        made += ["exchange.every=2", "exchange.fragments=2", "exchange.delay=1"]
    if name == "post_local_sgd":
        made += ["exchange.sum.until=1", "exchange.average.from=1", "exchange.average.every=1"]
    if name == "gossip_pga":
        made.append("exchange.average.every=2")
    if name == "easgd":
        made.append(f"exchange.alpha={0.9 / count}")
    if name == "hierarchy":
        ranks = [f"w{rank}" for rank in range(count)]
        made += [f"exchange.left.members={json.dumps(ranks[:count // 2])}",
                 f"exchange.right.members={json.dumps(ranks[count // 2:])}"]
    return made


def settings(made):
    return [word for one in made for word in ("--set", one)]


def in_bf16(name, count):
    """Trains a file of topologies/ in one process and on two nodes. Exchanges that cannot be encoded say why."""
    file = SOURCE / "topologies" / f"{name}.toml"
    given = tomllib.loads(file.read_text())
    made = for_workers(name, given, count)
    plan = json.loads(troupe("check", file, "--json", *settings(made)).stdout)
    encoded = 0
    for exchange in plan["exchanges"]:
        if exchange["encoding"] != "float32":
            encoded += 1
            continue
        key = "exchange.encoding" if len(plan["exchanges"]) == 1 else f"exchange.{exchange['name']}.encoding"
        late = any(setting.startswith(f"exchange.{exchange['name']}.from=") for setting in made)
        if exchange["sends"] == "gradient" or exchange["kind"] == "all_reduce" and not late:
            made.append(f"{key}=bf16")
            encoded += 1
            continue
        said = troupe("check", file, *settings(made), "--set", f"{key}=bf16", status=2).stderr
        reason = "begins at the initial parameters" if late else {
            "shared": "sends no messages", "gossip": "set consensus_rate"}.get(
                exchange["kind"], "would round the parameters themselves")
        assert reason in said and "remove " in said, said
    print(f"  {name}, {count} workers: {encoded} of {len(plan['exchanges'])} exchanges are encoded", flush=True)
    if encoded == 0:
        return
    troupe("run", file, "--out", "one", "--overwrite", "--quiet", *settings(made))
    write("more.toml", f'extends = "{file}"\n' + node_tables([count // 2, count - count // 2]))
    troupe("run", "more.toml", "--out", "more", "--overwrite", "--quiet", *settings(made))
    if plan["same_bits"]:
        assert weights("one") == weights("more"), f"{name}, {count} workers: the weights differ"


def test_topologies_in_bf16():
    files = sorted(file.stem for file in (SOURCE / "topologies").glob("*.toml"))
    files = [name for name in files if name not in ("single", "two_nodes")]  # no exchange; all_reduce on two nodes
    draw = random.Random(1)
    for name in files:
        for count in range(2, 18) if FULL else [draw.randint(2, 17)]:
            in_bf16(name, count)


main(globals())
