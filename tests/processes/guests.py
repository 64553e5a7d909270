"""Guests: other programs that attach to a run with --actors. They hear what happens and steer the run; whatever else they
send, the run ends with the same bytes.

    guests.py          a few wirings and several hundred mutations
    guests.py --full   every wiring, on threads and on two processes; 100,000 mutations; guests that are silent for long
    guests.py [--full] --seed N test_mutations_of_a_conversation   repeats mutations
"""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import ssl
import stat
import struct
import subprocess
import sys
import threading
import time

import attacks
from entrances import greeting, open_run, quick, stranger
from nodes import (ASYNCHRONOUS, EXCHANGE, LOOP, WIRINGS, background, free_ports, node_process, node_tables,
                   nothing_is_left, until, weights, wired)
from troupe_command import SOURCE, main, metrics, thorough, timeless, troupe, write

GUEST, OBSERVER = os.environ["TROUPE_GUEST"], os.environ["TROUPE_OBSERVER"]
FULL = "--full" in sys.argv
MUTATIONS = 100_000 if FULL else 300
MOST_MEMORY = 64  # MiB that guests may cost

# A run of thousands of such steps ends in about a second.
TEXT = quick(steps=2000, lr=0.02, every=500, count=2, exchange=EXCHANGE)
ENDLESS = TEXT.replace("steps = 2000", "steps = 100000000")
FOUR = ENDLESS.replace("count = 2", "count = 4")


def over_processes(text, count=2, ports=None):
    """The same workers on `count` nodes."""
    workers = int(re.search(r"count = (\d)\n", text)[1])
    return re.sub(r"count = \d\n", "", text) + node_tables([workers // count] * count, ports)


def guest(run, *commands, status=0):
    """Attaches, does what the commands say, and leaves. Returns the lines that it prints, or its error."""
    done = subprocess.run([GUEST, run.folder, *commands], capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == status, f"status {done.returncode}\n{done.stdout}\n{done.stderr}\n{run}"
    return done.stdout.splitlines() if status == 0 else done.stderr


def visitor(run, *commands, name="visitor"):
    """The same, while the test goes on."""
    return background(run.folder, *commands, name=name, program=(GUEST,))


def heard(printed):
    return [line.removeprefix("line: ") for line in printed if line.startswith("line: ")]


def step_in(line):
    """The step in "pause: step 5" or "status: paused 5 4000"."""
    found = re.search(r": (?:step|\w+) (\d+)", line)
    assert found and "refused" not in line, line
    return int(found[1])


UNDISTURBED = []


def undisturbed():
    """The weights of TEXT without a guest."""
    if not UNDISTURBED:
        troupe("run", write("alone.toml", TEXT), "--out", "alone")
        UNDISTURBED.append(weights("alone"))
    return UNDISTURBED[0]


def memory_of(run, what="VmRSS"):
    """In MiB; VmHWM is the largest so far."""
    text = pathlib.Path(f"/proc/{run.pid}/status").read_text()
    return int(re.search(rf"{what}:\s+(\d+)", text)[1]) / 1024


# A guest without CAF. -----------------------------------------------------------------------------------------------

SERVER_HANDSHAKE, CLIENT_HANDSHAKE, DIRECT, ROUTED, MONITOR, DOWN, HEARTBEAT = range(7)
BY_NAME, SELECT = 1, 2
HEADER, NODE = 32, 32
ME = 8  # the id of the actor that asks


def basp(operation, payload=b"", *, flags=0, number=0, source=0, target=0, claimed=None):
    """A message of BASP; `claimed` is the size that its header says instead of the payload's."""
    return struct.pack(">BBBBIQQQ", operation, 0, 0, flags, len(payload) if claimed is None else claimed, number, source,
                       target) + payload


def value(type_name, fields=b"", forwarded=b"\0", zero=b"\0\0", size=None):
    """The payload of a message of one value."""
    name = b"@<>+" + type_name.encode()
    return forwarded + zero + (bytes([len(name)]) if size is None else size) + name + fields


class raw_guest(stranger):
    """A guest that has been admitted. It knows the ids of both CAF nodes, and that of the actor of the run."""

    def __init__(self, run, name="mallory"):
        super().__init__(run, greeting(name=name))
        answer = self.answer()
        assert "refused" not in answer, answer
        operation, _, _, _, _, payload = self.message()
        assert operation == SERVER_HANDSHAKE, operation
        self.theirs = payload[:NODE]
        texts = payload[NODE:]
        count, texts = texts[0], texts[1:]
        for _ in range(count):
            texts = texts[1 + texts[0]:]
        self.front, = struct.unpack(">Q", texts[:8])
        self.ours = payload[:8] + os.urandom(NODE - 8)
        self.number = 0

    def message(self):
        operation, _, _, flags, size, number, source, target = struct.unpack(">BBBBIQQQ", self.take(HEADER))
        return operation, flags, number, source, target, self.take(size)

    def handshake(self):
        return basp(CLIENT_HANDSHAKE, self.ours) + basp(CLIENT_HANDSHAKE, self.ours, flags=SELECT)

    def request(self, type_name, fields=b"", **more):
        self.number += 1
        return basp(DIRECT, value(type_name, fields), **{"number": self.number, "source": ME, "target": self.front, **more})

    def status(self):
        """Asks for the status, and waits for the answer."""
        self.send(self.request("troupe.status_request"))
        while True:
            operation, _, number, _, target, payload = self.message()
            if operation == DIRECT and target == ME and number & (1 << 60) - 1 == self.number:
                assert b"troupe.run_status" in payload, payload
                return payload


def relayed(run, *commands):
    """What an honest guest says after the greeting, and the id of the CAF node to which it says it."""
    secret = json.loads(run.entrance.read_text())
    host, port = secret["address"].rsplit(":", 1)
    fake = pathlib.Path("relay")
    fake.mkdir()
    said, answered = bytearray(), bytearray()

    def move(source, target, kept):
        with contextlib.suppress(OSError):
            while piece := source.recv(65536):
                kept.extend(piece)
                target.sendall(piece)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    with socket.create_server(("127.0.0.1", 0)) as door:
        address = f"127.0.0.1:{door.getsockname()[1]}"
        (fake / "actors.json").write_text(json.dumps({"address": address, "secret": secret["secret"]}))
        with background(fake, *commands, name="relayed", program=(GUEST,)) as honest:
            door.settimeout(20)
            near, _ = door.accept()
            with near, socket.create_connection((host, int(port))) as far:
                ways = [threading.Thread(target=move, args=way) for way in ((near, far, said), (far, near, answered))]
                for way in ways:
                    way.start()
                for way in ways:
                    way.join(60)
            honest.wait(0)
    said = bytes(said[72:]).split(b"\n", 1)[1]
    answered = bytes(answered[64:]).split(b"\n", 1)[1]
    return said, answered[HEADER:HEADER + NODE]


def messages_in(said):
    found = []
    while said:
        size = HEADER + struct.unpack(">I", said[4:8])[0]
        found.append(said[:size])
        said = said[size:]
    return found


class conversation:
    """What a guest says, told again to another actor system of the run."""

    def __init__(self, said, theirs):
        self.messages, self.theirs = messages_in(said), theirs
        front = {message[24:32] for message in self.messages if message[0] == DIRECT and b"@<>+troupe." in message}
        assert len(front) == 1, front
        self.front, = front
        asked = value("troupe.news_after", bytes(16))
        self.messages.append(basp(DIRECT, asked, number=99, source=ME, target=int.from_bytes(self.front, "big")))

    def retold(self, to):
        own = struct.pack(">Q", to.front)
        return [(message[:24] + own + message[32:] if message[24:32] == self.front else message)
                .replace(self.theirs, to.theirs) for message in self.messages]


def mutated(messages, draw):
    """Changes the bytes of messages in one to three places."""
    order = list(messages)
    if draw.random() < 0.2:
        draw.shuffle(order)
    if draw.random() < 0.2:
        order.insert(draw.randrange(len(order)), draw.choice(order))
    starts, text = [], bytearray()
    for message in order:
        starts.append(len(text))
        text += message
    extremes = [bytes(8), b"\xff" * 8, b"\x80" + bytes(7), b"\x7f" + b"\xff" * 7, bytes(7) + b"\1", b"\xff\xff\xff\xff\x0f"]
    for _ in range(draw.randint(1, 3)):
        at = draw.randrange(len(text))
        how = draw.randrange(7)
        if how == 0:
            text[at] ^= 1 << draw.randrange(8)
        elif how == 1:
            text[at] = draw.randrange(256)
        elif how == 2:
            extreme = draw.choice(extremes)[:draw.choice((1, 2, 4, 8))]
            text[at:at + len(extreme)] = extreme
        elif how == 3:
            del text[at:at + draw.randint(1, 40)]
        elif how == 4:
            text[at:at] = draw.randbytes(draw.randint(1, 40))
        elif how == 5:  # a header
            at = draw.choice(starts) + draw.randrange(HEADER)
            text[at:at + 1] = bytes([draw.choice((0, 1, 2, 3, 4, 5, 6, 7, 127, 128, 255))])
        else:
            del text[at:]
        if not text:
            break
    return bytes(text)


def reports(said):
    """How often the output says each thing about each guest."""
    counts = {}
    for name, what in re.findall(r"guest (\S+)(?::|,)? (has attached|has left|refused)", said):
        counts[name, what] = counts.get((name, what), 0) + 1
    for name in re.findall(r"warning: refused (?:guest (\S+):|a guest from)", said):
        counts[name, "refused"] = counts.get((name, "refused"), 0) + 1
    return counts


def demand_few_reports(run, seconds):
    """Each name is mentioned at most once a minute for each thing that happens to it."""
    for what, count in reports(run.said()).items():
        assert count <= 1 + seconds // 60, f"{what}: {count} times in {seconds:.0f} s\n{run}"


# Observing. -----------------------------------------------------------------------------------------------------------

def test_guests_hear_every_line_and_the_end():
    with open_run(TEXT) as run, visitor(run, "news", name="early") as early:
        mode = stat.S_IMODE(run.entrance.stat().st_mode)
        assert mode == 0o600, oct(mode)
        run.until(lambda: run.has_written("evaluation"), "an evaluation")
        guest(run, "pause")
        with visitor(run, "status", "wiring", "news", name="late") as late:
            late.until(lambda: heard(late.printed().splitlines()), "a line")
            guest(run, "continue")
            run.wait(0)
            for one in early, late:
                one.wait(0, within=20)
                printed = one.printed().splitlines()
                assert printed[0] == "attached" and "missed" not in one.printed(), one
                assert heard(printed) == run.lines(), one
                assert printed[-1].startswith("over: "), one
            printed = late.printed()
        assert re.search(r"^status: paused \d+ 2000$", printed, re.M), printed
        assert f"wiring: {run.folder.resolve()}\n{(run.folder / 'topology.toml').read_text()}" in printed, printed
        assert not run.entrance.exists()
        assert weights("out") == undisturbed()
        demand_few_reports(run, 0)


def test_the_last_news_have_the_last_step():
    with open_run(ENDLESS) as run:
        printed = guest(run, "sleep=300", "halt", "news")
        run.wait(0)
        assert printed[-1] == f"over: {metrics('out')[-1]['step']}", printed


def test_the_wiring_of_many_workers():
    """The plan of a complete graph has a matrix: more than a mebibyte of text."""
    if not FULL:
        return print("SKIPPED: only with --full")
    many = FOUR.replace("count = 4", "count = 96").replace("batch_size = 4", "batch_size = 1")
    with open_run(wired(many, (LOOP, '[exchange]\nkind = "gossip"\ngraph = "complete"\n'))) as run:
        run.until_trained("out")
        printed = guest(run, "wiring", "halt")
        assert printed[1] == f"wiring: {run.folder.resolve()}", printed[1]
        run.wait(0)


def test_a_continued_run_tells_what_was_written_before():
    with open_run(ENDLESS) as run:
        run.until(lambda: run.has_written("evaluation"), "an evaluation")
        guest(run, "checkpoint", "halt")
        run.wait(0)
    with background("run", "--resume", "out", "--actors", "127.0.0.1:0", name="again") as again:
        again.folder = run.folder
        again.until_said("guests: ")
        printed = guest(again, "status", "halt", "news")
        again.wait(0)
        assert heard(printed) == run.lines(), printed
        assert [json.loads(line)["event"] for line in run.lines()].count("resume") == 1


def test_a_checkpoint_that_cannot_be_written_is_refused():
    with open_run(ENDLESS) as run:
        run.until_trained("out")
        pathlib.Path("out/checkpoints").write_text("in the way")
        assert guest(run, "checkpoint")[-1].startswith("checkpoint: refused: the checkpoint cannot be written"), run
        assert not run.has_written("steered")
        run.until_said("the checkpoint of step")
        pathlib.Path("out/checkpoints").unlink()
        step = step_in(guest(run, "checkpoint")[-1])
        guest(run, "halt")
        run.wait(0)
    assert pathlib.Path(f"out/checkpoints/step-{step:08}").exists() or list(pathlib.Path("out/checkpoints").glob(f"*{step}")), step


def test_a_run_over_processes_and_the_loss_of_a_node():
    with open_run(over_processes(ENDLESS)) as run, visitor(run, "news") as one:
        one.until(lambda: heard(one.printed().splitlines()), "a line")
        assert guest(run, "pause", "continue")[-1].startswith("continue: step")
        os.kill(node_process("beta"), signal.SIGKILL)
        run.wait(1, within=30)
        one.wait(0, within=20)
        printed = one.printed().splitlines()
        assert heard(printed) == run.lines() and printed[-1].startswith("over: "), one
        end = metrics("out")[-1]
        assert (end["event"], end["status"]) == ("end", "failed"), end
        assert not run.entrance.exists()
    nothing_is_left()


def test_the_end_of_the_first_node_is_noticed():
    with open_run(over_processes(ENDLESS)) as run, visitor(run, "news") as one:
        one.until(lambda: heard(one.printed().splitlines()), "a line")
        os.kill(node_process("alpha"), signal.SIGKILL)
        run.wait(1, within=30)
        one.wait(0, within=20)
        assert one.printed().splitlines()[-1] == "lost", one
    nothing_is_left()


def test_the_example_ends_a_run_at_its_target():
    with open_run(ENDLESS.replace("every = 500", "every = 100")) as run:
        with background(run.folder, "0.6", name="observer", program=(OBSERVER,)) as observer:
            run.wait(0)
            observer.wait(0, within=20)
        end = metrics("out")[-1]
        assert end["status"] == "halted" and end["val_accuracy"] > 0.4, end
        assert "the target is reached; the run ends" in observer.printed(), observer
        reached = [line for line in metrics("out") if line["event"] == "evaluation" and line["val_accuracy"] >= 0.6]
        assert f"accuracy {reached[0]['val_accuracy']:.4f}" in observer.printed(), observer


# Steering. ------------------------------------------------------------------------------------------------------------

def demand_as_far(folder, again):
    """Compares the metrics of a run and of its replay, which does not know the names of guests."""
    lines = [timeless(out) for out in (folder, again)]
    for line in sum(lines, []):
        if line["steered"]:
            line["steered"].pop("guest")
    assert lines[0] == lines[1], f"{folder} and {again} differ"


def steer(text, *options):
    """Does everything that a guest can do to a run, and demands that it has happened."""
    orders = ("continue", "lr=-0.1", "lr=nan", "lr=inf", "pause", "sleep=100", "status", "sleep=100", "status", "pause",
              "lr=0.005", "checkpoint", "continue", "sleep=50", "status", "halt", "pause")
    with open_run(text, "--overwrite", *options) as run:
        run.until_trained("out")
        printed = guest(run, *orders)
        run.wait(0)
        assert "ended by a guest" in run.printed(), run
    attached, *answers = printed
    assert attached == "attached" and len(answers) == len(orders) - 3, printed
    refused = [answer for answer in answers if "refused" in answer]
    assert refused == ["continue: refused: the run is not paused",
                       *(f"lr={rate}: refused: the learning rate must be a finite number that is not negative"
                         for rate in ("-0.1", "nan", "inf")),
                       "pause: refused: the run is ending"], printed
    pause, first, second, again, rate, checkpoint, proceed, training, halt = answers[4:-1]
    assert first == second and first.startswith("status: paused "), printed
    assert training.startswith("status: training "), printed
    stood, ended = step_in(pause), step_in(halt)
    assert all(step_in(answer) == stood for answer in (first, again, rate, checkpoint, proceed)), printed
    assert step_in(training) <= ended and stood < ended, printed

    lines = metrics("out")
    steered = [(line["step"], line["steered"]["what"], line["steered"]["guest"]) for line in lines if line["steered"]]
    assert steered == [(stood, what, "tester") for what in ("pause", "pause", "learning_rate", "checkpoint", "continue")] + [
        (ended, "halt", "tester")], steered
    change = next(line["steered"] for line in lines if line["steered"] and line["steered"]["what"] == "learning_rate")
    assert (change["lr"], change["from"]) == (0.005, stood) or "budget" in text or "each" in text or "first" in text, change
    rates = [(line["step"], line["lr"]) for line in lines if line["lr"] is not None]
    assert rates and all(rate == (0.005 if step > change["from"] else 0.02) for step, rate in rates), rates
    assert (lines[-1]["event"], lines[-1]["status"], lines[-1]["step"]) == ("end", "halted", ended), lines[-1]
    assert [path.name for path in pathlib.Path("out/checkpoints").iterdir()] == [f"step-{stood:012}"]
    return stood


def steer_and_continue(text, *options):
    stood = steer(text, *options)
    if "--record" in options:
        troupe("replay", "out", "--out", "again", "--overwrite")
        assert weights("out") == weights("again")
        demand_as_far("out", "again")
    steps = 2 * stood + 200  # more than the fastest worker of an asynchronous run has made
    troupe("run", "--resume", "out", "--set", f"run.steps={steps}")
    lines = metrics("out")
    assert (lines[-1]["status"], lines[-1]["step"], lines[-1]["lr"]) == ("done", steps, 0.005), lines[-1]
    assert [line["step"] for line in lines if line["event"] == "resume"] == [stood]


def test_a_guest_steers_a_synchronous_run():
    steer_and_continue(ENDLESS)


def test_a_guest_steers_an_asynchronous_run_which_is_replayed():
    steer_and_continue(wired(FOUR, ASYNCHRONOUS["asgd"]), "--record")


@thorough
def test_a_guest_steers_gossip():
    steer_and_continue(wired(FOUR, WIRINGS["gossip on a ring"]))


@thorough
def test_a_guest_steers_model_averaging_over_processes_which_is_replayed():
    steer_and_continue(over_processes(wired(FOUR, WIRINGS["model averaging"])), "--record")


def test_a_guest_steers_each_wiring():
    if not FULL:
        return print("SKIPPED: only with --full")
    each = {**WIRINGS, **ASYNCHRONOUS}
    each["bounded staleness"] = (ASYNCHRONOUS["asgd"][0], ASYNCHRONOUS["asgd"][1] + "staleness_bound = 1\n")
    each["backup workers"] = (each["asgd"][0], each["asgd"][1].replace('"each"', '"first"\nfirst = 3'))
    for name, wiring in each.items():
        recorded = () if name == "hogwild" else ("--record",)
        for text in (wired(FOUR, wiring), over_processes(wired(FOUR, wiring))):
            print(f"  {name}{', two processes' if '[[node]]' in text else ''}", flush=True)
            steer_and_continue(text, *recorded)
            if name in ASYNCHRONOUS and "[run]" in text:
                steer_and_continue(text.replace("[run]", '[run]\nbudget = "total"'), *recorded)


def test_a_pause_changes_nothing():
    with open_run(TEXT) as run:
        printed = guest(run, *["pause", "sleep=30", "continue", "sleep=10"] * 5, "checkpoint", "lr=0.02@1000000000", "news")
        run.wait(0)
        stops = [step_in(line) for line in printed if line.startswith("pause: ")]
        assert len(set(stops)) == 5 and stops == sorted(stops), printed
        assert metrics("out")[-1]["status"] == "done"
        assert weights("out") == undisturbed()


def test_the_status_has_the_step_of_a_pause():
    with open_run(FOUR) as run:
        printed = guest(run, *["sleep=30", "pause", "sleep=150", "status", "continue"] * 4, "halt")
        run.wait(0)
        for pause, status in zip(printed[1::3], printed[2::3]):
            assert step_in(pause) == step_in(status), printed


def test_a_rate_from_a_step_on_is_exact_and_survives_a_checkpoint():
    if not FULL:
        return print("SKIPPED: only with --full")

    def trained(*orders, out="out"):
        with open_run(TEXT, "--overwrite", out=out) as run:
            printed = guest(run, "pause", *orders)
            assert step_in(printed[1]) < 1000, f"too late: {printed}"
            run.wait(0)
        return weights(out)
    expected = trained("lr=0.5@1500", "lr=0.001@1000", "continue")
    assert expected != undisturbed()
    trained("lr=0.001@1000", "checkpoint", "halt")
    troupe("run", "--resume", "out")
    assert weights("out") == expected, "a checkpoint before the change"
    with open_run(TEXT, "--overwrite") as run:
        guest(run, "lr=0.001@1000")
        run.until(lambda: json.loads(run.lines()[-1])["step"] >= 1500, "step 1500")
        guest(run, "checkpoint", "halt")
        run.wait(0)
    troupe("run", "--resume", "out")
    assert weights("out") == expected, "a checkpoint after the change"


def test_signals_and_other_guests_end_a_pause():
    with open_run(ENDLESS) as run:
        assert guest(run, "pause")[-1].startswith("pause: step")
        assert guest(run, "status", "continue", "pause")[1].startswith("status: paused"), "it has left with its guest"
        run.process.send_signal(signal.SIGINT)
        run.wait(130)
        assert metrics("out")[-1]["status"] == "interrupted"


def test_a_halt_while_a_checkpoint_is_taken_or_written():
    """Every order is answered, the end is the last line, and nothing is written after it."""
    several = wired(FOUR, ASYNCHRONOUS["asgd"])  # its checkpoint has several files, which take longer than its end
    for delay in (0, 0.001, 0.002, 0.003, 0.004, 0.006, 0.01, 0.02) if FULL else (0.002, 0.005):
        for orders in ("checkpoint", "halt"), ("pause", "checkpoint", "checkpoint", "halt"):
            with open_run(several, "--overwrite") as run:
                run.until_trained("out")
                with raw_guest(run) as one:
                    one.send(one.handshake())
                    one.status()
                    first = one.number + 1
                    for order in orders:
                        time.sleep(delay)
                        one.send(one.request(f"troupe.{order}_run"))
                    answered = set()
                    with contextlib.suppress(ConnectionError):
                        while len(answered) < len(orders):
                            operation, _, number, _, target, payload = one.message()
                            if operation == DIRECT and target == ME and b"@<>+troupe.steered" in payload:
                                answered.add((number & (1 << 60) - 1) - first)
                run.wait(0)
                ends = [(line["event"], line["status"]) for line in metrics("out") if line["event"] == "end"]
                context = f"{orders} after {1000 * delay} ms: {run}"
                assert ends == [("end", "halted")] and metrics("out")[-1]["event"] == "end", f"{ends} {context}"
                missing = [order for number, order in enumerate(orders) if number not in answered]
                assert not missing, f"no answer to {missing} of {context}"


def test_a_checkpoint_just_before_the_end():
    with open_run(TEXT.replace("steps = 2000", "steps = 1000")) as run, raw_guest(run) as one:
        one.send(one.handshake())
        with contextlib.suppress(ConnectionError):
            while True:  # one after the other, until the run is over
                one.send(one.request("troupe.checkpoint_run"))
                while b"@<>+troupe.steered" not in one.message()[-1]:
                    pass
        run.wait(0)
        lines = [(line["event"], line["status"], line["step"]) for line in metrics("out")]
        assert lines[-1] == ("end", "done", 1000) and [line[0] for line in lines].count("end") == 1, lines[-5:]


def test_orders_of_two_guests_at_once():
    with open_run(TEXT) as run, visitor(run, *["pause", "checkpoint", "continue"] * 6, name="a") as one:
        with visitor(run, *["pause", "lr=0.02", "continue", "status"] * 6, name="b") as other:
            for each in one, other:
                each.wait(0)
                assert "lost" not in each.printed(), each
            guest(run, "pause", "continue")
            run.wait(0)
        assert weights("out") == undisturbed()


# Who is admitted. -----------------------------------------------------------------------------------------------------

def test_strangers_are_refused():
    text = ENDLESS + '[actors]\nallow = ["tester", "mallory"]\n'
    with open_run(text) as run:
        def refusal(hello, **more):
            with stranger(run, hello, **more) as one:
                try:
                    answer = one.answer()
                    assert "refused" in answer, f"admitted: {hello[:70]}"
                    assert one.is_shown_the_door()
                    return answer["refused"]
                except ConnectionError:
                    return "no answer"

        assert guest(run, "status")[1].startswith("status: training")
        own = secret_of(run)
        for secret, magic in ((os.urandom(32), b"TROUPE-G"), (bytes(32), b"TROUPE-G"), (b"", b"TROUPE-G"), (own, b"TROUPE\r\n"),
                              (own, b"TROUPE-H")):
            assert refusal(None, secret=secret, magic=magic) == "no answer", (secret, magic)
        for hello, why in {
            b"\n": "not a JSON object",
            b"[" * 1000 + b"\n": "not a JSON object",
            b"\xff\xfe\0\n": "not a JSON object",
            b"{}\n": "without a protocol",
            b"x" * 1024: "too long",
            greeting(name="x" * 1000): "too long",
            b"x" * 300_000: "too long",
            greeting(protocol=2): "speaks version 2 of the protocol",
            greeting(protocol=2 ** 64): "protocol",
            greeting(protocol="1"): "without a protocol",
            greeting(caf="0.17.5"): "uses CAF 0.17.5; expected 0.17.6",
            greeting(caf="\x1b[31m"): "uses CAF ?[31m",
            greeting(**{"as": "king"}): "what it wants to be",
            greeting(**{"as": "member"}): "no exchange of this run has an actor of its name",
            greeting(name=""): "without a name",
            greeting(name="a b"): "its name is not one",
            greeting(name="x" * 65): "its name is not one",
            greeting(name="stranger"): "not in actors.allow",
        }.items():
            said = refusal(hello)
            assert why in said, f"{hello[:70]}: {said}"
        for why in ("it has another secret", "it is not a node of Troupe",
                    "guest stranger: its name is not in actors.allow"):
            run.until_said(why)
        assert "\x1b" not in run.said(), run
        demand_few_reports(run, 0)
        guest(run, "halt")
        run.wait(0)


def test_a_version_beyond_32_bits_is_not_ours():
    with open_run(ENDLESS) as run:
        for version in 2 ** 32 + 1, 1 - 2 ** 32:
            with stranger(run, greeting(protocol=version)) as one:
                answer = one.answer()
                assert "refused" in answer, (version, answer)
        guest(run, "halt")
        run.wait(0)


def secret_of(run):
    return bytes.fromhex(json.loads(run.entrance.read_text())["secret"])


def test_a_run_of_several_nodes_has_another_secret():
    ports = free_ports(2)
    file = write("two.toml", over_processes(ENDLESS, ports=ports))
    pathlib.Path("troupe.secret").write_text("ab" * 32 + "\n")
    os.chmod("troupe.secret", 0o600)
    alpha = background("node", file, "--name", "alpha", "--out", "out", "--actors", name="alpha")
    with alpha, background("node", file, "--name", "beta", name="beta") as beta:
        alpha.folder, alpha.entrance = pathlib.Path("out"), pathlib.Path("out/actors.json")
        alpha.until_said("guests: ")
        assert secret_of(alpha) != b"\xab" * 32
        for secret, magic in ((b"\xab" * 32, b"TROUPE-G"), (secret_of(alpha), b"TROUPE\r\n")):
            with stranger(alpha, secret=secret, magic=magic) as one:
                assert one.is_shown_the_door()
        alpha.until_trained("out")
        guest(alpha, "halt")
        alpha.wait(0)
        beta.wait(0)
        assert "it has another secret" in alpha.said(), alpha
    nothing_is_left(ports)


def test_only_so_many_guests():
    with open_run(ENDLESS) as run:
        with contextlib.ExitStack() as all_guests:
            for number in range(16):
                all_guests.enter_context(raw_guest(run, f"guest-{number}"))
            assert "there are 16 guests already" in guest(run, "status", status=1)
        until(lambda: len(re.findall("guest guest-.* has left", run.said())) == 16, "all have left", 20, context=run)
        assert guest(run, "status")[1].startswith("status: training")
        guest(run, "halt")
        run.wait(0)


def test_only_so_many_names_are_reported():
    with open_run(ENDLESS) as run:
        for number in range(200):
            with stranger(run, greeting(name=f"other-{number}")) as one:
                one.answer()
        guest(run, "halt")
        run.wait(0)
        assert len(run.said().splitlines()) < 100, "too many names are reported"


def test_connections_that_say_nothing_are_closed():
    """Sixteen may greet at a time; the oldest has to go when another one comes."""
    with open_run(ENDLESS) as run:
        with contextlib.ExitStack() as silent:
            all_silent = [silent.enter_context(stranger(run, b"{")) for _ in range(40)]
            assert all_silent[0].is_shown_the_door()
            assert guest(run, "status")[1].startswith("status: training")
        guest(run, "halt")
        run.wait(0)


def test_a_run_without_certificates_listens_on_this_host_only():
    port, = free_ports(1)
    node = f'[[node]]\nname = "alpha"\naddress = "0.0.0.0:{port}"\nworkers = 2\n'
    file = write("open.toml", TEXT.replace("count = 2\n", "").replace("steps = 2000", "steps = 10") + node)
    said = troupe("run", file, "--out", "out", "--actors", status=2).stderr
    assert "loopback" in said and "certificates" in said, said
    said = troupe("run", write("tiny.toml", TEXT), "--actors", "0.0.0.0:0", "--out", "out", status=2).stderr
    assert "loopback" in said, said
    assert not pathlib.Path("out").exists()


# Certificates. --------------------------------------------------------------------------------------------------------

def certified(ports, allow, text=ENDLESS):
    names = "".join(f'[[node]]\nname = "{name}"\naddress = "127.0.0.1:{port}"\nworkers = {2 // len(ports)}\n'
                    for name, port in zip(("alpha", "beta"), ports))
    return (text.replace("count = 2\n", "") + names + '[security]\ncertificates = "certs"\n' +
            (f"[actors]\nallow = {json.dumps(allow)}\n" if allow else ""))


def make_certificates():
    troupe("certs", "certs", "--node", "alpha", "--node", "beta", "--guest", "watcher", "--guest", "other")
    troupe("certs", "foreign", "--node", "alpha", "--guest", "watcher")


def attach_with(port, folder, name, *commands, status=0):
    done = subprocess.run([GUEST, f"127.0.0.1:{port}", folder, name, *commands], capture_output=True, text=True, timeout=60,
                          check=False)
    assert done.returncode == status, f"{done.stdout}\n{done.stderr}"
    return done.stdout if status == 0 else done.stderr


def over_tls(port, name, folder="certs", alpn="troupe-guest", words=None):
    """Connects with a certificate, or with none, and returns what the run answers."""
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        with attacks.attacks("127.0.0.1", port, folder).tls(name, alpn) as one:
            one.settimeout(20)
            one.sendall(words or greeting(name="watcher"))
            return one.recv(65536)
    return b""


def test_guests_with_certificates():
    make_certificates()
    port, = free_ports(1)
    with open_run(certified([port], [])) as run:
        assert "its name is not in actors.allow" in attach_with(port, "certs", "watcher", "status", status=1)
        assert not run.entrance.exists()
        run.process.send_signal(signal.SIGINT)
        run.wait(130)
    with open_run(certified([port], ["watcher"]), "--overwrite") as run:
        assert "status: training" in attach_with(port, "certs", "watcher", "status")
        assert "its name is not in actors.allow" in attach_with(port, "certs", "other", "status", status=1)
        assert "from another authority" in attach_with(port, "foreign", "watcher", "status", status=1)
        assert "not for a guest" in attach_with(port, "certs", "alpha", "status", status=1)
        assert b"not in actors.allow" in over_tls(port, "other"), "the greeting has another name than the certificate"
        assert b"not in actors.allow" in over_tls(port, "alpha"), "a node's certificate"
        for name, folder, alpn in (("watcher", "foreign", "troupe-guest"), (None, "certs", "troupe-guest"),
                                   ("watcher", "certs", "h2"), ("watcher", "certs", None),
                                   ("watcher", "certs", "troupe-control"), ("watcher", "certs", "troupe-tensors")):
            said = over_tls(port, name, folder, alpn)
            assert said == b"", (name, folder, alpn, said)
        with contextlib.suppress(OSError), attacks.attacks("127.0.0.1", port, "certs").dial() as plain:
            plain.sendall(b"TROUPE-G" + bytes(32))
            assert plain.recv(100) == b""
        for why in ("from another authority", "has shown no certificate", "does not use TLS",
                    "does not ask for a connection between nodes", "guest alpha"):
            run.until_said(why)
        assert "actors.json" not in run.said(), run
        printed = attach_with(port, "certs", "watcher", "halt", "news")
        run.wait(0)
        assert "halt: step" in printed and heard(printed.splitlines()) == run.lines(), printed
    assert "is the name of a node" in troupe("check", write("c.toml", certified([port], ["alpha"])), status=2).stderr
    nothing_is_left([port])


def of_this_version(frame):
    """A frame of support/attacks.py with the version of the protocol that the source states."""
    source = (SOURCE / "net/frames/layout.hpp").read_text()
    version = int(re.search(r"protocol_version = (\d+)", source)[1])
    header = frame[:4] + struct.pack("<H", version) + frame[6:attacks.HEADER - 4]
    return header + struct.pack("<I", attacks.crc32c(header)) + frame[attacks.HEADER:]


def test_a_guest_cannot_join_as_a_node():
    make_certificates()
    ports = free_ports(2)
    text = certified(ports, ["watcher"], TEXT.replace("steps = 2000", "steps = 300"))
    shutil.copytree("certs", "stolen")
    for kind in "crt", "key":
        os.replace(f"stolen/watcher.{kind}", f"stolen/beta.{kind}")
    file = write("two.toml", text)
    done = troupe("node", file, "--name", "beta", "--set", "security.certificates=stolen", status=2)
    assert "for the guest watcher, not for node beta" in done.stderr, done.stderr
    with background("node", file, "--name", "alpha", "--out", "out", "--actors", name="alpha") as alpha:
        alpha.until_said("guests: ")
        for plane, alpn in ((attacks.TENSORS, "troupe-tensors"), (attacks.TENSORS, "troupe-guest"),
                            (attacks.CONTROL, "troupe-control")):
            over_tls(ports[0], "watcher", "certs", alpn, of_this_version(attacks.hello(1, plane)))
        until(lambda: "is for the guest watcher, not for node beta" in alpha.said(), "the refusal", 20, context=alpha)
        with background("node", file, "--name", "beta", name="beta") as beta:
            alpha.wait(0)
            beta.wait(0)
    assert metrics("out")[-1]["status"] == "done"
    nothing_is_left(ports)


# Bytes. ---------------------------------------------------------------------------------------------------------------

STATUS = "troupe.status_request"


def worst_messages(one):
    """What no CAF program sends to a run that has offered it an actor. The gate closes the connection."""
    def direct(payload, **more):
        return basp(DIRECT, payload, number=1, source=ME, **{"target": one.front, **more})

    atoms = bytes(16)
    both = one.ours + one.theirs
    return {
        "a payload of 4 GiB": direct(b"", claimed=2 ** 32 - 1),
        "a payload of 64 KiB and a byte": direct(b"", claimed=2 ** 16 + 1),
        "a handshake of 4 GiB": basp(CLIENT_HANDSHAKE, claimed=2 ** 32 - 1),
        "2^31 actors that have forwarded it": direct(value(STATUS, forwarded=b"\x80\x80\x80\x80\x08")),
        "a number of actors without end": direct(value(STATUS, forwarded=b"\xff" * 12)),
        "one actor that has forwarded it": direct(value(STATUS, forwarded=b"\1" + bytes(40))),
        "a type name of 4 GiB": direct(value(STATUS, size=b"\xff\xff\xff\xff\x0f")),
        "a type name that is longer than the message": direct(value(STATUS, size=b"\x7f")),
        "an empty payload": direct(b""),
        "a payload of one byte": direct(b"\0"),
        "a message of another form": direct(value(STATUS, zero=b"\0\1")),
        "a type that does not exist": direct(value("troupe.king")),
        "no type": direct(b"\0\0\0\4@<>+"),
        "two values": direct(value("troupe.pause_run+troupe.halt_run")),
        "a list of 2^31 texts": direct(value("troupe.news", bytes(24) + b"\x80\x80\x80\x80\x08")),
        "an answer": direct(value("troupe.steered", bytes(9))),
        "a link": direct(value("@atom+@strong_actor_ptr", atoms + one.ours)),
        "an exit message": direct(value("@exit", bytes(8) + one.ours + bytes(12))),
        "an exit message of CAF's name": direct(value("exit_msg", bytes(60))),
        "a down message as a value": direct(value("@down", bytes(60))),
        "a request to spawn": direct(value("@atom+@str+@message", atoms)),
        "a routed message": basp(ROUTED, both + value(STATUS), number=1, source=ME, target=one.front),
        "a server handshake": basp(SERVER_HANDSHAKE, one.ours + bytes(20), number=3),
        "an unknown operation": basp(7),
        "the last operation": basp(255),
        "unknown flags": direct(value(STATUS), flags=4),
        "a handshake of another node": basp(CLIENT_HANDSHAKE, one.ours[:-1] + b"?"),
        "a handshake of the run": basp(CLIENT_HANDSHAKE, one.theirs),
        "half a handshake": basp(CLIENT_HANDSHAKE, one.ours[:16]),
        "a heartbeat with a payload": basp(HEARTBEAT, b"x"),
        "a monitor of another node": basp(MONITOR, one.theirs + one.ours, target=one.front),
        "a monitor without nodes": basp(MONITOR, target=one.front),
        "the end of an actor of the run": basp(DOWN, one.theirs + one.ours + bytes(16), source=one.front),
        "the end of an actor without a reason": basp(DOWN, both, source=ME),
    }


def odd_messages(one):
    """What an honest CAF program may send, and more that has no effect."""
    def direct(payload, **more):
        return basp(DIRECT, payload, **{"number": 1 << 50, "source": ME, "target": one.front, **more})

    both = one.ours + one.theirs
    return {
        "to an actor that does not exist": direct(value(STATUS), target=12345),
        "a link to an actor that does not exist": direct(value("@atom+@strong_actor_ptr"), target=12345),
        "to a name": direct(value("@atom+@atom+@str"), target=278614525059968507, flags=BY_NAME),
        "to another name, 60 KiB": direct(bytes(60_000), target=1, flags=BY_NAME),
        "a monitor": basp(MONITOR, both, target=one.front),
        "a monitor of an actor that does not exist": basp(MONITOR, both, target=12345),
        "the end of an actor": basp(DOWN, both + b"\1" + bytes(8) + b"\0\3@<>", source=4711),
        "the end of an actor with details": basp(DOWN, both + b"\1" + bytes(8) + b"\xff" * 5000, source=4711),
        "heartbeats": basp(HEARTBEAT) * 50,
        "a third handshake": basp(CLIENT_HANDSHAKE, one.ours),
        "an answer to nothing": direct(value(STATUS), number=1 << 63 | 77),
        "a message with more than its value": direct(value(STATUS, b"more")),
        "a message from no actor": direct(value(STATUS), source=0),
        "a message from the front itself": direct(value(STATUS), source=one.front),
    }


def test_messages_that_no_guest_should_send():
    """Each ends the connection of the guest that sends it, or has no effect, and all leave the run as it is."""
    expected = undisturbed()
    with open_run(TEXT) as run:
        guest(run, "pause")
        before = memory_of(run)
        with raw_guest(run) as one:
            worst, odd = list(worst_messages(one)), list(odd_messages(one))
        for name in worst:
            with raw_guest(run) as one:
                one.send(one.handshake())
                one.status()
                one.send(worst_messages(one)[name])
                assert one.is_shown_the_door(), name
        for early in "a link", "a monitor", "heartbeats":  # before its handshake
            with raw_guest(run) as one:
                one.send({**worst_messages(one), **odd_messages(one)}[early])
                assert one.is_shown_the_door(), early
        with raw_guest(run, "odd") as one:
            one.send(one.handshake())
            for name in odd:
                one.send(odd_messages(one)[name])
                one.status()
        for fields in b"", b"\0", bytes(15):  # news_after has two numbers of 8 bytes
            with raw_guest(run, "brief") as one:
                one.send(one.handshake(), one.request("troupe.news_after", fields))
                one.say_no_more()
                assert one.is_shown_the_door(), fields
        grown = memory_of(run, "VmHWM") - before
        assert grown < MOST_MEMORY, f"{grown:.0f} MiB more"
        guest(run, "continue")
        run.wait(0)
        demand_few_reports(run, 0)
        assert "error" not in run.said(), run
    assert weights("out") == expected


def test_mutations_of_a_conversation():
    """Whatever an admitted guest says, the run ends with the same bytes, in little memory."""
    expected = undisturbed()
    begin = time.monotonic()
    with open_run(TEXT) as run:
        guest(run, "pause")
        before = memory_of(run)
        honest = conversation(*relayed(run, "status", "wiring", "sleep=600", "status"))
        seed = int(sys.argv[sys.argv.index("--seed") + 1]) if "--seed" in sys.argv else random.randrange(2 ** 32)
        print(f"  seed {seed}, {MUTATIONS} mutations")

        def say(number):
            draw = random.Random(f"{seed} {number}")
            with raw_guest(run, f"m{number % 4}") as one:
                one.send(mutated(honest.retold(one), draw))
                one.say_no_more()
                one.is_shown_the_door()
            return number

        with raw_guest(run) as one:  # as it is
            one.send(*honest.retold(one))
            while b"troupe.news" not in one.arrived:
                assert one.read(), one.arrived
        draw = random.Random(seed)
        for _ in range(MUTATIONS // 3):  # before it is admitted
            with stranger(run, mutated([greeting(name=f"m{draw.randrange(4)}")] * 2, draw)) as one:
                one.say_no_more()
                assert one.is_shown_the_door()
            with socket.create_connection(one.where, timeout=20) as other:
                other.sendall(draw.choice((b"TROUPE-G", b"TROUPE\r\n", b"")) + draw.randbytes(draw.randrange(200)))
        whole = sum(map(len, honest.messages))
        for cut in range(0, whole, 7 if FULL else 41):
            with raw_guest(run, "brief") as one:
                one.send(b"".join(honest.retold(one))[:cut])
        # Memory that is freed stays with the process (malloc_conf in apps/command.cpp), and the more threads share it, the
        # more of it is in pieces.
        most = MOST_MEMORY + MUTATIONS // 500
        with concurrent.futures.ThreadPoolExecutor(1 if FULL else 4) as pool:
            for number in pool.map(say, range(MUTATIONS // 2)):
                assert run.process.poll() is None, f"mutation {number} of seed {seed}\n{run}"
                grown = memory_of(run) - before
                assert grown < most, f"{grown:.0f} MiB more after mutation {number} of seed {seed}"
            guest(run, "continue")
            numbers = iter(range(MUTATIONS // 2, MUTATIONS * 100))
            while run.process.poll() is None:  # while it trains
                with contextlib.suppress(OSError, AssertionError):
                    say(next(numbers))
                with contextlib.suppress(OSError, TypeError):  # it is ending
                    grown = memory_of(run, "VmHWM") - before
        run.wait(0)
        assert grown < most, f"{grown:.0f} MiB more"
        demand_few_reports(run, time.monotonic() - begin)
        assert "error" not in run.said(), run
    assert weights("out") == expected, f"seed {seed}"


# Guests that are slow, frozen, gone or too fast. ----------------------------------------------------------------------

def test_frozen_killed_and_slow_guests():
    expected = undisturbed()
    with open_run(TEXT) as run, contextlib.ExitStack() as others:
        guest(run, "pause")
        honest = conversation(*relayed(run, "status", "wiring"))
        frozen = [others.enter_context(visitor(run, "status", "news", name=f"frozen-{i}")) for i in range(3)]
        killed = [others.enter_context(visitor(run, "status", "news", name=f"killed-{i}")) for i in range(3)]
        others.enter_context(visitor(run, "status", "freeze", name="freezes"))
        for one in frozen + killed:
            one.until(lambda one=one: heard(one.printed().splitlines()), "a line")
        for one in frozen:
            one.process.send_signal(signal.SIGSTOP)
        others.enter_context(stranger(run, b"{"))  # never ends its greeting
        slow = others.enter_context(raw_guest(run, "slow"))
        guest(run, "continue")
        for one in killed:
            one.process.kill()
        for byte in b"".join(honest.retold(slow)):
            slow.send(bytes([byte]))
            time.sleep(0.001)
        run.wait(0, within=60)
        demand_few_reports(run, 0)
    assert weights("out") == expected


def flood(run, seconds, message, reads=True):
    """Sends requests as fast as the run takes them; `message` makes one of them from a guest and a number. Returns by how
    much the memory of the run has grown, and stops early if that is too much."""
    before = memory_of(run)
    grown = 0
    with raw_guest(run, "flood") as one:
        one.send(one.handshake())
        one.socket.setblocking(False)
        end, number, left = time.monotonic() + seconds, 0, b""
        while time.monotonic() < end and grown < MOST_MEMORY:
            if run.process.poll() is not None:
                break
            with contextlib.suppress(OSError, TypeError):  # it may be ending
                grown = memory_of(run) - before
            if len(left) < 65536:
                left += b"".join(message(one, number + i) for i in range(100))
                number += 100
            try:
                with contextlib.suppress(BlockingIOError):
                    left = left[one.socket.send(left):]
                with contextlib.suppress(BlockingIOError):
                    while reads and one.socket.recv(1 << 20):
                        pass
            except ConnectionError:
                break  # the run is over
            time.sleep(0.001)
    return grown


def test_guests_that_ask_too_often():
    expected = undisturbed()
    kinds = {
        "for the status": lambda one, number: one.request(STATUS),
        "for the wiring": lambda one, number: one.request("troupe.wiring_request"),
        "from many actors": lambda one, number: one.request(STATUS, source=1000 + number),
        "nothing": lambda one, number: basp(HEARTBEAT),
        "to monitor": lambda one, number: basp(MONITOR, one.ours + one.theirs, target=one.front),
    }
    with open_run(TEXT) as run:
        guest(run, "pause")
        for name, message in kinds.items():
            grown = flood(run, 20 if FULL else 0.25, message)
            assert grown < MOST_MEMORY, f"{name}: {grown:.0f} MiB more"
        guest(run, "continue")
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for done in [pool.submit(flood, run, 60, kinds[name]) for name in ("for the status", "from many actors")]:
                done.result()
        run.wait(0)
        demand_few_reports(run, 60)
    assert weights("out") == expected


@thorough
def test_requests_for_the_history_take_little_memory():
    """A guest has one open request for news. Asking a thousand times, and reading nothing, gains it nothing."""
    with open_run(ENDLESS) as run:
        guest(run, "pause", *["lr=0.02"] * 1200)  # a line each
        size = (run.folder / "metrics.jsonl").stat().st_size
        assert size > 600_000, size
        for reads in False, True:
            for name, line in {"all": lambda number: 0, "a little less each time": lambda number: number % 1000}.items():
                grown = flood(run, 5 if FULL else 0.4, lambda one, number, line=line: one.request(
                    "troupe.news_after", struct.pack(">QQ", line(number), 0)), reads)
                assert grown < MOST_MEMORY, f"{name}{', reading the answers' if reads else ''}: {grown:.0f} MiB more"
        guest(run, "halt")
        run.wait(0)


@thorough
def test_a_guest_that_comes_late_hears_a_long_history_and_the_end():
    with open_run(ENDLESS) as run:
        guest(run, "pause", *["lr=0.02"] * 1500)
        assert (run.folder / "metrics.jsonl").stat().st_size > 2 ** 20
        with visitor(run, "halt", "news") as one:
            run.wait(0)
            one.wait(0, within=20)
            printed = one.printed().splitlines()
        assert heard(printed) == run.lines() and printed[-1].startswith("over: "), printed[-1]


def test_silent_and_stalled_guests_are_disconnected():
    if not FULL:
        return print("SKIPPED: only with --full")
    with open_run(ENDLESS) as run, visitor(run, "status", "freeze", name="freezes"):
        guest(run, "pause", *["lr=0.02"] * 500, "continue")
        with raw_guest(run, "silent"), raw_guest(run, "stalled") as stalled:
            stalled.send(stalled.handshake())

            def are_gone():
                stalled.send(stalled.request("troupe.news_after", bytes(16)))  # and never reads the answer
                return all(f"guest {why} for 10000 ms" in run.said()
                           for why in ("silent has left: it was silent", "stalled has left: it read nothing"))
            until(are_gone, "both are gone", 40, context=run)
        guest(run, "halt")
        run.wait(0)


main(globals())
