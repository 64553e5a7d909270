#!/usr/bin/env python3
"""How much loss does each low-communication method cost a language model, and how many bytes does it save?

Trains the GPT of topologies/recipes/gpt_characters.toml with four workers, on the same samples for each method and with three
seeds, and prints a row for each method: the loss on the held-out text, the bytes that a worker sends in a step, and both in
relation to DDP. In one process; bytes are counted as if every message went between processes.
    cmake --preset release && cmake --build build
    bench/low_communication.py [--steps N] [--seeds N] [--first-seed N] [METHOD …]
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

from measure import BUILD, ROOT, setting

WORKERS = 4
LOCAL = {"workers.loop": '["gradient", "apply", "exchange"]', "exchange.sends": "parameters"}


def encoded(encoding, **more):
    return {"exchange.encoding": encoding, **{f"exchange.{key}": value for key, value in more.items()}}


def local(every, **more):
    return {**LOCAL, "exchange.every": every, **{f"exchange.{key}": value for key, value in more.items()}}


def diloco(every, **more):
    return local(every, outer="nesterov", outer_lr=0.7, outer_momentum=0.6, **more)


METHODS = {
    "DDP": {},
    "bf16": encoded("bf16"),
    "int8": encoded("int8"),
    "int4": encoded("int4"),
    "sign": encoded("sign"),
    "top 1 %": encoded("top_k", ratio=0.01),
    "top 0.1 %": encoded("top_k", ratio=0.001),
    "random 1 %": encoded("random_k", ratio=0.01),
    "PowerSGD, rank 1": encoded("powersgd", rank=1),
    "PowerSGD, rank 4": encoded("powersgd", rank=4),
    "local SGD, H = 8": local(8),
    "local SGD, H = 32": local(32),
    "SlowMo, H = 32": local(32, outer="slowmo"),
    "DiLoCo, H = 32": diloco(32),
    "DiLoCo, H = 32, int4": diloco(32, encoding="int4"),
    "streaming DiLoCo, H = 32, 4 fragments": diloco(32, fragments=4),
    "streaming DiLoCo, H = 32, 4 fragments, 5 steps later": diloco(32, fragments=4, delay=5, mix=0.5),
    "DiLoCo, H = 100": diloco(100),
    "DiLoCo, H = 100, int4": diloco(100, encoding="int4"),
}


def run(settings, seed, steps):
    """Returns the loss on the held-out text, and the bytes that one worker sends in a step."""
    values = {"workers.count": WORKERS, "data.batch_size": 6, "run.steps": steps, "run.seed": seed,
              "evaluate.every": f"{steps} steps", **settings}
    more = [word for key, value in values.items() for word in ("--set", f"{key}={value}")]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([BUILD / "troupe", "run", ROOT / "topologies/recipes/gpt_characters.toml", "--out", f"{folder}/out",
                        "--quiet", *more], check=True)
        end = json.loads(pathlib.Path(folder, "out/metrics.jsonl").read_text().splitlines()[-1])
    return end["val_loss"], end["bytes_sent"] / WORKERS / steps


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("methods", nargs="*", help=f"of {', '.join(METHODS)}; default: all")
    given = parser.parse_args()
    names = ["DDP", *(name for name in given.methods or METHODS if name != "DDP")]
    found = {name: [] for name in names}
    for seed in range(given.first_seed, given.first_seed + given.seeds):
        for name in names:  # interleaved
            found[name].append(run(METHODS[name], seed, given.steps))
            print(f"{name}, seed {seed}: {found[name][-1]}", flush=True)
    setting()
    print("\n| method | loss, median | of the seeds | of DDP's | kB per step and worker | fewer bytes than DDP |\n"
          "|---|---|---|---|---|---|")
    base = statistics.median(loss for loss, _ in found["DDP"])
    base_bytes = found["DDP"][0][1]
    for name in names:
        losses, sent = sorted(loss for loss, _ in found[name]), found[name][0][1]
        print(f"| {name} | {statistics.median(losses):.4f} | {losses[0]:.4f} to {losses[-1]:.4f} | "
              f"{100 * (statistics.median(losses) / base - 1):+.2f} % | {sent / 1e3:.1f} | {base_bytes / sent:.1f} × |")


if __name__ == "__main__":
    main()
