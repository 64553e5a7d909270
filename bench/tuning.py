#!/usr/bin/env python3
"""What does `troupe tune` find on four networks, and how long does it search? Four workers that train the convnet on the
digits: in a LAN; at homes with a slow uplink; in two data centres; and over Wi-Fi, where one worker is slow.

Prints a row for each network: the seconds of the search, the first choice, the predicted seconds to the target with it and
with exact averages in each step, and the range over the seeds. Requires an idle machine, because the search measures how
long a gradient takes.
    bench/tuning.py [--budget 100s] [--target 0.95]
"""

import argparse
import csv
import pathlib
import subprocess
import tempfile
import time

from measure import BUILD, ROOT, setting

LINK = '[[link]]\nat = "*"\nbandwidth = "{}"\nlatency = "{}"\n'
NETWORKS = {
    "LAN": LINK.format("1Gbit/s", "100us"),
    "home uplinks": LINK.format("20Mbit/s", "15ms"),
    "two data centres": LINK.format("500Mbit/s", "40ms"),
    "Wi-Fi, one worker half as fast": LINK.format("100Mbit/s", "3ms") + 'jitter = "3ms"\n[workers]\nslowdown = [1, 1, 1, 2]\n',
}


def search(network, options, folder):
    """Returns the seconds of the search and its rows."""
    links, out = pathlib.Path(folder, "links.toml"), pathlib.Path(folder, "out")
    links.write_text(network)
    begin = time.monotonic()
    subprocess.run([BUILD / "troupe", "tune", ROOT / "topologies/all_reduce.toml", "--links", links, "--target",
                    str(options.target), "--budget", options.budget, "--out", out, "--json", "--overwrite"],
                   check=True, capture_output=True)
    seconds = time.monotonic() - begin
    with open(out / "tune.csv", newline="") as file:
        return seconds, list(csv.DictReader(file))


def reached(rows, settings):
    """The predicted seconds to the target, sorted, for each seed with which these settings were trained."""
    return sorted(float(row["predicted_seconds_to_target"]) for row in rows
                  if row["settings"] == settings and row["kind"] == "curve" and row["predicted_seconds_to_target"])


def text(seconds):
    if not seconds:
        return "not reached"
    middle = f"{seconds[len(seconds) // 2]:.3g}"
    return middle if len(seconds) == 1 else f"{middle} ({seconds[0]:.3g} to {seconds[-1]:.3g})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", default="100s", help="for each search")
    parser.add_argument("--target", type=float, default=0.95, help="validation accuracy, from 0 to 1")
    options = parser.parse_args()
    setting()
    print("| network | search (s) | first choice | to the target (s) | exact averages (s) |\n|---|---|---|---|---|")
    for name, network in NETWORKS.items():
        with tempfile.TemporaryDirectory() as folder:
            seconds, rows = search(network, options, folder)
        best = rows[0]["settings"]
        print(f"| {name} | {seconds:.0f} | {best.replace('exchange.', '') or 'exact averages'} | {text(reached(rows, best))} | "
              f"{text(reached(rows, ''))} |", flush=True)


main()
