"""What a run keeps to itself: the numbers it draws, and the state of its workers in a checkpoint."""

import json

import numpy
from safetensors.numpy import load_file

INCREMENT = 0x9E3779B97F4A7C15
ROUNDING, COORDINATES, QUERY = 11, 12, 13  # purposes of draws


def finalised(z):
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


def keyed(seed, why, a, b):
    state = seed
    for word in (why, a, b):
        state = finalised((state + INCREMENT + word) % 2**64)
    return state


def uniform(key, first, count):
    """Draws of the stream `key`, elements [first, first + count), in [0, 1)."""
    return numpy.array([(finalised((key + (first + i + 1) * INCREMENT) % 2**64) >> 11) / 2**53 for i in range(count)])


def sample(key, k, m):
    """k of the numbers below m, ascending: Floyd's sample (Bentley and Floyd 1987), its numbers by Lemire's method."""
    chosen = set()
    for j in range(m - k, m):
        low = -1
        while low < 2**64 % (j + 1):
            key = (key + INCREMENT) % 2**64
            t, low = divmod(finalised(key) * (j + 1), 2**64)
        chosen.add(j if t in chosen else t)
    return sorted(chosen)


def workers_in(checkpoint):
    """The state of each worker in a folder step-…, by name."""
    files = {file.name: load_file(file) for file in checkpoint.glob("*.safetensors")}
    actors = json.loads((checkpoint / "manifest.json").read_text())["manifest"]["actors"]
    workers = []
    for rank in range(sum(name.startswith("worker ") for name in actors)):
        actor = actors[f"worker {rank}"]  # values that occur twice are stored once
        repeated = {name: files[of["file"]][of["name"]] for name, of in actor["repeated"].items()}
        workers.append({**files[actor["file"]], **repeated})
    return workers
