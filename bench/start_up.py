#!/usr/bin/env python3
"""How long does it take to start the first training step? On a warm machine, less than 1 s is required of one process, 1.2 s
of four nodes on one host, and 2.5 s of four nodes with certificates.

Runs topologies/all_reduce.toml on the digits until its `start` event arrives on a pipe.
    cmake --preset release && cmake --build build && bench/start_up.py [repetitions]
"""

import json
import pathlib
import subprocess
import tempfile
import time

from measure import BUILD, ROOT, interleave, repetitions, setting, show


NODES = "".join(f'\n[[node]]\nname = "n{index}"\nworkers = 1\n' for index in range(4))


def first_step(nodes="", certificates=False):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "nodes.toml")
        file.write_text(f'extends = "{ROOT / "topologies/all_reduce.toml"}"\n{nodes}')
        options = []
        if certificates:
            names = [word for index in range(4) for word in ("--node", f"n{index}")]
            subprocess.run([BUILD / "troupe", "certs", f"{folder}/certs", *names], stdout=subprocess.DEVNULL, check=True)
            options = ["--set", f'security.certificates="{folder}/certs"']
        begin = time.monotonic()
        with subprocess.Popen([BUILD / "troupe", "run", file, "--out", f"{folder}/out", "--json", *options],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
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
    "four nodes": lambda: first_step(NODES),
    "four nodes with certificates": lambda: first_step(NODES, certificates=True),
    "a whole run of one step, evaluated and saved": whole_run,
    "troupe --version (loading LibTorch)": version,
}, repetitions())
setting()
for name, seconds in results.items():
    show(name, seconds, "s")
