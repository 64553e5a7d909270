"""Wrong input: status 2 within a second of CPU time, with the place, the reason and the fix; nothing is started or
written."""

import os
import pathlib
import signal
import subprocess

from troupe_command import BINARY, TINY, main, troupe, write


def refuse(*arguments, says):
    done = troupe(*arguments, status=2)
    for word in says:
        assert word in done.stderr, f"'{word}' is missing from: {done.stderr}"
    assert done.cpu_seconds < 1, f"took {done.cpu_seconds:.2f} s of CPU time"
    assert not pathlib.Path("out").exists(), "something was written"


def with_line(line, section):
    return TINY.replace(f"[{section}]\n", f"[{section}]\n{line}\n")


def test_an_unknown_key_is_located_and_mended():
    text = with_line("learning_rate = 0.1", "optimizer")
    line = text.splitlines().index("learning_rate = 0.1") + 1
    refuse("run", write("bad.toml", text), "--out", "out", says=[f"bad.toml:{line}:1", "learning_rate"])
    refuse("run", write("bad.toml", TINY.replace("lr =", "lrr =")), "--out", "out", says=["bad.toml:", "lrr", "lr"])


def test_bad_files_are_refused_before_anything_starts():
    bad = {
        "syntax": ("[run\n", "bad.toml:1:"),
        "wrong type": (TINY.replace("seed = 1", 'seed = "one"'), "seed"),
        "zero workers": (TINY.replace("count = 2", "count = 0"), "count"),
        "unknown model": (TINY.replace('"lenet"', '"lenett"'), "lenet"),
        "unknown data set": (TINY.replace('"digits"', '"digit"'), "digits"),
        "unknown kind": (TINY.replace('"all_reduce"', '"allreduce"'), "all_reduce"),
        "no apply": (TINY.replace(', "apply"', ""), "apply"),
        "epochs and steps": (with_line("epochs = 1", "run"), "epochs"),
        "no step in an epoch": (TINY.replace("batch_size = 8", "batch_size = 999999"), "batch_size"),
        "absurd count": (TINY.replace("count = 2", "count = 99999999999"), "count"),
    }
    for what, (text, word) in bad.items():
        print("  ", what)
        for command in (["run"], ["check"]):
            out = ["--out", "out"] if command == ["run"] else []
            refuse(*command, write("bad.toml", text), *out, says=["bad.toml", word])


def test_overrides_are_checked_like_the_file():
    tiny = write("tiny.toml", TINY)
    refuse("run", tiny, "--out", "out", "--set", "run.stepps=3", says=["--set", "stepps", "steps"])
    refuse("run", tiny, "--out", "out", "--set", "run.seed=1", "--set", "workers.count=none", says=["--set", "count"])
    refuse("check", tiny, "--set", 'link.between=["w0", "w0"]', "--set", "link.latency=1ms",
           says=['names "w0" twice; expected two different workers'])


def test_a_device_that_is_not_there_is_refused_with_the_mend():
    cuda = next(line for line in troupe("--version").stdout.splitlines() if line.startswith("CUDA "))
    file = write("gpu.toml", with_line('device = "cuda:99"', "workers"))
    if cuda == "CUDA no":
        says = ['workers.device = "cuda:99"', "this build does not include it", 'use "cpu"']
    elif "no device" in cuda:
        says = ['workers.device = "cuda:99"', "CUDA finds none: ", 'use "cpu"']
    else:
        says = ["this machine has", "cuda:0"]
    refuse("run", file, "--out", "out", says=["gpu.toml", *says])
    refuse("check", file, says=["gpu.toml", *says])


def test_missing_files_are_named():
    refuse("run", "nowhere.toml", "--out", "out", says=["nowhere.toml"])
    refuse("eval", "nowhere.safetensors", says=["nowhere.safetensors"])
    missing = TINY.replace('name = "digits"', 'name = "mnist"\ndir = "nowhere"')
    refuse("run", write("tiny.toml", missing), "--out", "out", says=["nowhere", "data fetch mnist"])


def test_broken_weights_are_refused():
    tiny = write("tiny.toml", TINY)
    for name, content in (("empty", b""), ("short", b"\x08\0\0\0\0\0\0\0{}"), ("huge", b"\xff" * 64), ("text", b"hello" * 9)):
        pathlib.Path(name).write_bytes(content)
        refuse("run", tiny, "--out", "out", "--set", f"model.init={name}", says=[name])
    troupe("run", tiny, "--out", "made", "--set", "run.steps=0", "--set", "model.name=convnet")
    refuse("run", tiny, "--out", "out", "--set", "model.init=made/model.safetensors", says=["model.safetensors", "lenet"])


def test_an_unwritable_folder_is_refused():
    tiny = write("tiny.toml", TINY)
    write("file", "")
    refuse("run", tiny, "--out", "file/out", says=["file"])
    if os.getuid() != 0:  # root may write anywhere
        os.mkdir("locked", mode=0o500)
        refuse("run", tiny, "--out", "locked/out", says=["locked"])


def test_a_drawing_that_cannot_be_written_is_refused():
    write("file", "")
    refuse("graph", write("tiny.toml", TINY), "-o", "file/wiring.svg",
           says=["cannot write file/wiring.svg: ", "choose another path with -o"])


def test_threads_that_cannot_be_had_are_refused():
    file = write("threads.toml", with_line("threads = 2", "run"))
    for limit in ({"OMP_THREAD_LIMIT": "1"}, {"OMP_DYNAMIC": "TRUE"}):
        done = subprocess.run([BINARY, "run", file, "--out", "limited"], capture_output=True, text=True, timeout=60,
                              env=dict(os.environ, **limit), check=False)
        assert done.returncode == 2, done
        assert "run.threads is 2, but this process can have only 1" in done.stderr, done.stderr
    troupe("run", file, "--out", "unlimited")


def test_a_failed_run_fails_where_ends_of_children_are_ignored():
    nodes = '[[node]]\nname = "a"\nworkers = 1\n[[node]]\nname = "b"\nworkers = 1\n'
    file = write("nodes.toml", TINY.replace("count = 2\n", "") + nodes)
    for settings, status in (("run.steps=5", 0), ("optimizer.lr=1e6", 1)):
        done = subprocess.run([BINARY, "run", file, "--out", "ignored", "--overwrite", "--set", settings],
                              capture_output=True, text=True, timeout=120, check=False,
                              preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        assert done.returncode == status, (done.returncode, done.stderr)


def test_the_command_line_has_the_same_status():
    refuse("walk", says=["walk"])
    refuse("run", says=["FILE"])
    refuse("run", write("tiny.toml", TINY), "--sett", "a=b", says=["--sett"])
    refuse("explain", "optimizer.lrr", says=["optimizer.lr"])
    refuse("eval", "out", "--split", "tests", says=['"tests"; expected test, train or validation;'])
    for seed in ("-1", "1.5", "99999999999999999999999", ""):
        refuse("simulate", "tiny.toml", "--seed", seed, "--out", "out",
               says=[f'--seed is "{seed}"; expected a whole number from 0 to 18446744073709551615;'])
    refuse("simulate", "tiny.toml", "--events", "0", "--out", "out",
           says=['--events is "0"; expected a whole number from 1 to 18446744073709551615;'])
    refuse(says=["--help"])


main(globals())
