"""What the studies share: simulated runs of topologies, and where results go. Requires only the standard library.

Each study is a program of its own. It prints its table as Markdown, and writes its figures to docs/studies/NAME.svg and
its numbers to docs/studies/NAME.csv, or into the folder that --out names. --small makes a few steps with a few workers,
to test the program.
"""

import argparse
import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parents[2]
BUILD = pathlib.Path(os.environ.get("TROUPE_BUILD", ROOT / "build"))
TROUPE = pathlib.Path(os.environ.get("TROUPE_BINARY", BUILD / "troupe"))


def arguments(text):
    """Returns the arguments of a study; `text` is its docstring."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="a few steps with a few workers, to test the program")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs/studies", help="folder of figures and numbers")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    return given


def troupe(*words):
    """Runs the command and returns what it prints."""
    done = subprocess.run([TROUPE, *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"troupe {' '.join(map(str, words))}\n{done.stderr}")
    return done.stdout


class Run:
    """The results of a simulated run: the lines of metrics.jsonl and the rows of workers.csv."""

    def __init__(self, topology, seed=0, compute="real", settings=()):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "study.toml")
            file.write_text(topology)
            changes = [word for each in settings for word in ("--set", each)]
            troupe("simulate", file, "--seed", seed, "--compute", compute, "--out", f"{folder}/out", "--quiet", *changes)
            self.lines = [json.loads(line) for line in pathlib.Path(folder, "out/metrics.jsonl").read_text().splitlines()]
            with open(f"{folder}/out/workers.csv", encoding="utf-8", newline="") as rows:
                self.workers = list(csv.DictReader(rows))
        print(".", end="", file=sys.stderr, flush=True)

    @property
    def end(self):
        return self.lines[-1]

    def idle_share(self):
        """Returns the mean share of the time in which a worker waits for an exchange."""
        waited = [float(row["exchange_wait_seconds"]) for row in self.workers]
        return sum(waited) / len(waited) / self.end["train_seconds"]


def planned(topology):
    """Returns the plan of a topology, as `troupe check --json` prints it."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "study.toml")
        file.write_text(topology)
        return json.loads(troupe("check", file, "--json"))


def write_csv(path, rows):
    """Writes dictionaries with the same keys."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def print_table(headings, rows):
    """Prints a table as Markdown."""
    print(file=sys.stderr)
    for row in (headings, ["---"] * len(headings), *rows):
        print("| " + " | ".join(map(str, row)) + " |")
