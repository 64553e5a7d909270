"""Every wiring of topologies/, simulated under three seeds: a deterministic one ends in the bytes of its run, and an
asynchronous one in its own bytes again, in the outputs too."""

import json
import pathlib
import shutil

from troupe_command import SOURCE, main, timeless, troupe

STEPS = ["--set", "run.steps=24", "--set", "evaluate.every=8 steps"]
SEEDS = range(3)


def files():
    return sorted(path for folder in ("topologies", "topologies/compare") for path in (SOURCE / folder).glob("*.toml"))


def weights(out):
    return pathlib.Path(out, "model.safetensors").read_bytes()


def outputs(out):
    """Returns the bytes of each file but the mark of the folder, which says what process opened it, and when."""
    files = (path for path in pathlib.Path(out).iterdir() if path.is_file() and path.name != ".troupe-run")
    return {path.name: path.read_bytes() for path in files}


def simulate(file, seed, out):
    troupe("simulate", file, *STEPS, "--set", "simulate.gradient=10ms", "--seed", seed, "--out", out, "--overwrite", timeout=600)


def test_every_wiring_simulates_to_the_bytes_of_its_run_or_to_its_own():
    deterministic, asynchronous = [], []
    for file in files():
        plan = json.loads(troupe("check", file, *STEPS, "--json").stdout)
        for folder in ("run", "one", "two"):
            shutil.rmtree(folder, ignore_errors=True)
        if plan["same_bits"]:
            troupe("run", file, *STEPS, "--out", "run", timeout=600)
        for seed in SEEDS:
            simulate(file, seed, "one")
            if plan["same_bits"]:
                assert weights("run") == weights("one"), (file, seed)
                assert timeless("run") == timeless("one"), (file, seed)
            else:
                simulate(file, seed, "two")
                assert outputs("one") == outputs("two"), (file, seed)
        (deterministic if plan["same_bits"] else asynchronous).append(file.stem)
        print(f"   {file.stem}: {'the bytes of its run' if plan['same_bits'] else 'its own bytes again'}", flush=True)
    assert len(deterministic) > 10 and len(asynchronous) > 3, (deterministic, asynchronous)


main(globals())
