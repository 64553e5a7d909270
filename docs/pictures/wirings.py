#!/usr/bin/env python3
"""Draws the wirings and the time lines of the documentation, with `troupe graph` and `troupe timeline`.

    docs/pictures/wirings.py build/troupe               writes docs/pictures/concepts/ and docs/pictures/timelines/
    docs/pictures/wirings.py build/troupe --out DIR     writes two folders in DIR

concepts/wiring-*.svg and concepts/step-*.svg are those of docs/concepts.md: four workers, of which the last takes 1.4 times
as long for a gradient as the first. The others differ a little, so that no result depends on the order of what falls on
one instant. timelines/ has one picture for each file of topologies/, for docs/algorithms.md. concepts/parts.svg is drawn by
hand. Requires only the standard library.
"""

import argparse
import pathlib
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
TOPOLOGIES = HERE.parent.parent / "topologies"
WIRINGS = ("all_reduce", "asgd", "dpsgd_ring", "hogwild")
UNEVEN = ("workers.slowdown=[1, 1.05, 1.1, 1.4]", "simulate.jitter=0", "simulate.memory=400MB/s")
STEPS = {"all_reduce": ("exchange.route=direct",), "sync_ps": ("exchange.shards=1",), "asgd": (), "dpsgd_ring": (),
         "hogwild": ()}


def draw(binary, what, topology, target, *words):
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([binary, what, TOPOLOGIES / f"{topology}.toml", "-o", target, "--overwrite", *words], check=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", help="the built command")
    parser.add_argument("--out", type=pathlib.Path, default=HERE, help="where the folders of the pictures are")
    given = parser.parse_args()
    for name in WIRINGS:
        draw(given.binary, "graph", name, given.out / f"concepts/wiring-{name}.svg")
    for name, settings in STEPS.items():
        changes = [word for each in (*UNEVEN, *settings) for word in ("--set", each)]
        draw(given.binary, "timeline", name, given.out / f"concepts/step-{name}.svg", "--steps", "4", *changes)
    for file in sorted(TOPOLOGIES.glob("*.toml")):
        draw(given.binary, "timeline", file.stem, given.out / f"timelines/{file.stem}.svg")
