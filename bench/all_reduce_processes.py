#!/usr/bin/env python3
"""How fast is an all-reduce between processes of one host, compared with gloo (torch.distributed)?

Runs both in turn with 2 and 4 processes and 1 KB, 1 MB and 25 MB of float32; prints the median time of a round at rank
0 in milliseconds.
    cmake --preset bench && cmake --build build && .venv/bin/python bench/all_reduce_processes.py [repetitions]
    (scripts/setup --python installs the packages that it imports)
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time

from measure import BUILD, interleave, repetitions, setting, show, spread

SIZES = {"1 KB": (256, 400), "1 MB": (256 << 10, 200), "25 MB": (6_553_600, 30)}  # elements, rounds
PROCESSES = (2, 4)


def gloo(rank, processes, elements, rounds, store):
    """Runs one process of gloo; rank 0 prints the median in milliseconds."""
    import torch
    from torch import distributed

    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=processes)
    values = torch.empty(elements)
    milliseconds = []
    for _ in range(rounds):
        values.fill_(rank + 1)
        begin = time.monotonic()
        distributed.all_reduce(values)
        milliseconds.append(1000 * (time.monotonic() - begin))
        assert values[-1] == processes * (processes + 1) / 2
    if rank == 0:
        print(statistics.median(milliseconds[rounds // 10:]))
    distributed.barrier()
    distributed.destroy_process_group()


def run_gloo(processes, elements, rounds):
    with tempfile.TemporaryDirectory() as folder:
        running = [
            subprocess.Popen(
                [sys.executable, __file__, "gloo", *map(str, (rank, processes, elements, rounds)), f"{folder}/store"],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for rank in range(processes)
        ]
        answer = float(running[0].communicate()[0])
        for one in running:
            one.wait()
    return answer


def run_troupe(processes, elements, rounds, route, encrypted=False):
    with tempfile.TemporaryDirectory() as folder:
        command = [BUILD / "bench/all_reduce_processes", *map(str, (processes, elements, rounds)), route]
        return float(subprocess.run(command + [folder] * encrypted, capture_output=True, check=True).stdout)


if __name__ == "__main__":
    if sys.argv[1:2] == ["gloo"]:
        rank, processes, elements, rounds = map(int, sys.argv[2:6])
        gloo(rank, processes, elements, rounds, sys.argv[6])
        sys.exit()
    routes = os.environ.get("ROUTES", "auto").split()
    variants = {}
    for processes in PROCESSES:
        for size, (elements, rounds) in SIZES.items():
            what = processes, elements, rounds
            variants[processes, size, "gloo"] = lambda what=what: run_gloo(*what)
            variants[processes, size, "TLS"] = lambda what=what: run_troupe(*what, routes[0], encrypted=True)
            for route in routes:
                variants[processes, size, route] = lambda what=what, route=route: run_troupe(*what, route)
    results = interleave(variants, repetitions())
    setting()
    for (processes, size, who), values in results.items():
        show(f"{processes} processes, {size}, {who}", values, "ms")
    for (processes, size, who), values in results.items():
        if who != "gloo":
            pairs = zip(results[processes, size, "gloo"], values)
            median, deviation = spread([theirs / ours for theirs, ours in pairs])
            print(f"  {processes} processes, {size}: {who} is {median:.2f} ± {deviation:.2f} times as fast as gloo")
