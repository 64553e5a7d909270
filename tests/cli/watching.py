"""The page about a run, its metrics and its report, and that nobody who connects to the page can disturb the run."""

import contextlib
import json
import pathlib
import re
import socket
import threading
import time
import urllib.request

from dashboard import ENDLESS, Watched
from troupe_command import TINY, main, thorough, timeless, troupe, write

ANY = "--dashboard=127.0.0.1:0"
NODES = '[[node]]\nname = "alpha"\naddress = "127.0.0.1:0"\nworkers = 1\n[[node]]\nname = "beta"\naddress = "127.0.0.1:0"\nworkers = 1\n'


def series(text, name):
    """The value of a metric."""
    found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
    return found and float(found[1])


def events(answer, count):
    """The next updates of the page."""
    found = []
    for line in answer:
        if line.startswith(b"data: "):
            found.append(json.loads(line[6:]))
            if len(found) == count:
                break
    return found


def test_a_run_can_be_followed_while_it_trains():
    with Watched(write("endless.toml", ENDLESS), "--out", "out", ANY) as run:
        state = run.wait(lambda state: state["val_accuracy"] is not None)
        assert state["status"] == "training" and len(state["workers"]) == 2, state
        page = run.get("")
        assert "endless.toml" in page and "EventSource" in page
        assert re.search(r"begun 20\d\d-\d\d-\d\d \d\d:\d\d UTC; seed 1; Troupe [^<]*, LibTorch [^<]*; [^<]+, [^<]+</p>", page), page[:5000]
        assert not re.search(r"(src|href)=\"(?!data:)", page), "the page loads nothing from elsewhere"
        assert "<svg" in run.get("wiring.svg")
        saved = json.loads(run.get("figures.json"))
        assert saved.keys() == set(re.findall(r'data-figure="([\w-]+)"', page)), saved.keys()
        assert saved["accuracy"].startswith("series,seconds,accuracy,lowest,highest,epochs,steps,samples,bytes_sent\n"), saved["accuracy"]
        assert "\nvalidation," in saved["accuracy"], saved["accuracy"]
        assert all(0 <= float(line.split(",")[2]) <= 1 for line in saved["accuracy"].splitlines()[1:])
        metrics = run.get("metrics")
        assert series(metrics, 'troupe_worker_steps_total{rank="1"}') >= 0 and "# HELP troupe_steps_total" in metrics
        assert 0 <= series(metrics, "troupe_validation_accuracy") <= 1
        run.wait(lambda later: later["step"] > state["step"])
        assert run.get("healthz") == "ok\n"
        with urllib.request.urlopen(run.address("events"), timeout=60) as answer:
            first = second = events(answer, 1)[0]
            for _ in range(20):  # on a busy machine, a few updates may show the same
                if first["html"] != second["html"]:
                    break
                second = events(answer, 1)[0]
            assert first["html"] != second["html"] and "figure" in second["html"], "the curves change"
            numbers = urllib.request.urlopen(run.address("events.json"), timeout=60)
            assert events(numbers, 1)[0].keys() == state.keys()
            run.process.send_signal(2)
            last = [first]
            while not last[-1]["ended"]:
                last = events(answer, 1)
                assert last, "the page learns how the run has ended"
            assert "interrupted" in last[-1]["html"]
            with numbers:
                assert events(numbers, 1000)[-1]["status"] == "interrupted"
        run.process.communicate(timeout=60)
        assert run.process.returncode == 130
    report = pathlib.Path("out/report.html").read_text()
    assert "badge interrupted" in report and "EventSource" not in report
    assert not re.search(r"(src|href)=\"(?!data:)", report), "the report loads nothing"


def test_every_run_leaves_a_report_and_the_same_weights_with_and_without_a_page():
    file = write("tiny.toml", TINY)
    troupe("run", file, "--out", "plain")
    try:
        socket.create_server(("127.0.0.1", 8265)).close()
        arguments, address = ["--dashboard", file], "http://127.0.0.1:8265/"  # FILE is not the address
    except OSError:
        arguments, address = [file, ANY], "http://127.0.0.1:"
    said = troupe("run", *arguments, "--out", "watched").stderr
    assert f"dashboard: {address}" in said, said
    for name in ("model.safetensors", "model_best.safetensors", "graph.svg"):
        assert pathlib.Path("plain", name).read_bytes() == pathlib.Path("watched", name).read_bytes(), name
    assert timeless("plain") == timeless("watched")
    for out in ("plain", "watched"):
        report = pathlib.Path(out, "report.html").read_text()
        assert "badge done" in report and "20 of 20" in report and "data:image/svg+xml;base64," in report


def test_a_failed_run_leaves_a_report():
    troupe("run", write("tiny.toml", TINY), "--set", "optimizer.lr=1e6", "--out", "out", status=1)
    assert "badge failed" in pathlib.Path("out/report.html").read_text()


def test_a_simulated_run_leaves_the_same_report_each_time():
    file = write("tiny.toml", TINY)
    for out in ("once", "again"):
        troupe("simulate", file, "--set", "simulate.gradient=5ms", "--out", out)
    once, again = (pathlib.Path(out, "report.html").read_bytes() for out in ("once", "again"))
    assert once == again and b"virtual time" in once and b"begun 20" not in once and b"seed 1; Troupe" in once
    with Watched(write("endless.toml", ENDLESS), "--set", "simulate.gradient=5ms", "--out", "out", ANY,
                 command="simulate") as run:
        run.wait(lambda state: state["simulated"] and state["step"] > 0)
        run.end()


def test_the_report_of_a_continued_run_shows_all_of_it():
    file = write("run.toml", TINY + '[evaluate]\nevery = "5 steps"\n[checkpoint]\nevery = "10 steps"\n')
    troupe("run", file, "--out", "out")
    troupe("run", "--resume", "out", "--set", "run.steps=30")
    report = pathlib.Path("out/report.html").read_text()
    assert re.search(r"begun [-\d]+ [:\d]+ UTC, continued [-\d]+ [:\d]+ UTC; seed 1", report)
    assert "30 of 30" in report and "step 5&quot;" in report and "step 30&quot;" in report


def test_of_several_processes_the_first_serves_the_page():
    with Watched(write("nodes.toml", ENDLESS + NODES), "--out", "out", ANY) as run:
        run.wait(lambda state: state["step"] > 20 and len(state["workers"]) == 2)
        run.end()


def test_addresses_that_cannot_be_used_are_refused():
    file = write("tiny.toml", TINY)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = troupe("run", file, "--out", "out", f"--dashboard=127.0.0.1:{port}", status=2).stderr
    assert f"--dashboard: cannot listen on 127.0.0.1:{port} (Address already in use)" in said, said
    assert not pathlib.Path("out/metrics.jsonl").exists()
    for address in ("nonsense", "127.0.0.1", "127.0.0.1:70000"):
        said = troupe("run", file, "--out", "out", f"--dashboard={address}", status=2).stderr
        assert f'--dashboard: "{address}" is not an address' in said, said
    assert "is missing" in troupe("run", "--dashboard", status=2).stderr


def test_beyond_this_host_the_page_needs_the_token_of_its_url():
    with Watched(write("endless.toml", ENDLESS), "--out", "out", "--dashboard=0.0.0.0:0") as run:
        run.url = run.url.replace("0.0.0.0", "127.0.0.1")
        token = run.url.partition("?token=")[2]
        assert len(token) == 64, run.url
        assert run.status("") == 401 and run.status("metrics?token=" + "0" * 64) == 401
        assert run.status("events.json") == 401 and run.status("figures.json?token=") == 401
        assert run.status("healthz") == 200 and run.status("metrics?token=" + token) == 200
        assert run.status("metrics", Authorization="Bearer " + token, Host="trainer.example") == 200
        run.end()


def test_a_name_that_points_here_gets_nothing():
    with Watched(write("endless.toml", ENDLESS), "--out", "out", ANY) as run:
        for path in ("metrics", "events.json", "figures.json"):
            assert run.status(path, Host="evil.example") == 421, path
        assert run.status("metrics", Host="localhost:1") == 200
        run.end()


def send(port, data, seconds=10):
    """Sends bytes, and returns what comes back; nothing if the connection is closed."""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        try:
            connection.sendall(data)
            answer = b""
            while some := connection.recv(65536):
                answer += some
            return answer
        except (ConnectionError, TimeoutError):
            return b""


def test_malformed_requests_are_refused():
    with Watched(write("endless.toml", ENDLESS), "--out", "out", "--quiet", ANY) as run:
        port = int(run.url.rstrip("/").rpartition(":")[2])
        host = b"Host: localhost\r\n"
        for data in (b"\0" * 100_000, b"A" * 1_000_000, b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 100_000,
                     b"POST / HTTP/1.1\r\n" + host + b"Content-Length: 1000000000\r\n\r\n" + b"x" * 1_000_000,
                     b"POST /events.json HTTP/1.1\r\n" + host + b"\r\n", b"PUT /figures.json HTTP/1.1\r\n" + host + b"\r\n",
                     b"GET /" + b"../" * 50 + b"etc/passwd HTTP/1.1\r\n" + host + b"\r\n"):
            answer = send(port, data)
            assert not answer or answer.split()[1] in (b"400", b"404", b"405", b"413", b"431"), answer[:100]
        assert run.status("healthz") == 200
        run.end()


@thorough
def test_hostile_clients_cost_the_run_nothing():
    file = write("run.toml", ENDLESS.replace("1000000", "250"))
    quiet = troupe("run", file, "--out", "quiet", "--quiet")
    with Watched(file, "--out", "out", "--quiet", ANY) as run:
        port = int(run.url.rstrip("/").rpartition(":")[2])
        stop = threading.Event()

        def crowd():  # thousands of connections that say nothing, or one byte at a time
            held = []
            while not stop.is_set():
                try:
                    held.append(socket.create_connection(("127.0.0.1", port), timeout=5))
                    held[-1].sendall(b"G")
                    for slow in held[-20:]:
                        slow.send(b"E")
                except OSError:
                    pass
                if len(held) > 400:
                    for each in held[:200]:
                        each.close()
                    del held[:200]

        def followers():  # who ask for what never ends, or for much, and read nothing
            held = []
            while not stop.is_set():
                for path in (b"events", b"events.json", b"figures.json"):
                    with contextlib.suppress(OSError):
                        held.append(socket.create_connection(("127.0.0.1", port), timeout=5))
                        held[-1].sendall(b"GET /" + path + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
                for each in held[:-60]:
                    each.close()
                del held[:-60]

        hostile = [threading.Thread(target=target, daemon=True) for target in (crowd, crowd, followers)]
        for each in hostile:
            each.start()
        until = time.monotonic() + 30
        answered = b""
        while not answered and time.monotonic() < until and run.process.poll() is None:
            with contextlib.suppress(ConnectionError):  # the run may have ended
                answered = send(port, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        _, said = run.process.communicate(timeout=120)
        stop.set()
        for each in hostile:
            each.join()
        assert run.process.returncode == 0, said
    assert pathlib.Path("quiet/model.safetensors").read_bytes() == pathlib.Path("out/model.safetensors").read_bytes()
    assert timeless("quiet") == timeless("out")
    print(f"   alone {quiet.seconds:.1f} s")


main(globals())
