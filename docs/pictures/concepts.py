#!/usr/bin/env python3
"""Draws the pictures of docs/concepts.md, from what the command itself makes of topology files.

    docs/pictures/concepts.py build/troupe               writes docs/pictures/concepts/
    docs/pictures/concepts.py build/troupe --out DIR     writes another folder

wiring-*.svg are drawings of `troupe graph`. step-*.svg are time lines of the first steps, drawn from the trace of
`troupe simulate`: four workers, of which the last takes twice as long for a gradient as the first, on a network with
1.5 ms of latency. The others differ a little, so that no result depends on the order of what falls on one instant.
parts.svg is drawn by hand. Requires only the standard library.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile
from html import escape

HERE = pathlib.Path(__file__).resolve().parent
TOPOLOGIES = HERE.parent.parent / "topologies"
WIRINGS = ("all_reduce", "asgd", "dpsgd_ring", "hogwild")
SIMULATED = ("run.steps=12", "evaluate.every=12 steps", "workers.slowdown=[1, 1.05, 1.1, 2]", "simulate.gradient=10ms",
             "simulate.jitter=0", "simulate.memory=400MB/s")
NETWORK = ("link.at=*", "link.latency=1500us", "link.bandwidth=200MB/s")
STEPS = {  # topology: settings, name of the row below the workers, title
    "all_reduce": ((*NETWORK, "exchange.route=direct"), None,
                   "All-reduce: every worker needs a part of the mean from every other"),
    "sync_ps": ((*NETWORK, "exchange.shards=1"), "server",
                "A synchronous server: it answers when it has all gradients"),
    "asgd": (NETWORK, "server", "An asynchronous server: it answers each gradient at once"),
    "dpsgd_ring": (NETWORK, None, "Gossip on a ring: a worker needs the parameters of its two neighbours"),
    "hogwild": ((), "memory", "Shared memory: no messages, and no worker waits"),
}

SHOWN = 72.0  # milliseconds
LEFT, TOP, ROW, BLOCK, SCALE = 92, 44, 38, 24, 10.0
WIDTH = LEFT + round(SHOWN * SCALE) + 18
STYLE = """
text { font: 13px Helvetica, Arial, sans-serif; fill: #57606a }
.page { fill: #ffffff } .title { font-size: 15px; font-weight: bold; fill: #1f2933 } .name { fill: #1f2933 }
.computes { fill: #e7f0fa; stroke: #2b6cb0 }
.number { fill: #1a365d; font-weight: bold; stroke: #e7f0fa; stroke-width: 4; paint-order: stroke }
.waits { fill: url(#waiting); stroke: #b4bcc6 } .hatch { stroke: #b4bcc6 } .ground { fill: #ffffff }
.updates { fill: #1f6f64; stroke: #1f6f64 } .part { stroke: #c05621 } .head { fill: #c05621 }
.grid { stroke: #e3e7ec }
@media (prefers-color-scheme: dark) {
text { fill: #9da7b3 } .page, .ground { fill: #0d1117 } .title, .name { fill: #e6edf3 }
.computes { fill: #16304f; stroke: #6cb0f5 } .number { fill: #dbeafe; stroke: #16304f }
.waits { stroke: #4b5563 } .hatch { stroke: #4b5563 } .updates { fill: #56c2b2; stroke: #56c2b2 }
.part { stroke: #f0955c } .head { fill: #f0955c } .grid { stroke: #21262d }
}
"""
DEFINITIONS = """<defs><pattern id="waiting" width="6" height="6" patternUnits="userSpaceOnUse">
<rect width="6" height="6" class="ground"/><path d="M0,6 L6,0" class="hatch"/></pattern>
<marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
<path d="M0,1 L8,4 L0,7 z" class="head"/></marker></defs>"""


def troupe(binary, *words):
    subprocess.run([binary, *map(str, words)], check=True, stdout=subprocess.DEVNULL)


def trace_of(binary, topology, settings):
    """Returns the spans of each track of a simulated run."""
    with tempfile.TemporaryDirectory() as folder:
        changes = [word for each in (*SIMULATED, *settings) for word in ("--set", each)]
        troupe(binary, "simulate", TOPOLOGIES / f"{topology}.toml", "--compute", "none", "--trace", "--quiet",
               "--out", folder + "/out", *changes)
        events = json.loads(pathlib.Path(folder, "out/trace.json").read_text())
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    tracks = {}
    for event in events:
        if event["ph"] == "X":
            tracks.setdefault(names[event["tid"]], []).append(event)
    return tracks


def across(microseconds):
    return LEFT + SCALE * microseconds / 1000


def text(x, y, words, kind, anchor="start"):
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'


def block(row, begin, end, kind):
    """A box for a span of time, cut off where the picture ends; nothing if it is too narrow to be seen."""
    left, right = across(begin), across(min(end, 1000 * SHOWN))
    if right - left < 1.5:
        return []
    return [f'<rect x="{left:.1f}" y="{TOP + ROW * row + (ROW - BLOCK) / 2}" width="{right - left:.1f}" '
            f'height="{BLOCK}" rx="3" class="{kind}"/>']


def number(row, begin, end, step):
    """The number of a step, in the middle of its box, if there is room."""
    left, right = across(begin), across(min(end, 1000 * SHOWN))
    if right - left < 20:
        return []
    return [text((left + right) / 2, TOP + ROW * (row + 0.5) + 4.5, str(step), "number", "middle")]


def steps_of(spans):
    """Returns begin and end of each step of a worker. A job of shared memory has many, which take equally long."""
    for span in spans:
        count = span["args"]["gradients"] if span["name"] in ("gradient", "step") else 0
        for i in range(count):
            yield span["ts"] + span["dur"] * i / count, span["ts"] + span["dur"] * (i + 1) / count


def arrow(from_row, begin, to_row, end):
    """An arrow between the edges of the boxes of two rows."""
    if end > 1000 * SHOWN:
        return []
    middle, down = TOP + ROW / 2, 1 if to_row > from_row else -1
    return [f'<line x1="{across(begin):.1f}" y1="{middle + ROW * from_row + down * BLOCK / 2}" x2="{across(end):.1f}" '
            f'y2="{middle + ROW * to_row - down * (BLOCK / 2 + 1)}" class="part" marker-end="url(#arrow)"/>']


def parts(tracks, rows):
    """Arrows from where a part was sent to where it was received."""
    ports = {f"exchange {row} parts" if name != "server" else "exchange server 0 parts": row
             for row, name in enumerate(rows)}
    sent = {event["bind_id"]: (ports[track], event["ts"])
            for track in tracks if track in ports for event in tracks[track] if event.get("flow_out")}
    return [line for track in tracks if track in ports for event in tracks[track] if event.get("flow_in")
            for line in arrow(*sent[event["bind_id"]], ports[track], event["ts"])]


def time_line(tracks, other, title):
    """The picture of one run; `other` names the row below the workers, if there is one."""
    workers = sorted(track for track in tracks if track.startswith("compute "))
    rows = workers + [other] * (other is not None)
    bottom = TOP + ROW * len(rows)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 58}" width="{WIDTH}" '
             f'height="{bottom + 58}" role="img">', f"<title>{escape(title)}</title>", f"<style>{STYLE}</style>",
             DEFINITIONS, f'<rect width="{WIDTH}" height="{bottom + 58}" rx="8" class="page"/>',
             text(16, 26, title, "title")]
    for ms in range(0, round(SHOWN) + 1, 10):
        lines += [f'<path d="M{across(1000 * ms):.1f},{TOP} V{bottom}" class="grid"/>',
                  text(across(1000 * ms), bottom + 17, f"{ms} ms", "time", "middle")]
    arrows, numbers = parts(tracks, rows), []
    for row, name in enumerate(rows):
        lines.append(text(16, TOP + ROW * (row + 0.5) + 4.5, name.replace("compute", "worker"), "name"))
        if name == "server":
            lines += [line for span in tracks["exchange server 0"]
                      for line in block(row, span["ts"], span["ts"] + span["dur"], "updates")]
        if name == "memory":
            lines.append(f'<rect x="{LEFT}" y="{TOP + ROW * row + 13}" width="{SHOWN * SCALE}" height="12" rx="3" '
                         'class="updates"/>')
        if name not in workers:
            continue
        for step, (begin, end) in enumerate(steps_of(tracks[name]), 1):
            lines += block(row, begin, end, "computes")
            numbers += number(row, begin, end, step)
            if other == "memory":
                arrows += arrow(row, end, len(workers), end)
        for span in tracks.get(name.replace("compute", "worker"), []):
            if span["name"] == "wait for exchange":
                lines += block(row, span["ts"], span["ts"] + span["dur"], "waits")
    return "\n".join([*lines, *sorted(arrows), *numbers, *legend(bottom + 42, other), "</svg>", ""])


def legend(y, other):
    """What the boxes and arrows mean, below the time axis."""
    shown = [("computes", "computes its step 1, 2, …", 190)]
    if other != "memory":
        shown.append(("waits", "waits for the exchange", 176))
    if other == "server":
        shown.append(("updates", "adds or applies a gradient", 196))
    lines, x = [], LEFT
    for kind, words, width in shown:
        lines += [f'<rect x="{x}" y="{y - 10}" width="22" height="13" rx="3" class="{kind}"/>',
                  text(x + 29, y + 1, words, "key")]
        x += width + 12
    words = "adds its step to the memory" if other == "memory" else "sends tensors"
    return lines + [f'<line x1="{x}" y1="{y - 3}" x2="{x + 22}" y2="{y - 3}" class="part" marker-end="url(#arrow)"/>',
                    text(x + 29, y + 1, words, "key")]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", help="the built command")
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "concepts", help="folder of the pictures")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for name in WIRINGS:
        troupe(given.binary, "graph", TOPOLOGIES / f"{name}.toml", "-o", given.out / f"wiring-{name}.svg",
               "--overwrite")
    for name, (settings, other, title) in STEPS.items():
        picture = time_line(trace_of(given.binary, name, settings), other, title)
        (given.out / f"step-{name}.svg").write_text(picture)
