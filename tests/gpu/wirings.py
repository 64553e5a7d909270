"""Every file of topologies/ trains on the GPU with the same result as on the CPU.

The model is lenet, which draws no random numbers, because a GPU draws different ones. If the order of arrival matters,
only the accuracy is compared. Exit status 77 means skipped: the build or the machine has no CUDA.
"""

import json
import pathlib
import struct
import sys

from troupe_command import SOURCE, main, metrics, troupe

FIRST_COMES = {"asgd", "easgd"}  # whose result depends on what arrives first
GPU = ["--set", "workers.device=cuda"]
SHORT = ["--set", "run.epochs=1", "--set", "model.name=lenet"]


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


if "CUDA no" in troupe("--version").stdout or "no device" in troupe("--version").stdout:
    print("SKIPPED: no CUDA in this build, or no device")
    sys.exit(77)


def test_every_file():
    for file in sorted((SOURCE / "topologies").glob("*.toml")):
        name = file.stem
        for where, arguments in (("gpu", GPU), ("cpu", ["--set", "workers.device=cpu"])):
            troupe("run", file, "--out", f"{name}-{where}", *SHORT, *arguments, timeout=100)
        there, here = metrics(f"{name}-gpu")[-1], metrics(f"{name}-cpu")[-1]
        if name in FIRST_COMES:
            assert there["val_accuracy"] > 0.5, there
            continue
        ours, theirs = weights(f"{name}-gpu"), weights(f"{name}-cpu")
        apart = norm([a - b for a, b in zip(ours, theirs)]) / norm(theirs)
        print(f"{name}: {apart:.1e} apart")
        assert apart < 1e-3, f"{name}: the weights differ by {apart:.1e} of their norm"
        assert there["bytes_sent"] == here["bytes_sent"], f"{name}: {there} {here}"


main(globals())
