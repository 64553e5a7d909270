"""Each file of topologies/ trains on a GPU with the same result as on the CPU, up to rounding.

The model is lenet, which draws no random numbers, because a GPU draws different ones. Where the result depends on the
order of arrival, only the accuracy is compared. TROUPE_TEST_DEVICE=cpu rehearses the test without a GPU; otherwise, exit
status 77 means skipped: the build or the machine has no CUDA.
"""

import json
import os
import pathlib
import struct
import tomllib

from troupe_command import SOURCE, main, metrics, skip, thorough, troupe

DEVICE = os.environ.get("TROUPE_TEST_DEVICE", "cuda")
# CPUs of different instruction sets end up to 5e-4 apart after ten steps, and 5e-3 after forty: a kink of a ReLU that
# rounds the other way grows from step to step.
STEPS, APART = 10, 1e-3
MOVED = 10 * APART  # what training must change at least, so that the comparison can fail


def weights(folder):
    """All float32 values of a model file."""
    data = pathlib.Path(folder, "model.safetensors").read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    values = []
    for name, about in sorted(header.items()):
        if name != "__metadata__" and about["dtype"] == "F32":
            begin, end = about["data_offsets"]
            values += struct.unpack_from(f"<{(end - begin) // 4}f", data, 8 + length + begin)
    return values


def norm(values):
    return sum(value * value for value in values) ** 0.5


def distance(ours, theirs):
    return norm([a - b for a, b in zip(ours, theirs, strict=True)]) / norm(theirs)


def on(device, file):
    """The setting that puts the workers on the device. A list of devices keeps its length, and thus the workers."""
    listed = tomllib.loads(file.read_text()).get("workers", {}).get("device")
    if isinstance(listed, list):
        device = json.dumps(["cuda:0" if device == "cuda" else device] * len(listed))
    return ["--set", f"workers.device={device}"]


def compare(file):
    name, settings = file.stem, ["--set", "model.name=lenet"]
    plan = json.loads(troupe("check", file, "--json", *on("cpu", file)).stdout)
    if plan["sparsity"]:
        if DEVICE != "cpu":
            done = troupe("run", file, "--out", name, *on(DEVICE, file), status=2)
            assert "does not support the sparse samples" in done.stderr, done.stderr
            print("  refused: sparse samples")
            return
        settings = []

    def train(out, device, *more):
        troupe("run", file, "--out", out, *settings, *on(device, file), *more)

    if not plan["same_bits"]:
        train(name, DEVICE, "--set", "run.epochs=1")
        reached = metrics(name)[-1]["val_accuracy"]
        assert reached > 0.5, reached
        print(f"  accuracy {reached:.4f}")
        return
    short = ["--set", f"run.steps={STEPS}"]
    train("there", DEVICE, *short)
    train("here", "cpu", *short)
    train("start", "cpu", "--set", "run.steps=0")
    ours, theirs = weights("there"), weights("here")
    moved, apart = distance(weights("start"), theirs), distance(ours, theirs)
    print(f"  {apart:.1e} apart, {moved:.1e} from the start")
    assert moved > MOVED, f"training moved the weights by only {moved:.1e} of their norm"
    assert apart < APART, f"the weights differ by {apart:.1e} of their norm"
    there, here = metrics("there")[-1], metrics("here")[-1]
    assert there["bytes_sent"] == here["bytes_sent"], f"{there} {here}"


if DEVICE != "cpu":
    version = troupe("--version").stdout
    if "CUDA no" in version or "no device" in version:
        skip("no CUDA in this build, or no device")
SAMPLED = {"single", "all_reduce", "sync_ps", "dpsgd_ring"}
for each in sorted((SOURCE / "topologies").glob("*.toml")):
    def test(file=each):
        compare(file)
    globals()[f"test_{each.stem}"] = test if each.stem in SAMPLED else thorough(test)
main(globals())
