"""Runs the command as a user does. The tests of tests/cli and tests/parity share it; it uses only the standard library.

A test script consists of functions `test_…` that main() calls, each in a new, empty current folder. The environment
variables TROUPE_BINARY, TROUPE_SOURCE and TROUPE_DATA are set as the build sets them for ctest.
"""

import csv
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

BINARY = os.environ.get("TROUPE_BINARY", "build/troupe")
SOURCE = pathlib.Path(os.environ.get("TROUPE_SOURCE", pathlib.Path(__file__).parents[2]))

# A run of well under a second of training: two workers, twenty steps.
TINY = """
[run]
seed = 1
steps = 20
[model]
name = "lenet"
[data]
name = "digits"
batch_size = 8
[optimizer]
lr = 0.05
[workers]
count = 2
loop = ["gradient", "exchange", "apply"]
[exchange]
kind = "all_reduce"
"""

# The fields of metrics.jsonl that depend on the clock.
TIMES = {"seconds", "train_seconds", "samples_per_second", "epoch_seconds", "data_wait", "origin"}


def write(name, text):
    """Writes a file into the current folder and returns its name."""
    pathlib.Path(name).write_text(text)
    return name


def carried(arguments):
    """The arguments of a command, with what carries control messages between nodes: frames or caf, if TROUPE_CONTROL is
    set, instead of the default."""
    words, control = [str(word) for word in arguments], os.environ.get("TROUPE_CONTROL")
    return words + ["--set", f"transport.control={control}"] if control and words[0] in ("run", "node") else words


def troupe(*arguments, status=0, timeout=120, binary=BINARY):
    """Runs the command, demands its exit status, and returns what it was: stdout, stderr, and its seconds of wall time and of
    CPU time, which a busy machine hardly changes."""
    begin, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([binary, *carried(arguments)], capture_output=True, text=True, timeout=timeout,
                          stdin=subprocess.DEVNULL, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    done.seconds = time.monotonic() - begin
    done.cpu_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    said = f"troupe {' '.join(map(str, arguments))}\n--- stdout\n{done.stdout}\n--- stderr\n{done.stderr}"
    assert done.returncode == status, f"status {done.returncode} instead of {status}: {said}"
    return done


def metrics(folder):
    """Reads metrics.jsonl; a number that JSON does not have fails."""
    def refuse(word):
        raise AssertionError(f"{word} in metrics.jsonl")
    lines = pathlib.Path(folder, "metrics.jsonl").read_text().splitlines()
    return [json.loads(line, parse_constant=refuse) for line in lines]


def timeless(folder):
    """Reads metrics.jsonl without its times, and without its `resume` lines."""
    return [{key: value for key, value in line.items() if key not in TIMES}
            for line in metrics(folder) if line["event"] != "resume"]


def epochs(folder):
    """Reads epochs.csv as a list of dicts."""
    with open(pathlib.Path(folder, "epochs.csv"), newline="") as file:
        return list(csv.DictReader(file))


def skip(reason):
    """Ends the script: ctest shows the test as skipped."""
    print(f"SKIPPED: {reason}")
    sys.exit(77)


def thorough(test):
    """Marks a test of several seconds that another one samples: scripts/test leaves it out unless it gets --all."""
    test.is_thorough = True
    return test


def main(tests):
    """Runs the functions of `tests` whose names begin with test_, all of them, and fails if one fails."""
    samples = bool(os.environ.get("TROUPE_TESTS_SAMPLE"))
    failed = 0
    wanted = [argument for argument in sys.argv[1:] if argument.startswith("test_")]
    for name, test in list(tests.items()):
        if not name.startswith("test_") or (wanted and name not in wanted):
            continue
        if samples and not wanted and getattr(test, "is_thorough", False):
            print(f"{name[5:].replace('_', ' ')}: left out of the sample")
            continue
        begin = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="troupe-test-", ignore_cleanup_errors=True) as folder:
            home = os.getcwd()
            os.chdir(folder)
            try:
                test()
                verdict = "passed"
            except (AssertionError, OSError, RuntimeError, subprocess.SubprocessError, ValueError, LookupError) as error:
                failed += 1
                line = error.__traceback__
                while line.tb_next:
                    line = line.tb_next
                verdict = f"FAILED at {pathlib.Path(line.tb_frame.f_code.co_filename).name}:{line.tb_lineno}: {error!r}"
                verdict += f"\n{error}"
            finally:
                os.chdir(home)
        print(f"{name[5:].replace('_', ' ')}: {verdict} ({time.monotonic() - begin:.1f} s)", flush=True)
    sys.exit(1 if failed else 0)
