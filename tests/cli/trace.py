"""Where the time of a run goes. --trace: the trace of a run, a simulation, a replay, and of runs that fail or are interrupted
is valid JSON whose spans are nested. links.csv: what emulated links have carried is what can be worked out by hand.
--against: how far a simulation is from a real run."""

import csv
import json
import pathlib
import shutil
import signal
import subprocess
import time

from nodes import free_ports
from troupe_command import BINARY, TINY, main, metrics, troupe, write

SERVER = TINY.replace('"exchange", "apply"', '"exchange"').replace(
    '"all_reduce"', '"parameter_server"\nsends = "gradient"\napply = "each"')
TWO_NODES = TINY.replace("count = 2\n", "") + "".join(f'[[node]]\nname = "{name}"\nworkers = 1\n' for name in "ab")
# A gradient has half a megabyte.
SLOW_LINKS = '[[link]]\nat = "*"\nbandwidth = "10MB/s"\nlatency = "1ms"\n'
SIMULATED = "[simulate]\ngradient = \"5ms\"\njitter = 0\n"


def tracks_of(path, is_whole=True):
    """Reads a trace, checks its form, and returns the spans of each track by name. One that is not whole is that of one
    process among several: its arrows begin or end in other ones."""
    events = json.loads(pathlib.Path(path).read_text())
    names, spans = {}, {}
    for event in events:
        if event["ph"] == "M":
            if event["name"] == "thread_name":
                names[(event["pid"], event["tid"])] = event["args"]["name"]
            continue
        assert event["ph"] in "Xi", event
        assert isinstance(event["ts"], (int, float)) and event["dur"] >= 0, event
        spans.setdefault(names[(event["pid"], event["tid"])], []).append(event)
    for track in spans.values():
        # Nanoseconds as whole numbers; a longer span first where two begin together.
        times = sorted(((round(1000 * each["ts"]), round(1000 * (each["ts"] + each["dur"])), each["name"])
                        for each in track), key=lambda one: (one[0], -one[1]))
        open_ends = []
        for begin, end, name in times:
            while open_ends and open_ends[-1] <= begin:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1], (name, begin, end, open_ends)
            open_ends.append(end)
    if is_whole:
        check_arrows(events)
    return spans


def check_arrows(events):
    """Each part that was received had been sent, and no later than it was received."""
    sent = {}
    for event in events:
        if event.get("flow_out"):
            assert event["bind_id"] not in sent, event
            sent[event["bind_id"]] = event["ts"]
    for event in events:
        if event.get("flow_in"):
            assert sent[event["bind_id"]] <= event["ts"] + event["dur"], event


def names_in(spans):
    return {span["name"] for span in spans}


def test_the_trace_of_a_run():
    write("file.toml", TINY + "[evaluate]\nevery = 10\npause_training = true\n")
    troupe("run", "file.toml", "--trace", "--out", "run")
    tracks = tracks_of("run/trace.json")
    assert {"worker 0", "worker 1", "compute 0", "compute 1", "exchange 0 parts", "evaluator",
            "recorder"} <= set(tracks), set(tracks)
    assert {"step", "gradient", "apply", "wait for samples"} <= names_in(tracks["compute 0"]), names_in(
        tracks["compute 0"])
    assert {"wait for exchange", "wait for verdict"} >= names_in(tracks["worker 0"]), names_in(tracks["worker 0"])
    assert {"contribute", "receive", "send"} == names_in(tracks["exchange 0 parts"])
    assert sum(span["name"] == "evaluate" for span in tracks["evaluator"]) == 2, tracks["evaluator"]
    assert names_in(tracks["recorder"]) == {"write"}
    gradients = [span for span in tracks["compute 1"] if span["name"] in ("gradient", "step")]
    whole = sum(span["args"]["gradients"] for span in gradients if "args" in span)
    assert whole == 20, whole
    # The trace is that of the run: the spans of the workers' waiting add up to what workers.csv says.
    with open("run/workers.csv", newline="") as file:
        for worker in csv.DictReader(file):
            waited = sum(span["dur"] for span in tracks.get("worker " + worker["worker"], [])
                         if span["name"] == "wait for exchange")
            assert abs(waited * 1e-6 - float(worker["exchange_wait_seconds"])) < 1e-3, (waited, worker)


def test_a_run_without_the_option_writes_no_trace_and_removes_an_old_one():
    write("file.toml", TINY)
    troupe("run", "file.toml", "--trace", "--out", "run")
    troupe("run", "file.toml", "--out", "run", "--overwrite")
    assert not pathlib.Path("run/trace.json").exists()
    assert not pathlib.Path("run/links.csv").exists()


def test_the_trace_of_several_processes_is_one_file():
    write("file.toml", TWO_NODES + SLOW_LINKS)
    troupe("run", "file.toml", "--trace", "--out", "run")
    tracks = tracks_of("run/trace.json")
    assert {"worker 0", "worker 1", "compute 0", "compute 1", "interface of w1, sending",
            "interface of w0, receiving"} <= set(tracks), set(tracks)
    assert not list(pathlib.Path("run").glob("*-b.*")), list(pathlib.Path("run").iterdir())
    links = links_of("run")
    assert set(links) == {(name, way) for name in ("w0", "w1") for way in ("send", "receive")}, links
    seconds = metrics("run")[-1]["seconds"]
    for row in links.values():
        assert abs(float(row["busy_share"]) - float(row["busy_seconds"]) / seconds) < 1e-9, row
    assert sum(int(row["bytes"]) for (_, way), row in links.items() if way == "send") == metrics("run")[-1]["bytes_sent"]


def test_the_trace_of_a_simulation_is_in_virtual_time_and_has_the_same_bytes_again():
    write("file.toml", SERVER + SLOW_LINKS + SIMULATED)
    files = set()
    for out in ("one", "two"):
        troupe("simulate", "file.toml", "--trace", "--out", out)
        files.add((pathlib.Path(out, "trace.json").read_bytes(), pathlib.Path(out, "links.csv").read_bytes(),
                   pathlib.Path(out, "workers.csv").read_bytes()))
    assert len(files) == 1
    tracks = tracks_of("one/trace.json")
    gradients = [span for span in tracks["compute 0"] if span["args"]["gradients"] == 1]
    assert len(gradients) == 20, gradients
    # All but the first also take in parameters of half a megabyte, at 8 GB/s.
    assert {span["name"]: span["dur"] for span in gradients} == {"gradient": 5000, "step": 5065}, gradients
    end = metrics("one")[-1]["seconds"]
    last = max(span["ts"] + span["dur"] for track in tracks.values() for span in track)
    assert abs(1e-6 * last - end) < 0.01, (last, end)
    assert names_in(tracks["worker 0"]) <= {"wait for exchange", "wait for verdict"}


def links_of(folder):
    with open(pathlib.Path(folder, "links.csv"), newline="") as file:
        return {(row["interface"], row["direction"]): row for row in csv.DictReader(file)}


def test_links_and_workers_of_a_simulation_as_worked_out_by_hand():
    """Two workers and a star: in each step, worker 1 sends its gradient to worker 0, which sends the mean back. A message of
    B bytes takes B / bandwidth to send, and the same time to receive, in parallel."""
    write("file.toml", TINY.replace('"all_reduce"', '"star"') + SLOW_LINKS.replace("10MB", "1MB") + SIMULATED)
    troupe("simulate", "file.toml", "--out", "run")
    end = metrics("run")[-1]
    size = end["bytes_sent"] // 40  # of a gradient
    links = links_of("run")
    assert set(links) == {(name, way) for name in ("w0", "w1") for way in ("send", "receive")}, links
    length = size / 1e6
    for row in links.values():
        assert (int(row["messages"]), int(row["bytes"])) == (20, 20 * size), row
        assert abs(float(row["busy_seconds"]) - 20 * length) < 1e-6, row
        assert abs(float(row["busy_share"]) - float(row["busy_seconds"]) / end["seconds"]) < 1e-9, row
        assert float(row["wait_mean_seconds"]) == float(row["wait_max_seconds"]) == 0, row
    with open("run/workers.csv", newline="") as file:
        first, second = csv.DictReader(file)
    for worker in (first, second):
        assert int(worker["steps"]) == 20 and int(worker["samples"]) == 160, worker
        # A gradient of 5 ms, and then a step that reads the parameters twice at 8 GB/s.
        assert 20 * 0.005 <= float(worker["busy_seconds"]) < 20 * 0.0052, worker
    # Worker 1 waits for its gradient to arrive and for the mean to return. Worker 0 waits for the same, because it computes
    # its next gradient while the mean returns; only the first gradient of worker 1 was as early as its own.
    both = 2 * (length + 0.001)
    assert abs(float(second["exchange_wait_seconds"]) - 20 * both) < 20 * 0.0003, (second, both)
    assert abs(float(first["exchange_wait_seconds"]) - 19.5 * both) < 20 * 0.0003, (first, both)


def test_messages_wait_for_an_interface():
    """Three workers, one server: gradients that are ready at the same time are received one after the other."""
    write("file.toml", TINY.replace("count = 2", "count = 4").replace("steps = 20", "steps = 1").replace(
        '"all_reduce"', '"star"') + '[[link]]\nat = "w0"\nbandwidth = "1MB/s"\n' + SIMULATED)
    troupe("simulate", "file.toml", "--out", "run")
    size = metrics("run")[-1]["bytes_sent"] // 6
    links = links_of("run")
    assert set(links) == {("w0", "send"), ("w0", "receive")}, links
    length = size / 1e6
    for row in links.values():
        assert (int(row["messages"]), int(row["bytes"])) == (3, 3 * size), row
        assert abs(float(row["wait_mean_seconds"]) - length) < 1e-6, row  # 0, one length and two lengths
        assert abs(float(row["wait_max_seconds"]) - 2 * length) < 1e-6, row
        assert abs(float(row["busy_seconds"]) - 3 * length) < 1e-6, row


def test_the_trace_of_a_replay():
    write("file.toml", SERVER)
    troupe("run", "file.toml", "--record", "--out", "run")
    troupe("replay", "run", "--trace", "--out", "again")
    tracks = tracks_of("again/trace.json")
    for rank in range(2):
        computed = sum(span["args"]["gradients"] for span in tracks[f"compute {rank}"])
        assert computed == 20, computed


def test_the_trace_of_a_run_that_fails():
    write("file.toml", TINY.replace("lr = 0.05", "lr = 1e6"))
    for command in ("run", "simulate"):
        done = troupe(command, "file.toml", "--trace", "--out", command, status=1)
        assert "not finite" in done.stderr, done.stderr
        assert "compute 0" in tracks_of(f"{command}/trace.json")


def test_the_trace_of_a_run_that_is_interrupted():
    for text in (TINY, TWO_NODES):
        shutil.rmtree("run", ignore_errors=True)
        write("file.toml", text)
        with subprocess.Popen([BINARY, "run", "file.toml", "--trace", "--out", "run", "--quiet", "--set",
                               "run.steps=100000"]) as run:
            wait_for_size("run/trace.json", 100_000)
            run.send_signal(signal.SIGINT)
            assert run.wait(30) == 130
        assert "compute 0" in tracks_of("run/trace.json")


def wait_for_size(path, size):
    for _ in range(600):
        time.sleep(0.05)
        if pathlib.Path(path).exists() and pathlib.Path(path).stat().st_size > size:
            return
    raise AssertionError(f"{path} has not grown within 30 s")


def test_a_node_that_is_started_by_hand_writes_its_own_part():
    text = TWO_NODES
    for name, port in zip("ab", free_ports(2)):
        text = text.replace(f'name = "{name}"\n', f'name = "{name}"\naddress = "127.0.0.1:{port}"\n')
    write("file.toml", text)
    with subprocess.Popen([BINARY, "node", "file.toml", "--name", "b", "--trace", "--out", "other", "--quiet"]) as other:
        troupe("node", "file.toml", "--name", "a", "--trace", "--out", "first")
        assert other.wait(30) == 0
    assert "compute 0" in tracks_of("first/trace.json", is_whole=False)
    assert "compute 1" in tracks_of("other/trace-b.json", is_whole=False)


def against(file, folder, *arguments, status=0):
    return troupe("simulate", file, "--against", folder, "--out", "predicted", "--overwrite", *arguments, status=status)


def test_a_simulation_is_no_different_from_itself():
    write("file.toml", SERVER + SLOW_LINKS + SIMULATED)
    troupe("simulate", "file.toml", "--out", "real")
    line = json.loads(against("file.toml", "real", "--json").stdout.splitlines()[-1])
    assert line["event"] == "against", line
    quantities = line["quantities"]
    assert {"train_seconds", "samples_per_second", "idle_share", "exchange_wait_share", "busiest_link_share",
            "staleness_mean", "bytes_sent"} <= set(quantities), quantities
    for name, one in quantities.items():
        assert one["difference"] in (0, None), (name, one)
    assert line["seconds"]["whole"] == 0, line


def test_what_explains_a_difference_is_found():
    """The real run is a simulation too, so that what is different is known."""
    write("file.toml", SERVER + SLOW_LINKS + SIMULATED)
    troupe("simulate", "file.toml", "--out", "slower", "--set", "simulate.gradient=40ms")
    done = against("file.toml", "slower")
    assert "set simulate.gradient = \"40" in done.stdout or "set simulate.gradient = \"39" in done.stdout, done.stdout
    line = json.loads(against("file.toml", "slower", "--json").stdout.splitlines()[-1])
    assert abs(line["gradient_seconds"]["fitting"] - 0.040) < 0.0005, line
    assert abs(line["seconds"]["rest"]) < 0.02 * line["seconds"]["whole"], line
    # Another network changes how long workers wait, and nothing that a gradient could explain.
    troupe("simulate", "file.toml", "--out", "slower_links", "--set", "link.0.latency=50ms")
    line = json.loads(against("file.toml", "slower_links", "--json").stdout.splitlines()[-1])
    assert abs(line["seconds"]["rest"] - line["seconds"]["whole"]) < 0.01 * line["seconds"]["whole"], line
    assert line["seconds"]["whole"] > 0 and "network" in line["verdict"], line


def test_a_simulation_is_compared_with_a_real_run():
    write("file.toml", SERVER)
    troupe("run", "file.toml", "--out", "real")
    done = against("file.toml", "real", "--set", "simulate.cores=2")
    for word in ("training", "idle share", "staleness mean", "bytes sent", "everything else", "most of it is"):
        assert word in done.stdout, (word, done.stdout)


def test_only_finished_runs_of_the_same_topology_are_compared():
    write("file.toml", TINY + SIMULATED)
    write("other.toml", TINY.replace("steps = 20", "steps = 10"))
    troupe("run", "other.toml", "--out", "real")
    done = against("file.toml", "real", status=2)
    assert "run.steps is 10 there and 20 here" in done.stderr, done.stderr
    assert not pathlib.Path("predicted").exists()
    done = against("other.toml", "absent", status=2)
    assert "absent: there is no topology.toml" in done.stderr, done.stderr
    before = pathlib.Path("real/metrics.jsonl").read_bytes()
    done = troupe("simulate", "other.toml", "--against", "real", "--out", "./real", "--overwrite", status=2)
    assert "--out ./real: this is the run to compare with" in done.stderr, done.stderr
    assert pathlib.Path("real/metrics.jsonl").read_bytes() == before
    pathlib.Path("real/workers.csv").unlink()
    done = against("other.toml", "real", status=2)
    assert "there is no workers.csv" in done.stderr, done.stderr


main(globals())
