#!/usr/bin/env python3
"""How long does a process take to start its first training step? Less than one second is required on a warm machine.

Runs topologies/all_reduce.toml on the digits until its `start` event arrives on a pipe.
    cmake --preset release && cmake --build build && bench/start_up.py [repetitions]
"""

import json
import subprocess
import tempfile
import time

from measure import BUILD, ROOT, interleave, repetitions, setting, show


def first_step():
    with tempfile.TemporaryDirectory() as folder:
        begin = time.monotonic()
        with subprocess.Popen([BUILD / "troupe", "run", ROOT / "topologies/all_reduce.toml", "--out", f"{folder}/out",
                               "--json"], stdout=subprocess.PIPE, text=True) as process:
            line = process.stdout.readline()
            seconds = time.monotonic() - begin
            assert json.loads(line)["event"] == "start", line
            process.terminate()
            process.stdout.read()
    return seconds


def whole_run():
    with tempfile.TemporaryDirectory() as folder:
        begin = time.monotonic()
        subprocess.run([BUILD / "troupe", "run", ROOT / "topologies/all_reduce.toml", "--out", f"{folder}/out", "--quiet",
                        "--set", "run.steps=1"], check=True)
        return time.monotonic() - begin


def version():
    begin = time.monotonic()
    subprocess.run([BUILD / "troupe", "--version"], stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - begin


results = interleave({
    "process start to first step": first_step,
    "a whole run of one step, evaluated and saved": whole_run,
    "troupe --version (loading LibTorch)": version,
}, repetitions())
setting()
for name, seconds in results.items():
    show(name, seconds, "s")
