"""Files that somebody has changed, as the command meets them: recordings and topologies. Whatever they contain, the command
ends in time, with one of its own exit statuses and one message; no signal ends it.

mutations.py [--full] [--count N] [--first SEED]: N files of each sort, 5,000 with --full. What a failure prints repeats it.
"""

import pathlib
import random
import re
import resource
import shutil
import struct
import subprocess
import sys

from checked_files import blocks_of, crc32c
from troupe_command import BINARY, main, troupe, write

# Of each command. A busy machine may take long for a few seconds of computing.
CPU_SECONDS, SECONDS = 60, 600

SERVER = """
[run]
seed = 1
steps = 12
[model]
name = "lenet"
[data]
name = "digits"
batch_size = 4
[optimizer]
lr = 0.02
[evaluate]
every = 6
[workers]
count = 3
loop = ["gradient", "exchange"]
[exchange]
kind = "parameter_server"
sends = "gradient"
apply = "each"
"""
EMULATED = SERVER + """
[[link]]
at = "*"
bandwidth = "100Mbit/s"
latency = "20ms"
[[link]]
between = ["w0", "s0"]
jitter = "5ms"
loss = 0.001
[simulate]
gradient = "12ms"
jitter = 0.1
memory = "8GB/s"
cores = 2
[security]
certificates = "nowhere"
insecure = false
"""
ODD = ["0", "-1", "1e308", "5e-324", "nan", "inf", "true", '""', '"*"', '"0s"', '"10000h"', '"1bit/s"', '"0.0000001bit/s"',
       "[]", "[[1], 2]", "{}", '"w99"', '"\\u0000"', "9223372036854775807", '["w0"]', '"1us"', "1979-05-27", "0.999999"]


def argument(name, default):
    return int(sys.argv[sys.argv.index(name) + 1]) if name in sys.argv else default


COUNT = argument("--count", 5000 if "--full" in sys.argv else 12)
FIRST = argument("--first", 0)


def limit():
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))


def demand_an_end(seed, *arguments):
    """Runs the command on a changed file."""
    try:
        done = subprocess.run([BINARY, *map(str, arguments)], capture_output=True, timeout=SECONDS, stdin=subprocess.DEVNULL,
                              check=False, preexec_fn=limit)
    except subprocess.TimeoutExpired:
        raise AssertionError(f"troupe {' '.join(map(str, arguments))} hangs; repeat it with --count 1 --first {seed}") from None
    said = done.stderr.decode()
    about = f"troupe {' '.join(map(str, arguments))}; repeat it with --count 1 --first {seed}\n{said}"
    assert done.returncode in (0, 1, 2), f"status {done.returncode}: {about}"
    assert (done.returncode == 0) == ("error:" not in said), about
    assert said.count("error:") <= 1 and len(said.splitlines()) <= 12 and "\33" not in said, about
    assert not re.search(r"terminate called|std::|basic_string|bad_alloc|vector::|map::at|stoul", said), about
    return done.returncode


def test_changed_topologies():
    statuses = [0, 0, 0]
    for seed in range(FIRST, FIRST + COUNT):
        draw = random.Random(seed)
        lines = EMULATED.splitlines()
        for _ in range(draw.randint(1, 3)):
            at = draw.randrange(len(lines))
            how = draw.randrange(6)
            if how == 0:
                del lines[at]
            elif how == 1:
                lines.insert(draw.randrange(len(lines)), lines[at])
            elif how == 2 and lines[at]:
                place = draw.randrange(len(lines[at]))
                lines[at] = lines[at][:place] + chr(draw.choice((0, 34, 44, 91, 93, 127, 233, 61, 10))) + lines[at][place + 1:]
            elif "=" in lines[at]:
                lines[at] = lines[at].split("=")[0] + "= " + draw.choice(ODD)
        pathlib.Path("changed.toml").write_bytes("\n".join(lines).encode("utf-8" if draw.random() < 0.9 else "latin-1"))
        checked = demand_an_end(seed, "check", "changed.toml")
        simulated = demand_an_end(seed, "simulate", "changed.toml", "--compute", "none", "--events", 2000, "--quiet",
                                  "--overwrite", "--out", "out")
        assert checked == 0 or simulated != 0, f"seed {seed}: check refuses what simulate accepts"
        statuses[simulated] += 1
    assert COUNT < 100 or statuses[0] and statuses[2], statuses


def test_changed_recordings():
    write("file.toml", SERVER)
    troupe("run", "file.toml", "--record", "--out", "run", "--quiet")
    path = pathlib.Path("run/deliveries.bin")
    whole = path.read_bytes()
    statuses = [0, 0, 0]
    for seed in range(FIRST, FIRST + COUNT):
        draw = random.Random(seed)
        other = bytearray(whole)
        how = draw.randrange(4)
        if how == 0:
            del other[draw.randrange(len(other)):]
        elif how == 1:
            for _ in range(draw.randint(1, 4)):
                other[draw.randrange(len(other))] ^= 1 << draw.randrange(8)
        else:  # with checksums that fit
            at, count = draw.choice([block for block in blocks_of(whole) if block[1] > 0])
            for _ in range(draw.randint(1, 3)):
                place = at + 16 + draw.randrange(40 * count)
                other[place] = draw.choice((0, 1, 255, other[place] ^ 1, draw.randrange(256)))
            struct.pack_into("<I", other, at + 12, crc32c(bytes(other[at:at + 12] + other[at + 16:at + 16 + 40 * count])))
        path.write_bytes(other)
        more = ["--until", str(draw.randint(1, 14))] if draw.random() < 0.3 else []
        statuses[demand_an_end(seed, "replay", "run", "--out", "again", "--overwrite", "--quiet", *more)] += 1
        shutil.rmtree("again", ignore_errors=True)
    assert COUNT < 100 or all(statuses), statuses


main(globals())
