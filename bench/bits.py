#!/usr/bin/env python3
"""Which settings of the environment and of the machine change the bits of a result? Trains three small networks for 20
steps under each, with two workers on the built-in digits, and compares model.safetensors with that of the first row. The
last rows pretend to be another vendor's processor (bench/other_processor.c), if a C compiler and this processor allow it.
    bench/bits.py [MODEL …]
Takes about a minute. `=` means the same bytes as in the first row; others are shown by the first digits of their SHA-256.
"""

import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from measure import BUILD, TOGETHER, TOPOLOGY, setting

MODELS = sys.argv[1:] or ["mlp", "lenet", "convnet"]
WIRINGS = {"mlp": 'kind = "all_reduce"', "lenet": 'kind = "star"'}
RING = 'kind = "all_reduce"\nroute = "ring"'
KERNELS = ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "ONEDNN_DEFAULT_FPMATH_MODE",
           "DNNL_DEFAULT_FPMATH_MODE", "MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS")
ROWS = [
    "", "repeated",
    *(f"ATEN_CPU_CAPABILITY={isa}" for isa in ("default", "avx2", "avx512")),
    *(f"ONEDNN_MAX_CPU_ISA={isa}" for isa in ("SSE41", "AVX", "AVX2", "AVX512_CORE", "AVX512_CORE_AMX")),
    "ONEDNN_DEFAULT_FPMATH_MODE=BF16", "ONEDNN_CPU_ISA_HINTS=PREFER_YMM",
    *(f"MKL_CBWR={branch}" for branch in ("AUTO", "COMPATIBLE", "AVX", "AVX2", "AVX512", "AVX512,STRICT")),
    "MKL_ENABLE_INSTRUCTIONS=AVX2",
    "run.threads=2", "OMP_NUM_THREADS=2", "MKL_NUM_THREADS=2", "one core", "MALLOC_CONF=thp:never",
    "GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX512F,-AVX2,-FMA",
    "other vendor", "other vendor MKL_CBWR=COMPATIBLE", "other vendor MKL_CBWR=AVX2",
]


def compiled(folder):
    """Returns the library that pretends to be another processor, or None if that is not possible here."""
    library = pathlib.Path(folder, "other_processor.so")
    source = pathlib.Path(__file__).with_name("other_processor.c")
    try:
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
        subprocess.run(["true"], env=dict(os.environ, LD_PRELOAD=str(library)), check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return library


def digest(folder, model, row, library):
    """Returns the SHA-256 of the trained weights, or the digest of --version if no model is given."""
    environment = {name: value for name, value in os.environ.items() if name not in KERNELS}
    words = [BUILD / "troupe"]
    if model:
        file, out = pathlib.Path(folder, "bits.toml"), pathlib.Path(folder, "out")
        file.write_text(TOPOLOGY.format(model=model, data='name = "digits"', batch=16, lr=0.05, workers=2, steps=20,
                                        loop=TOGETHER, exchange=f"[exchange]\n{WIRINGS.get(model, RING)}", nodes=""))
        words += ["run", file, "--out", out, "--overwrite", "--quiet"]
    else:
        words += ["--version"]
    if row.startswith("other vendor"):
        environment["LD_PRELOAD"] = str(library)
    for name, value in re.findall(r"([A-Z_]+)=(\S+)", row):
        environment[name] = value
    if row == "one core":
        words = ["taskset", "1", *words]
    if row.startswith("run.") and model:
        words += ["--set", row]
    done = subprocess.run(words, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    if model:
        return hashlib.sha256((out / "model.safetensors").read_bytes()).hexdigest()[:8]
    return re.search(r"^arithmetic (.+)$", done.stdout, re.MULTILINE)[1]


with tempfile.TemporaryDirectory() as folder:
    setting()
    library = compiled(folder)
    columns = [*MODELS, ""]
    print(f"| {'setting':<52} | {' | '.join(f'{name:<8}' for name in [*MODELS, '--version'])} |")
    print("|---" * (len(columns) + 1) + "|")
    first = None
    for row in ROWS:
        if row.startswith("other vendor") and library is None:
            continue
        found = [digest(folder, model, row, library) for model in columns]
        shown = [one if first is None else "=" if one == other else one for one, other in zip(found, first or found)]
        first = first or found
        print(f"| {row or 'no setting':<52} | {' | '.join(f'{text:<8}' for text in shown)} |", flush=True)
