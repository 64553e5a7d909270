"""Whatever stands in place of a file that a command reads, the command ends at once and names the path: a pipe to which
nothing writes, a device without an end, a socket, a folder, a link to itself, an empty file, a very large one.

special_files.py [--full]: every kind of every path; otherwise, every path with a pipe and one other kind. A new reader is
one more line in READERS.
"""

import os
import pathlib
import resource
import shutil
import socket
import struct
import subprocess
import sys
import zlib

from troupe_command import BINARY, TINY, main, thorough, troupe, write

FULL = "--full" in sys.argv
SECONDS, CPU_SECONDS, MEMORY = 60, 30, 12 << 30

SERVER = TINY.replace('kind = "all_reduce"', 'kind = "parameter_server"\napply = "each"').replace(
    'loop = ["gradient", "exchange", "apply"]', 'loop = ["gradient", "exchange"]') + '[checkpoint]\nevery = 10\n'


def data(name, file="", more=""):
    return f'[run]\nsteps = 2\n[model]\nname = "mlp"\n[data]\nname = "{name}"\nbatch_size = 1\n' + (
        f'file = "{file}"\n' if file else 'dir = "."\n') + more


def png():
    def chunk(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(b"\0abc")) + chunk(b"IEND", b""))


def safetensors(**tensors):
    header, content = "", b""
    for name, (kind, shape, values) in tensors.items():
        header += f'{"," if header else ""}"{name}":{{"dtype":"{kind}","shape":{shape},"data_offsets":[{len(content)},{len(content) + len(values)}]}}'
        content += values
    text = ("{" + header + "}").encode()
    return struct.pack("<Q", len(text)) + text + content


def make_all():
    """Everything that the commands below read, as it should be."""
    samples = safetensors(inputs=("F32", [2, 1], bytes(8)), targets=("I64", [2], bytes(8) + struct.pack("<q", 1)))
    for name in ("train.safetensors", "test.safetensors"):
        pathlib.Path(name).write_bytes(samples)
    write("text.txt", "abcabcabc" * 20)
    write("rows.txt", "1 1:1\n-1 2:1\n")
    write("ratings.txt", "0 0 1\n1 1 2\n")
    for name in ("cat", "dog"):
        pathlib.Path("images", name).mkdir(parents=True)
        pathlib.Path("images", name, "1.png").write_bytes(png())
    pathlib.Path("mnist").mkdir()
    for part in ("train", "t10k"):
        pathlib.Path("mnist", f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 0x803, 1, 2, 2) + b"abcd")
        pathlib.Path("mnist", f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, 1) + b"\1")
    pathlib.Path("cifar-10-batches-bin").mkdir()
    for part in [f"data_batch_{number}" for number in range(1, 6)] + ["test_batch"]:
        pathlib.Path("cifar-10-batches-bin", part + ".bin").write_bytes(bytes(3073))
    write("tiny.toml", SERVER)
    write("base.toml", TINY)
    write("extending.toml", 'extends = "base.toml"\n')
    write("tensors.toml", data("tensors", "train.safetensors", 'test_file = "test.safetensors"\n'))
    write("text.toml", data("text", "text.txt", "sequence_length = 4\n").replace("mlp", "gpt"))
    write("libsvm.toml", data("libsvm", "rows.txt").replace("mlp", "logistic"))
    write("mapped.toml", data("libsvm", "rows.txt", "mapped = true\n").replace("mlp", "logistic"))
    write("triplets.toml", data("triplets", "ratings.txt").replace("mlp", "matrix_completion"))
    write("images.toml", data("image_folder", "images"))
    write("mnist.toml", data("mnist"))
    write("cifar.toml", data("cifar10"))
    troupe("run", "tiny.toml", "--record", "--trace", "--out", "run", "--quiet")
    troupe("run", "tiny.toml", "--out", "unfinished", "--quiet")
    pathlib.Path("unfinished/model.safetensors").unlink()
    troupe("compare", "base.toml", "--repeat", "1", "--set", "run.steps=2", "--out", "comparison")
    troupe("tune", "base.toml", "--link", "1Mbit/s", "--vary", "exchange.every=1", "--budget", "60s", "--out", "search")
    troupe("certs", "certs", "--node", "alpha")
    write("init.toml", TINY.replace('name = "lenet"', 'name = "lenet"\ninit = "run/model.safetensors"'))
    write("script.toml", TINY.replace('name = "lenet"', 'script = "net.pt"'))
    write("net.pt", "not read")
    write("node.toml", TINY.replace("count = 2", "") + """
[[node]]
name = "alpha"
workers = 1
address = "127.0.0.1:4700"
[[node]]
name = "beta"
workers = 1
address = "127.0.0.2:4700"
[security]
certificates = "certs"
""")


CHECKPOINT = "unfinished/checkpoints/step-000000000010"
# A path, and a command that reads it.
READERS = [
    ("tiny.toml", "check tiny.toml"),
    ("tiny.toml", "graph tiny.toml --output new.svg"),
    ("tiny.toml", "run tiny.toml --out new"),
    ("tiny.toml", "simulate tiny.toml --out new"),
    ("base.toml", "compare base.toml --out new"),
    ("base.toml", "check extending.toml"),
    ("train.safetensors", "check tensors.toml"),
    ("test.safetensors", "check tensors.toml"),
    ("text.txt", "check text.toml"),
    ("rows.txt", "check libsvm.toml"),
    ("rows.txt", "check mapped.toml"),
    ("ratings.txt", "check triplets.toml"),
    ("images/cat/1.png", "check images.toml"),
    ("mnist/train-images-idx3-ubyte", "check mnist.toml"),
    ("mnist/t10k-labels-idx1-ubyte", "check mnist.toml"),
    ("cifar-10-batches-bin/data_batch_3.bin", "check cifar.toml"),
    ("cifar-10-batches-bin/test_batch.bin", "check cifar.toml"),
    ("run/model.safetensors", "check init.toml"),
    ("net.pt", "check script.toml"),
    ("run/model.safetensors", "eval run/model.safetensors"),
    ("run/deliveries.bin", "replay run --out new"),
    ("run/topology.toml", "replay run --out new"),
    ("run/metrics.jsonl", "explain-run run"),
    ("run/workers.csv", "explain-run run"),
    ("run/topology.toml", "explain-run run"),
    ("run/metrics.jsonl", "simulate tiny.toml --against run --out new"),
    ("run/workers.csv", "simulate tiny.toml --against run --out new"),
    ("run/topology.toml", "simulate tiny.toml --against run --out new"),
    (f"{CHECKPOINT}/manifest.json", "run tiny.toml --resume unfinished --set run.steps=30"),
    (f"{CHECKPOINT}/worker-0.safetensors", "run tiny.toml --resume unfinished --set run.steps=30"),
    ("comparison/comparison.json", "compare --resume comparison"),
    ("comparison/topologies/base.toml", "compare --resume comparison"),
    ("base.toml", "tune base.toml --link 1Mbit/s --out new"),
    ("base.toml", "tune tiny.toml --links base.toml --out new"),
    ("search/tune.json", "tune --resume search"),
    ("search/base.toml", "tune --resume search"),
    ("certs/authority.crt", "node node.toml --name alpha"),
    ("certs/alpha.crt", "node node.toml --name alpha"),
    ("certs/alpha.key", "node node.toml --name alpha"),
    ("certs/authority.key", "certs certs --node gamma"),
]


def pipe(path):
    os.mkfifo(path)


def endless(path):
    path.symlink_to("/dev/zero")


def terminal(path):
    path.symlink_to("/dev/ptmx")


def a_socket(path):
    with socket.socket(socket.AF_UNIX) as one:
        here = os.getcwd()
        os.chdir(path.parent)  # the path of a socket is short
        try:
            one.bind(path.name)
        finally:
            os.chdir(here)


def folder(path):
    path.mkdir()


def loop(path):
    path.symlink_to(path.name)


def nowhere(path):
    path.symlink_to("not there")


def empty(path):
    path.touch()


def enormous(path):
    path.touch()
    os.truncate(path, 1 << 42)  # takes no room


KINDS = {"pipe": pipe, "endless": endless, "socket": a_socket, "folder": folder, "loop": loop, "empty": empty, "enormous": enormous,
         "terminal": terminal, "nowhere": nowhere}
NOT_FILES = ("pipe", "endless", "socket", "loop", "terminal")


def limited():
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def refuse(path, words, kind):
    where = pathlib.Path(path)
    kept = where.with_name(where.name + ".kept")
    where.rename(kept)
    KINDS[kind](where)
    try:
        done = subprocess.run([BINARY, *words.split()], capture_output=True, timeout=SECONDS, stdin=subprocess.DEVNULL,
                              preexec_fn=limited, check=False)
        said = done.stderr.decode()
        about = f"{path} is {kind}: troupe {words}: status {done.returncode}\n{said}"
        resumed = "--resume unfinished" in words  # an earlier checkpoint may do
        assert done.returncode in ((0, 1, 2) if resumed or kind == "empty" else (1, 2)), about
        assert done.returncode == 0 or said.count("error: ") == 1, about
        assert where.name in said or where.parent.name in said or (resumed and done.returncode == 0) or done.returncode == 0, about
        if kind in NOT_FILES and done.returncode != 0:
            assert "regular file" in said or "writes to this pipe" in said or "Too many levels" in said or "no checkpoint is intact" in said, about
        for raw in ("bad_alloc", "std::", "basic_", "INTERNAL ASSERT", "filesystem error", "terminate called", "vector::"):
            assert raw not in said, about
    except subprocess.TimeoutExpired:
        raise AssertionError(f"{path} is {kind}: troupe {words} does not end") from None
    finally:
        if where.is_symlink() or not where.is_dir():
            where.unlink(missing_ok=True)
        else:
            shutil.rmtree(where)
        kept.rename(where)
        shutil.rmtree("new", ignore_errors=True)


@thorough
def test_what_is_no_file_is_named():
    make_all()
    others = [kind for kind in KINDS if kind != "pipe"]
    failures = []
    for index, (path, words) in enumerate(READERS):
        for kind in KINDS if FULL else ("pipe", others[index % len(others)]):
            try:
                refuse(path, words, kind)
            except AssertionError as failure:
                failures.append(str(failure))
    assert not failures, "\n".join(failures)


def test_a_cache_that_is_no_file_is_written_anew():
    make_all()
    for kind in ("pipe", "endless", "socket", "loop", "empty", "enormous"):
        KINDS[kind](pathlib.Path("rows.txt.rows"))
        troupe("check", "mapped.toml")
        assert pathlib.Path("rows.txt.rows").is_file() and not pathlib.Path("rows.txt.rows").is_symlink(), kind
        pathlib.Path("rows.txt.rows").unlink()


def test_a_topology_may_come_from_a_pipe():
    done = subprocess.run([BINARY, "check", "/dev/stdin"], input=TINY.encode(), capture_output=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr.decode()
    write("tiny.toml", TINY)
    done = subprocess.run(["bash", "-c", f'"{BINARY}" check <(cat tiny.toml)'], capture_output=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr.decode()
    done = subprocess.run(["bash", "-c", f'"{BINARY}" check <(sleep 4; cat tiny.toml)'], capture_output=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr.decode()
    done = subprocess.run(["bash", "-c", f'"{BINARY}" check <(cat /dev/zero)'], capture_output=True, timeout=SECONDS, check=False)
    assert done.returncode == 2 and b"larger than 1 MiB" in done.stderr, done.stderr.decode()


if __name__ == "__main__":
    main(globals())
