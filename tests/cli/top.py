"""troupe top: a run watched in a terminal, until it ends or Ctrl-C, and as one snapshot; and servers that are not what they
seem."""

import codecs
import contextlib
import csv
import fcntl
import html
import io
import json
import os
import pathlib
import pty
import re
import select
import signal
import socket
import struct
import termios
import threading
import time

from dashboard import ENDLESS, Watched
from entrances import open_run
from troupe_command import BINARY, SOURCE, main, metrics, thorough, troupe, write

ANY = "--dashboard=127.0.0.1:0"
LINK = '[[link]]\nat = "*"\nbandwidth = "50Mbit/s"\n'
HOME = "\x1b[H"  # a page is drawn


class Terminal:
    """`troupe top` at a pseudo-terminal of its own."""

    def __init__(self, *arguments, columns=90, rows=30, **environment):
        self.process, self.file = pty.fork()
        if self.process == 0:
            fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.execve(BINARY, ["troupe", "top", *arguments], {**os.environ, "TERM": "xterm", "NO_COLOR": "", **environment})
        self.seen = ""
        self.decode = codecs.getincrementaldecoder("utf-8")().decode  # a character may come in two parts

    def read(self):
        """Returns whether more may come."""
        assert select.select([self.file], [], [], 60)[0], self.seen
        try:
            some = os.read(self.file, 65536)
        except OSError:  # the other side is closed
            return False
        self.seen += self.decode(some)
        return bool(some)

    def wait(self, condition):
        while not condition(self.seen):
            assert self.read(), self.seen

    def end(self):
        """Reads to the end, and returns the exit status."""
        while self.read():
            pass
        os.close(self.file)
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])


def steps_in(text):
    return {int(step.replace(",", "")) for step in re.findall(r"step ([\d,]+) of", text)}


def test_a_snapshot_is_plain_text_and_json_has_the_same_numbers():
    with Watched(write("endless.toml", ENDLESS), "--out", "out", ANY) as run:
        run.wait(lambda state: state["val_accuracy"] is not None and state["seconds_left"])
        text = troupe("top", run.url).stdout
        lines = text.splitlines()
        assert lines[0].startswith("endless.toml  training  lenet on digits, 2 workers"), text
        assert "\x1b" not in text and all(len(line) <= 100 for line in lines), text
        for word in (" of 1,000,000", " left", " samples/s", "training loss ", "validation accuracy ", "compute", "w0->w1", "iB/s"):
            assert word in text, (word, text)
        assert text == "\n".join(lines) + "\n" and any(re.match(r" +1 +\d", line) for line in lines), text
        found = json.loads(troupe("top", run.url.removeprefix("http://"), "--json").stdout)
        state = run.state()
        assert found.keys() == state.keys() and 0 < found["step"] <= state["step"]
        assert [edge["edge"] for edge in found["edges"]] == ["w0->w1", "w1->w0"]
        run.end()


def test_a_terminal_is_redrawn_in_place_until_ctrl_c():
    with Watched(write("endless.toml", ENDLESS), "--out", "out", ANY) as run:
        for plain in ("", "1"):
            shown = Terminal(run.url, columns=70, rows=20, NO_COLOR=plain)
            shown.wait(lambda seen: seen.count(HOME) >= 3 and len(steps_in(seen)) >= 2)
            os.write(shown.file, b"\x03")
            assert shown.end() == 0
            drawn, last = shown.seen.split("\x1b[?1049l")
            assert drawn.startswith("\x1b[?1049h\x1b[?25l") and "\x1b[?25h" in drawn, "the cursor comes back"
            assert "endless.toml" in last and HOME not in last and max(steps_in(last)) == max(steps_in(drawn))
            for page in drawn.split(HOME)[1:]:
                lines = re.sub(r"\x1b\[[?\d]*[a-zA-Z]", "", page).replace("^C", "").splitlines()
                assert len(lines) <= 20 and all(len(line) <= 70 for line in lines), lines
            colours = re.findall(r"\x1b\[\d+m", shown.seen)
            assert not colours if plain else colours, plain
        run.end()


def test_the_end_of_the_run_ends_it_and_shows_how_the_run_has_ended():
    with Watched(write("endless.toml", ENDLESS), "--out", "out", ANY) as run:
        shown = Terminal(run.url)
        shown.wait(lambda seen: HOME in seen)
        run.end()
        assert shown.end() == 0
    last = shown.seen.split("\x1b[?1049l")[1]
    assert "interrupted" in last and metrics("out")[-1]["step"] in steps_in(last), last


def test_a_run_that_was_killed_is_an_error():
    with Watched(write("endless.toml", ENDLESS), "--out", "out", ANY) as run:
        shown = Terminal(run.url)
        shown.wait(lambda seen: HOME in seen)
        run.process.kill()
        assert shown.end() == 1
        assert "the connection was lost before the run had ended" in shown.seen


def test_a_signal_from_elsewhere_has_its_status():
    with Watched(write("endless.toml", ENDLESS), "--out", "out", ANY) as run:
        shown = Terminal(run.url)
        shown.wait(lambda seen: HOME in seen)
        os.kill(shown.process, signal.SIGTERM)
        assert shown.end() == 143 and "\x1b[?25h" in shown.seen
        run.end()


def test_the_token_of_the_url_is_needed_beyond_this_host():
    with Watched(write("endless.toml", ENDLESS), "--out", "out", "--dashboard=0.0.0.0:0") as run:
        url = run.url.replace("0.0.0.0", "127.0.0.1")
        assert "endless.toml" in troupe("top", url).stdout
        said = troupe("top", url.partition("?")[0], status=1).stderr
        assert "the token is missing or wrong" in said, said
        run.end()


def test_a_run_can_be_watched_through_its_entrance_for_guests():
    for how, status in (("end", 0), ("kill", 1)):
        with open_run(ENDLESS, "--overwrite") as run:
            run.until_trained("out")
            text = troupe("top", "out").stdout
            assert text.startswith("out.toml  training  lenet on digits, 2 workers") and "\x1b" not in text, text
            found = json.loads(troupe("top", "out", "--json").stdout)
            assert found["steps"] == 1000000 and [edge["edge"] for edge in found["edges"]] == ["w0->w1", "w1->w0"], found
            shown = Terminal("out")
            shown.wait(lambda seen: seen.count(HOME) >= 3 and len(steps_in(seen)) >= 2)
            os.kill(run.pid, signal.SIGINT if how == "end" else signal.SIGKILL)
            assert shown.end() == status, shown.seen
            last = shown.seen.split("\x1b[?1049l")[1]
            if how == "end":
                assert "interrupted" in last and metrics("out")[-1]["step"] in steps_in(last), last
            else:
                assert "the connection was lost before the run had ended" in last, last
    said = troupe("top", "out", status=1).stderr  # the file that the killed run has left
    assert "cannot attach to the run at 127.0.0.1" in said, said
    pathlib.Path("out/actors.json").unlink()
    said = troupe("top", "out", status=1).stderr
    assert "expected the results folder of a run that was started with --actors and has not ended" in said, said


def edges_of(folder):
    """The edges in the report of a run, as its button saves them."""
    page = pathlib.Path(folder, "report.html").read_text()
    given = json.loads(re.search(r'id="csv">(.*?)</script>', page, re.DOTALL)[1])
    assert given["loss"].startswith("series,seconds,loss,lowest,highest,epochs,steps,samples,bytes_sent\n"), given["loss"]
    assert set(given) == set(re.findall(r'data-figure="([\w-]+)"', page)), given.keys()
    return list(csv.DictReader(io.StringIO(given["wiring"])))


@thorough
def test_what_the_edges_have_carried_adds_up_to_the_bytes_of_the_metrics():
    for name in ("ring_all_reduce", "star", "dpsgd_ring", "asgd", "easgd", "sync_ps", "hierarchy"):
        troupe("run", SOURCE / "topologies" / f"{name}.toml", "--out", name, "--set", "data.name=digits", "--set",
               "run.steps=16", "--set", "model.name=lenet", "--quiet")
        edges = edges_of(name)
        assert sum(int(edge["bytes"] or 0) for edge in edges) == metrics(name)[-1]["bytes_sent"], (name, edges)
        assert all((edge["staleness"] != "") == ("->" in edge["edge"] and re.search(r" s\d+$", edge["edge"]) is not None)
                   for edge in edges if int(edge["bytes"] or 0)), (name, edges)


def test_emulated_links_show_their_rate_and_queue():
    file = write("links.toml", ENDLESS + LINK)
    troupe("simulate", file, "--set", "simulate.gradient=5ms", "--set", "run.steps=40", "--out", "out")
    with open("out/links.csv", newline="") as rows:
        written = {f"{row['interface']} {row['direction']}": row for row in csv.DictReader(rows)}
    page = pathlib.Path("out/report.html").read_text()
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])
    assert len(data["links"]) == 4 == len(written), (data["links"], written)
    assert [int(row["bytes"]) for row in written.values()] == [link["bytes"] for link in data["links"]]
    assert "w0 sends" in html.unescape(page)
    with Watched(file, "--out", "live", ANY) as run:
        run.wait(lambda state: any(link["bytes_per_second"] > 0 for link in state["links"]))
        text = troupe("top", run.url).stdout
        assert re.search(r"^ *link +rate +sent +occupied +queue +mean wait$", text, re.MULTILINE), text
        assert "w1 receives" in text, text
        assert 'troupe_link_bytes_total{link="w0",direction="send"}' in run.get("metrics")
        run.end()


@contextlib.contextmanager
def server(answer):
    """Something that listens, and says this to whoever asks."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        def serve():
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection, contextlib.suppress(OSError):
                    connection.recv(65536)
                    answer(connection)
        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)


def with_body(body, kind="application/json", status="200 OK"):
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def test_the_terminal_comes_back_after_two_signals():
    with Watched(write("endless.toml", ENDLESS), "--out", "out", ANY) as run:
        shown = Terminal(run.url, columns=70, rows=20, NO_COLOR="1")
        shown.wait(lambda seen: HOME in seen)
        for _ in range(2):  # the second one may come too late to count
            os.kill(shown.process, signal.SIGINT)
        assert shown.end() in (0, 128 + signal.SIGINT)
        assert "\x1b[?25h\x1b[?1049l" in shown.seen, shown.seen
        run.end()


def test_what_is_not_a_dashboard_is_named():
    said = troupe("top", "127.0.0.1:1", status=1).stderr
    assert "127.0.0.1:1: cannot connect (Connection refused); start a run with --dashboard" in said, said
    assert "there is no host" in troupe("top", f"{'a' * 64}:1", status=1).stderr
    answers = [b"", b"SSH-2.0-OpenSSH_9.2\r\n", b"\0" * 1000, b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 10_000,
               with_body(b"<html>hello</html>", "text/html"), with_body(b"{}"), with_body(b"[]"), with_body(b"null"),
               with_body(b"", status="404 Not Found"), with_body(b"", status="302 Found"), with_body(b"[" * 1_000_000),
               with_body(b'{"status":"done","step":-1,"workers":[]}'), with_body(b'{"status":7,"step":1,"workers":[]}'),
               with_body(b'{"status":"done","step":1,"workers":{}}')]
    for bytes_sent in answers:
        with server(lambda connection, bytes_sent=bytes_sent: connection.sendall(bytes_sent)) as address:
            said = troupe("top", address, status=1).stderr
            assert "is not the dashboard of a run" in said and address in said, (bytes_sent[:60], said)


def test_an_answer_without_end_is_given_up():
    def endless(connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            connection.sendall(b" " * 65536)
    with server(endless) as address:
        assert "the answer is too long" in troupe("top", address, status=1).stderr
    with server(lambda connection: time.sleep(20)) as address:
        assert "no answer within 5 seconds" in troupe("top", address, status=1).stderr


def test_names_from_a_server_cannot_control_the_terminal():
    bad = "\x1b]0;owned\x07\x1b[2J\u009b31m\r\nx" * 3
    state = {"title": bad * 100, "model": bad, "data": bad, "status": bad, "waiting": bad, "step": 2**63, "steps": 1,
             "seconds": 1e308, "seconds_left": -1, "samples_per_second": 1e300, "train_loss": None, "val_accuracy": 1e99,
             "bytes_sent": 2**64 - 1, "links": [{"link": bad, "bytes": -5, "bytes_per_second": 1e300, "busy_share": 9}],
             "edges": 5, "workers": [{"steps": "x", "compute_share": -4, "data_share": 1e9}, 3, None, []] * 100}
    body = json.dumps(state, ensure_ascii=False).encode()
    with server(lambda connection: connection.sendall(with_body(body))) as address:
        text = troupe("top", address).stdout
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text), text
        assert all(len(line) <= 100 for line in text.splitlines()) and "… and " in text, text
        printed = troupe("top", address, "--json").stdout
        assert printed.isascii() and "\x1b" not in printed and json.loads(printed)["title"] == bad * 100
    events = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: " + body + b"\n\n"
    with server(lambda connection: connection.sendall(events)) as address:
        shown = Terminal(address, NO_COLOR="1")
        assert shown.end() == 0 and "]0;" not in shown.seen.replace("\\x1b]0;", ""), shown.seen


def test_addresses_that_are_none_are_refused():
    for address in ("nonsense", "127.0.0.1:0", "http://127.0.0.1:1/x", "https://127.0.0.1:1", "127.0.0.1:1?token=a\r\nX: y"):
        assert "is neither the address of a dashboard nor a results folder" in troupe("top", address, status=2).stderr, address


main(globals())
