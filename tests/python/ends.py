"""How runs of the Python package end: stopped, interrupted, with Python, refused or failed. Nothing is left behind."""

import concurrent.futures
import contextlib
import functools
import io
import json
import logging
import os
import pathlib
import signal
import sys
import time

from package import LONG, SETUP, command, processes_of, python, raises, setup, trains, wait_for
from troupe_command import TINY, main, thorough, troupe, write

import torch
import troupe_train as tt


def interrupted(out, **options):
    """Starts Python in a session of its own, and returns it when its run trains."""
    process = python(f"""
run = tt.run({write("long.toml", LONG)!r}, out={out!r})
print("status", run.status, run.records[-1]["status"], (run.folder / "model.safetensors").is_file())
""", start_new_session=True, **options)
    wait_for(lambda: trains(out) or process.poll() is not None)
    assert process.poll() is None, process.communicate()
    return process


def test_an_interrupt_is_one_signal_and_run_returns_what_there_is():
    process = interrupted("out")
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    printed, errors = process.communicate(timeout=20)
    assert process.returncode == 0 and "status 130 interrupted True" in printed, (printed, errors)
    assert errors.count("interrupted, epoch") == errors.count("\n") == 1 and "checkpoint.every" in errors, (printed, errors)
    assert not processes_of("out")


def test_a_run_of_a_python_that_is_killed_ends_in_good_order():
    process = interrupted("out")
    process.kill()
    process.communicate()
    wait_for(lambda: not processes_of("out"), 10)
    lines = pathlib.Path("out/metrics.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["status"] == "interrupted"


def test_a_run_of_a_python_that_is_killed_ends_although_a_forked_child_lives():
    process = python(f"""
import os, time
run = tt.start({write("long.toml", LONG)!r}, out="out")
next(iter(run))
child = os.fork()
if child == 0:
    time.sleep(60)
    os._exit(0)
open("child", "w").write(str(child))
time.sleep(60)
""")
    wait_for(lambda: pathlib.Path("child").is_file() and pathlib.Path("child").read_text())
    assert processes_of("out"), process.poll()
    process.kill()
    process.wait()
    try:
        wait_for(lambda: not processes_of("out"), 10)
    finally:
        os.kill(int(pathlib.Path("child").read_text()), signal.SIGKILL)
        process.communicate()
    assert json.loads(pathlib.Path("out/metrics.jsonl").read_text().splitlines()[-1])["status"] == "interrupted"


def test_an_error_after_the_end_is_raised_and_no_caller_hangs():
    process = python(f"""
import troupe_train._inputs
def ended(*_):
    raise OSError("the disk is gone")
troupe_train._inputs.Inputs.ended = ended
for function in (tt.run, tt.compare):
    try:
        function({write("tiny.toml", TINY)!r})
    except tt.TroupeError as error:
        print(error)
""")
    printed, errors = process.communicate(timeout=30)
    assert process.returncode == 0 and not errors and printed.count("the disk is gone") == 2, (printed, errors)


def test_a_killed_command_can_leave_half_a_line():
    file = write("tiny.toml", TINY)
    with command("""printf '{"event":"start"}\\n{"event":"step","step":'; kill -9 $$"""):
        seen = []

        def look():
            for record in tt.start(file, out="out"):
                seen.append(record)

        error = raises(tt.RunError, look)
        assert seen == [{"event": "start"}] and error.status == 137, (seen, error)
        assert str(error) == "the command ended with status 137", error
        assert raises(tt.RunError, lambda: tt.run(file, out="again")).folder.name == "again"


def test_quiet_prints_nothing():
    process = python(f"""
import os, signal, threading, time
def interrupt():
    while not run.records:
        time.sleep(0.05)
    time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGINT)
run = tt.start({write("long.toml", LONG)!r}, out="out", quiet=True, dashboard="127.0.0.1:0")
threading.Thread(target=interrupt).start()
run.wait()
assert run.status == 130 and run.dashboard, run
""")
    said = process.communicate(timeout=30)
    assert process.returncode == 0 and said == ("", ""), said
    process = python(f"tt.compare([{write('tiny.toml', TINY)!r}], out='compared', quiet=True)")
    said = process.communicate(timeout=30)
    assert process.returncode == 0 and said == ("", ""), said


def test_a_run_that_goes_on_when_python_exits_ends_in_good_order():
    process = python(f"""
run = tt.start({write("long.toml", LONG)!r}, out="out")
next(iter(run))
""")
    printed, errors = process.communicate(timeout=30)
    assert process.returncode == 0 and not errors and not processes_of("out"), errors
    assert json.loads(pathlib.Path("out/metrics.jsonl").read_text().splitlines()[-1])["status"] == "interrupted"


@thorough
def test_a_second_interrupt_ends_at_once():
    # Steps of half a minute: the run cannot end in good order soon.
    process = python("""
import os, signal, threading, time
def interrupt():
    while run.status is None and not run.records:
        time.sleep(0.05)
    for _ in range(2):
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGINT)
run = tt.start("single", set={"model.name": "resnet20", "data.batch_size": 5000, "data.micro_batch_size": 50}, out="out")
threading.Thread(target=interrupt).start()
begin = time.monotonic()
try:
    run.wait()
except KeyboardInterrupt:
    print("at once", run.status, time.monotonic() - begin < 15)
""")
    printed, errors = process.communicate(timeout=60)
    assert "at once 137 True" in printed and not processes_of("out"), (printed, errors)


def test_records_come_while_the_run_trains_and_stop_ends_it_in_good_order():
    run = tt.start(write("long.toml", LONG), out="out")
    assert run.status is None
    seen = []
    for record in run:
        seen.append(record)
        if record["event"] == "evaluation":
            assert run.status is None and not pathlib.Path("out/report.html").exists(), "the record came at the end"
            run.stop()
    assert seen[-1]["status"] == "interrupted" and run.wait().status == 130, seen[-1]
    assert [each["event"] for each in run] == [each["event"] for each in seen], "a second look gives the same records"
    assert run.state_dict() and str(run.report()).endswith("report.html") and "<iframe sandbox" in run.report()._repr_html_()


def test_a_stopped_run_goes_on_to_the_same_bits():
    net, x, y = setup()
    settings = {"run.epochs": 30, "checkpoint.every": "5 steps", "data.batch_size": 16}
    run = tt.start("all_reduce", model=net, data=(x, y), validation=0.2, set=settings, out="out")
    for record in run:
        if record["event"] == "epoch":
            run.stop()
    assert run.status == 130 and run.records[-1]["status"] == "interrupted"
    again = tt.run(resume="out")
    assert again.status == 0 and again.records[-1]["epoch"] == 30, again
    whole = tt.run("all_reduce", model=net, data=(x, y), validation=0.2, set=settings, out="whole")
    assert (again.folder / "model.safetensors").read_bytes() == (whole.folder / "model.safetensors").read_bytes()


@thorough
def test_an_interrupted_comparison_goes_on():
    file = write("long.toml", LONG)
    process = python(f"""
found = tt.compare([{file!r}], vary={{"optimizer.lr": [0.01, 0.02]}}, out="out")
print("status", found.status, len(found.table))
""", start_new_session=True)
    wait_for(lambda: any(trains(path.parent) for path in pathlib.Path("out").glob("runs/*/*/metrics.jsonl")))
    os.killpg(process.pid, signal.SIGINT)
    printed, errors = process.communicate(timeout=20)
    assert "status 130 2" in printed and "compare(resume=" in errors and errors.count("\n") == 1, (printed, errors)
    assert not processes_of("out")


@thorough
def test_two_runs_at_once_never_share_a_folder():
    text = SETUP + """
try:
    run = tt.run("single", model=net, data=(x, y), validation=0.2, set={"run.steps": 5}, out=%s)
    print("done", run.folder)
except tt.TroupeError as error:
    print("refused", error)
"""
    both = [python(text % repr("out")) for _ in range(2)]
    said = [process.communicate(timeout=60)[0] for process in both]
    assert sorted(line.split()[0] for line in said) == ["done", "refused"], said
    assert sorted(os.listdir("out/python_inputs")) == ["data.safetensors", "net.pt2"]
    assert [name for name in os.listdir("out") if name.startswith("python_inputs")] == ["python_inputs"]
    troupe("run", "out/topology.toml", "--out", "again")


def test_a_folder_is_claimed_before_data_are_read():
    net, x, y = setup()

    class Pairs:
        def __len__(self):
            return len(x)

        def __getitem__(self, index):
            if index == 0:  # another process begins to use the folder
                assert "python_inputs" in troupe("run", file, "--out", "out", status=2).stderr
            return x[index], y[index]

    file = write("tiny.toml", TINY)
    assert tt.run("single", model=net, data=Pairs(), validation=0.2, set={"run.steps": 1}, out="out").status == 0


def test_a_run_that_is_stopped_before_it_begins_leaves_nothing_behind():
    net, x, y = setup()
    run = functools.partial(tt.start, "single", model=net, data=(x, y), validation=0.2, set={"run.steps": 1}, out="out")
    with command("exec sleep 60"), contextlib.redirect_stderr(io.StringIO()) as said:
        stopped = run()
        stopped._job._interrupt()
        assert stopped.wait().status == 130 and not os.path.exists("out"), os.listdir("out")
        assert said.getvalue().endswith("/out: interrupted before the run began; there are no results\n"), said.getvalue()
    assert "no results folder" in repr(stopped), stopped
    assert run().wait().status == 0


def test_two_threads_can_export_at_once():
    net, x, y = setup()

    class Slow(torch.nn.Module):
        def __init__(self, seconds):
            super().__init__()
            self.net, self.seconds = net, seconds

        def forward(self, values):
            time.sleep(self.seconds)
            return self.net(values)

    net.eval()
    before, models = sys.stderr, [Slow(0.2).eval(), Slow(0.5).eval()]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        plans = list(pool.map(lambda model: tt.check("single", model=model, data=(x, y), validation=0.2), models))
    assert len(plans) == 2
    assert sys.stderr is before and logging.root.manager.disable == 0
    assert not any(each.training for model in models for each in model.modules())


def test_an_interrupt_ends_a_run_that_another_thread_waits_for():
    script = """
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor(1)
run = tt.start(%r, out=%r)
next(iter(run))
pool.submit(run.wait)
"""
    process = python(script % (write("long.toml", LONG), "out") + "raise KeyboardInterrupt")
    process.communicate(timeout=30)
    assert json.loads(pathlib.Path("out/metrics.jsonl").read_text().splitlines()[-1])["status"] == "interrupted"
    process = python(script % (write("tiny.toml", TINY), "short"))  # without an interrupt, Python waits for the thread
    process.communicate(timeout=30)
    assert json.loads(pathlib.Path("short/metrics.jsonl").read_text().splitlines()[-1])["status"] == "done"


def test_a_warning_that_is_an_error_ends_the_run():
    net, x, y = setup()
    settings = {"run.epochs": 100000}
    error = raises(UserWarning, lambda: tt.run("single", model=net, data=(x, y), set=settings, out="out", quiet=True))
    assert "no validation data" in str(error) and not processes_of("out")
    settings["optimizer.lr"] = 0
    error = raises(UserWarning, lambda: tt.compare("single", set=settings, out="compared", quiet=True))
    assert "optimizer.lr = 0" in str(error) and not processes_of("compared")


def test_folders_of_one_second_have_different_names():
    runs = [tt.start(write("tiny.toml", TINY)) for _ in range(3)]
    assert len({run.wait().folder for run in runs}) == 3


def test_a_run_that_replaces_another_one_replaces_its_inputs():
    net, x, y = setup()
    for count in (100, 200):
        tt.run("single", model=net, data=(x[:count], y[:count]), validation=0.2, set={"run.steps": 1}, out="out",
               overwrite=True)
    places = list(pathlib.Path("out").glob("python_inputs*"))
    assert len(places) == 1 and str(places[0]) in pathlib.Path("out/topology.toml").read_text(), places
    troupe("run", "out/topology.toml", "--out", "again")


def test_a_refused_run_leaves_nothing_behind():
    net, x, y = setup()
    error = raises(tt.TopologyError, lambda: tt.run("single", model=net, data=(x, y), set={"optimizer.lrr": 1}, out="a/out"))
    assert '[optimizer] has no key "lrr"' in str(error) and 'did you mean "lr"?' in str(error), error
    error = raises(tt.TopologyError, lambda: tt.run(write("bad.toml", TINY.replace("lr =", "lrr ="))))
    assert "bad.toml:" in str(error) and not str(error).startswith("error"), error
    assert os.listdir("a") == [] and os.listdir("runs") == [], (os.listdir("a"), os.listdir("runs"))


def test_a_failed_run_names_its_cause_and_folder():
    file = write("tiny.toml", TINY)
    error = raises(tt.RunError, lambda: tt.run(file, set={"optimizer.lr": 1e6, "run.steps": 500}, out="out"))
    assert error.status == 1 and "not finite" in error.cause and error.folder == pathlib.Path("out").absolute(), error


main(globals())
