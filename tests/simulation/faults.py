"""The tests of faults between simulated nodes, divided among as many processes as this machine has cores.

    python3 tests/simulation/faults.py SEEDS [PROCESSES]

TROUPE_BUILD is the build folder (default: build).
"""

import os
import pathlib
import re
import subprocess
import sys
import threading
import time

seeds = int(sys.argv[1])
count = int(sys.argv[2]) if len(sys.argv) > 2 else os.cpu_count()
program = pathlib.Path(os.environ.get("TROUPE_BUILD", "build"), "tests", "simulation_test")
begin = time.monotonic()
printed = [""] * count
processes = [subprocess.Popen([program, "--test-case=*fault*"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env={**os.environ, "TROUPE_TESTS_FAULT_SEEDS": str(seeds),
                                   "TROUPE_TESTS_SHARD": f"{index}/{count}"})
             for index in range(count)]


def forward(index):
    for line in processes[index].stdout:
        printed[index] += line
        print(f"[{time.monotonic() - begin:6.0f} s, process {index}] {line.rstrip()}", flush=True)


threads = [threading.Thread(target=forward, args=(index,)) for index in range(count)]
for each in threads:
    each.start()
for each in threads:
    each.join()
runs, pairs = (sum(int(number) for text in printed for number in re.findall(pattern, text))
               for pattern in (r"(?m)^.*MESSAGE: (\d+) runs$", r"(?m)^.*MESSAGE: (\d+) runs of pairs$"))
failed = [index for index, process in enumerate(processes) if process.wait() != 0]
print(f"{runs} runs with a fault and {pairs} with two, {seeds} seeds, {time.monotonic() - begin:.0f} s, "
      f"{count} processes, {len(failed)} of them failed")
sys.exit(1 if failed else 0)
