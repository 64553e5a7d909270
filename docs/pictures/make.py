#!/usr/bin/env python3
"""Draws the picture of the README: a topology file, its wiring, and the accuracy of three wirings in training.

    docs/pictures/make.py                   draws what overview.csv holds
    docs/pictures/make.py build/troupe      trains first, and writes overview.csv

Writes overview.svg, whose colours follow the reader's preference, and overview-dark.svg, which is always dark.
Standard library only.
"""

import csv
import json
import pathlib
import re
import subprocess
import sys
import tempfile
from html import escape

HERE = pathlib.Path(__file__).resolve().parent
TOPOLOGIES = HERE.parent.parent / "topologies"
WIRING = "ring_all_reduce"
CURVES = ("ring_all_reduce", "dpsgd_ring", "asgd")
EVALUATE_EVERY = 11  # steps; a seventeenth of an epoch

WIDTH, HEIGHT = 830, 372
LIGHT = """
text { font-family: Helvetica, Arial, sans-serif; font-size: 13px; fill: #57606a }
.page { fill: #ffffff } .panel { fill: #f6f8fb } .heading { font-size: 15px; font-weight: bold; fill: #1f2933 }
.code { font-family: Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: 12.5px }
.code, .name { fill: #1f2933 } .grid { stroke: #d0d7de }
.worker { fill: #e7f0fa; stroke: #2b6cb0; stroke-width: 1.6 } .worker-name { font-weight: bold; fill: #1a365d }
.arrow, .c0 { stroke: #2b6cb0 } .head { fill: #2b6cb0 } .c1 { stroke: #c05621 } .c2 { stroke: #2f855a }
.curve { fill: none; stroke-width: 2.2; stroke-linejoin: round } .arrow { stroke-width: 1.8 }
"""
DARK = """
text { fill: #9da7b3 } .page { fill: #0d1117 } .panel { fill: #161b22 } .heading { fill: #e6edf3 }
.code, .name { fill: #e6edf3 } .grid { stroke: #30363d }
.worker { fill: #16304f; stroke: #6cb0f5 } .worker-name { fill: #dbeafe }
.arrow, .c0 { stroke: #6cb0f5 } .head { fill: #6cb0f5 } .c1 { stroke: #f0955c } .c2 { stroke: #62c48c }
"""


def train(troupe, name):
    """Returns epochs and validation accuracy, by evaluation."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([troupe, "run", TOPOLOGIES / f"{name}.toml", "--out", f"{folder}/out", "--quiet",
                        "--set", f"evaluate.every={EVALUATE_EVERY}"], check=True)
        lines = [json.loads(line) for line in pathlib.Path(folder, "out/metrics.jsonl").read_text().splitlines()]
    steps_of_epoch = next(line["step"] for line in lines if line["event"] == "epoch" and line["epoch"] == 1)
    return [(line["step"] / steps_of_epoch, line["val_accuracy"]) for line in lines if line["event"] == "evaluation"]


def write_curves(troupe):
    with open(HERE / "overview.csv", "w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(("topology", "epoch", "val_accuracy"))
        for name in CURVES:
            rows.writerows((name, f"{epoch:.4f}", accuracy) for epoch, accuracy in train(troupe, name))


def read_curves():
    curves = {name: [] for name in CURVES}
    with open(HERE / "overview.csv", newline="") as file:
        for row in csv.DictReader(file):
            curves[row["topology"]].append((float(row["epoch"]), float(row["val_accuracy"])))
    return curves


def text(x, y, words, kind="", anchor="start"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}" xml:space="preserve">'
            f'{escape(words)}</text>')


def sections(name, *wanted):
    """The lines of these sections of a topology file, as they stand there."""
    parts = re.split(r"\n(?=\[)", (TOPOLOGIES / f"{name}.toml").read_text().rstrip())
    chosen = [part.rstrip() for part in parts if part.split("]")[0].lstrip("[") in wanted]
    return "\n\n".join(chosen).splitlines()


def arrow(x0, y0, x1, y1):
    dx, dy = (x1 > x0) - (x1 < x0), (y1 > y0) - (y1 < y0)
    corners = [(x1, y1), (x1 - 10 * dx - 4 * dy, y1 - 10 * dy - 4 * dx), (x1 - 10 * dx + 4 * dy, y1 - 10 * dy + 4 * dx)]
    return [f'<line x1="{x0}" y1="{y0}" x2="{x1 - 9 * dx}" y2="{y1 - 9 * dy}" class="arrow"/>',
            f'<polygon points="{" ".join(f"{x},{y}" for x, y in corners)}" class="head"/>']


def wiring(left, top):
    """The ring, as `troupe graph` draws it."""
    width, height, right, down = 76, 38, 150, 92
    places = [(left, top), (left + right, top), (left + right, top + down), (left, top + down)]
    lines = []
    for rank, (x, y) in enumerate(places):
        lines.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="10" class="worker"/>')
        lines.append(text(x + width / 2, y + height / 2 + 5, f"w{rank}", "worker-name", "middle"))
    middle, across = top + height / 2, left + width / 2
    lines += arrow(left + width + 5, middle, left + right - 5, middle)
    lines += arrow(across + right, top + height + 5, across + right, top + down - 5)
    lines += arrow(left + right - 5, middle + down, left + width + 5, middle + down)
    return lines + arrow(across, top + down - 5, across, top + height + 5)


def chart(left, top, width, height, curves):
    last = max(epoch for curve in curves.values() for epoch, _ in curve)

    def at(epoch, accuracy):
        return left + width * epoch / last, top + height * (1 - accuracy)

    lines = []
    for percent in range(0, 101, 25):
        y = at(0, percent / 100)[1]
        lines += [f'<line x1="{left}" y1="{y}" x2="{left + width}" y2="{y}" class="grid"/>',
                  text(left - 8, y + 4, f"{percent} %", anchor="end")]
    for epoch in range(round(last) + 1):
        lines.append(text(at(epoch, 0)[0], top + height + 20, str(epoch), anchor="middle"))
    lines.append(text(left + width / 2, top + height + 40, "epoch", anchor="middle"))
    for number, (name, curve) in enumerate(curves.items()):
        points = " ".join("{:.1f},{:.1f}".format(*at(*point)) for point in curve)
        lines.append(f'<polyline points="{points}" class="curve c{number}"/>')
        y = top + height / 2 + 18 + 19 * number
        lines += [f'<line x1="{left + width - 224}" y1="{y - 4}" x2="{left + width - 200}" y2="{y - 4}" '
                  f'class="curve c{number}"/>',
                  text(left + width - 192, y, f"{name}.toml: {100 * curve[-1][1]:.1f} %", "name")]
    return lines


def picture(curves, dark_rules):
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
             f'height="{HEIGHT}" role="img">',
             "<title>A ring of four workers, the file that describes it, and the accuracy of three wirings</title>",
             f"<style>{LIGHT}{dark_rules}</style>", f'<rect width="{WIDTH}" height="{HEIGHT}" class="page"/>']
    for x, width in ((0, 376), (388, WIDTH - 388)):
        lines.append(f'<rect x="{x}" y="0" width="{width}" height="{HEIGHT}" rx="12" class="panel"/>')
    lines.append(text(24, 32, f"{WIRING}.toml", "heading"))
    for number, line in enumerate(sections(WIRING, "workers", "exchange")):
        lines.append(text(24, 58 + 17 * number, line, "code"))
    lines += wiring(75, 222)
    lines.append(text(412, 32, "Validation accuracy: 4 workers, built-in digits", "heading"))
    lines += chart(466, 56, 340, 256, curves)
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    if len(sys.argv) > 1:
        write_curves(sys.argv[1])
    measured = read_curves()
    (HERE / "overview.svg").write_text(picture(measured, f"@media (prefers-color-scheme: dark) {{{DARK}}}\n"))
    (HERE / "overview-dark.svg").write_text(picture(measured, DARK))
