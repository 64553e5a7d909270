"""Exchanges whose rule is in another program (kind "remote")."""

import json
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import time

from attacks import HEADER, crc32c
from entrances import greeting, open_run, quick, stranger
from nodes import LOOP, background, free_ports, node_tables, nothing_is_left, until, weights
from troupe_command import SOURCE, main, metrics, thorough, timeless, troupe, write

RULE, MEDIAN = os.environ["TROUPE_RULE"], os.environ["TROUPE_MEDIAN"]
MEDIAN_PY = SOURCE / "examples/remote_exchange/median.py"

LOST = "actor rule of exchange is lost: (the other side closed the connection|Connection reset by peer)"
REMOTE = '[exchange]\nkind = "remote"\nactor = "rule"\n'
TEXT = quick(steps=60, lr=0.05, every=30, count=4, exchange=REMOTE)
ENDLESS = TEXT.replace("steps = 60", "steps = 100000000")
EACH = 'answers = "each"\n'
PARAMETERS = 'sends = "parameters"\n'


def on_nodes(text, workers=(2, 2)):
    return re.sub(r"count = \d\n", "", text) + node_tables(workers)


def program(run, how, name="rule", called=None):
    """The program of an actor."""
    return background(run.folder, name, how, name=called or f"{run.folder}.{how}", program=(RULE,))


def outcome(text, how, *options, out="out"):
    """Trains with a rule in another program, and returns the weights."""
    with open_run(text, *options, out=out) as run, program(run, how) as rule:
        run.wait(0)
        rule.wait(0)
    assert rule.printed().endswith("over, with status 0\n"), rule
    return weights(out)


def failure(text, how, *options, out="out"):
    """The same for a run that fails because of the rule. Returns the run's error."""
    with open_run(text, *options, out=out) as run, program(run, how) as rule:
        run.wait(1)
        if how == "freeze":
            rule.process.send_signal(signal.SIGCONT)
        rule.process.wait(10)
    return run.said().splitlines()[-1]


def resumed(out, how, steps):
    """Continues a run with a rule in another program, and returns the weights."""
    with background("run", "--resume", out, "--set", f"run.steps={steps}", "--actors", "127.0.0.1:0", name="resumed") as run:
        run.folder = pathlib.Path(out)
        run.until_said("guests: ")
        with program(run, how, called="again") as rule:
            run.wait(0)
            rule.wait(0)
    return weights(out)


def in_the_run(text, exchange, *options, out="within"):
    """The weights of the same training with an exchange of the run."""
    troupe("run", write(f"{out}.toml", text.replace(REMOTE, exchange)), "--out", out, *options)
    return weights(out)


def test_a_rule_in_another_program_gives_the_bytes_of_one_in_the_run():
    # The mean of four gradients, added in the order of the members. Four samples each: a division by 16 or by 4 is exact.
    assert outcome(TEXT, "mean") == in_the_run(TEXT, '[exchange]\nkind = "star"\n')
    assert metrics("out")[-1]["status"] == "done", metrics("out")[-1]


def test_it_gives_the_same_on_one_process_and_on_two():
    assert outcome(TEXT, "momentum", out="one") == outcome(on_nodes(TEXT), "momentum", out="two")
    assert timeless("one") == timeless("two")


def test_parameters_can_be_exchanged_and_only_between_steps():
    averaged = TEXT.replace(LOOP, '"gradient", "apply", "exchange"') + PARAMETERS + "every = 5\n"
    within = averaged.replace(REMOTE, '[exchange]\nkind = "all_reduce"\n')
    assert outcome(averaged, "mean") == in_the_run(within, "")


def test_members_can_be_answered_separately_and_from_another_thread():
    each = outcome(TEXT + EACH, "own", out="one")
    assert each == outcome(on_nodes(TEXT + EACH), "own", out="two")
    alone = TEXT.replace("lr = 0.05", "lr = 0.025").replace(LOOP, '"gradient", "apply"')
    assert each == in_the_run(alone, ""), "half of each worker's own gradient is half of its learning rate"


def test_a_rule_may_answer_before_all_members_have_contributed():
    # A worker that is many steps behind gets the answers that were given meanwhile.
    outcome(TEXT.replace("count = 4\n", "count = 4\nslowdown = [1, 1, 1, 20]\n"), "first")
    assert metrics("out")[-1]["step"] == 60


def test_members_may_be_groups_or_some_of_the_workers_and_exchanges_may_have_actors_of_their_own():
    def both(first, second, of):
        text = TEXT.replace(LOOP, '"gradient", "a", "b", "apply"').replace(REMOTE, "")
        for name, members in (("a", first), ("b", second)):
            kind = f'kind = "remote"\nactor = "{name}"\n' if of == "remote" else 'kind = "star"\n'
            text += f'[[exchange]]\nname = "{name}"\n{kind}members = {json.dumps(members)}\n'
        return text
    for first, second in ((["w0", "w2"], ["w1", "w3"]), (["w1", "w2"], ["w0", "w3"])):
        text = both(first, second, "remote")
        with open_run(text, "--overwrite") as run, program(run, "mean", "a", called="a"), program(run, "mean", "b", called="b"):
            run.wait(0)
        assert weights("out") == in_the_run(both(first, second, "star"), "", "--overwrite")
    grouped = """
[[exchange]]
name = "left"
kind = "star"
members = ["w0", "w1"]
[[exchange]]
name = "right"
kind = "star"
members = ["w2", "w3"]
[[exchange]]
name = "between"
kind = "KIND"
members = ["left", "right"]
"""
    text = TEXT.replace(LOOP, '"gradient", "left", "right", "between", "apply"').replace(REMOTE, grouped)
    remote = text.replace('kind = "KIND"', 'kind = "remote"\nactor = "rule"')
    assert outcome(remote, "mean", "--overwrite") == in_the_run(text.replace("KIND", "star"), "", "--overwrite")


def test_the_examples_in_two_languages_give_the_same_weights():
    text = (SOURCE / "examples/remote_exchange/median.toml").read_text().replace("steps = 200", "steps = 20")
    found = {}
    for name, command in {"cpp": [MEDIAN], "python": [sys.executable, MEDIAN_PY]}.items():
        with open_run(text, out=name) as run:
            done = subprocess.run([*command, name], capture_output=True, text=True, timeout=60, check=False)
            assert done.returncode == 0, f"{done.stderr}\n{run}"
            run.wait(0)
        found[name] = weights(name)
    assert found["cpp"] == found["python"]
    lines = [line for line in MEDIAN_PY.read_text().splitlines() if line.strip()]
    assert len(lines) <= 64, f"{len(lines)} lines"


def test_the_state_of_the_program_is_in_checkpoints():
    text = TEXT + "[checkpoint]\nevery = 20\n"
    whole = outcome(text, "momentum", out="whole")
    with open_run(text.replace("steps = 60", "steps = 100000000"), out="cut") as run, program(run, "momentum") as rule:
        run.until(lambda: list(pathlib.Path("cut/checkpoints").glob("step-*")), "a checkpoint")
        os.kill(run.pid, signal.SIGKILL)
        rule.wait(1)
    assert "is lost" in rule.said(), rule
    # The run continues from its first checkpoint, with another program that gets the state.
    for later in sorted(pathlib.Path("cut/checkpoints").glob("step-*"))[1:]:
        for path in later.rglob("*"):
            if path.is_file():
                path.unlink()
        later.rmdir()
    pathlib.Path("cut/actors.json").unlink()
    assert resumed("cut", "momentum", steps=60) == whole, "the state was not restored"


def test_values_and_states_larger_than_the_window():
    large = TEXT.replace("width = 16", "width = 1024").replace("steps = 60", "steps = 6").replace("every = 30", "every = 6")
    large += "[checkpoint]\nevery = 2\n"
    whole = outcome(large, "momentum", out="whole")
    with open_run(large, "--set", "run.steps=4", out="cut") as run, program(run, "momentum") as rule:
        run.wait(0)
        rule.wait(0)
    assert resumed("cut", "momentum", steps=6) == whole


def test_a_program_that_does_not_send_its_state_is_named():
    said = failure(ENDLESS + "[checkpoint]\nevery = 20\n", "mute", "--set", "run.timeout=1s")
    assert "actor rule has not sent its state within 1000 ms (run.timeout)" in said, said


def test_a_rule_that_fails_is_lost_at_once():
    with open_run(ENDLESS) as run, program(run, "throws") as rule:
        rule.wait(1)
        run.wait(1)
    assert "rule: the rule has failed" in rule.said(), rule
    assert re.search(LOST, run.said()), run


def test_a_program_hears_how_the_run_has_ended():
    for text in (ENDLESS, on_nodes(ENDLESS)):
        with open_run(text, "--overwrite") as run, program(run, "mean") as rule:
            run.until_trained("out")
            run.process.send_signal(signal.SIGTERM)
            run.wait(143)
            rule.wait(0)
        assert rule.printed().endswith("over, with status 143\n"), rule


@thorough
def test_a_rule_that_begins_late():
    outcome(TEXT, "late")


def test_a_program_that_keeps_no_state_has_none_in_checkpoints():
    text = TEXT + "[checkpoint]\nevery = 20\n"
    assert outcome(text, "mean") == in_the_run(text, '[exchange]\nkind = "star"\n')


def test_a_program_that_is_killed_is_named_at_once():
    for text in (ENDLESS, on_nodes(ENDLESS)):
        out = "nodes" if "[[node]]" in text else "one"
        with open_run(text, out=out) as run, program(run, "mean") as rule:
            run.until_trained(out)
            os.kill(rule.pid, signal.SIGKILL)
            began = time.monotonic()
            run.until_said("is lost")
            seconds = time.monotonic() - began
            run.wait(1)
        print(f"  {seconds:.3f} s: {run.said().splitlines()[-1]}")
        assert seconds < 0.5, run
        assert re.search(LOST, run.said()), run
    nothing_is_left()


def test_a_program_that_does_not_answer_is_named_after_the_timeout():
    for how in ("silent", "freeze"):
        said = failure(ENDLESS, how, "--set", "run.timeout=1s", out=how)
        assert "exchange: actor rule has not answered at step 1; no answer within 1000 ms (run.timeout)" in said, said


def test_answers_that_fit_nothing_end_the_run_and_are_blamed_on_the_actor():
    for how, words in {"twice": "actor rule answered step 1, to which no contribution is unanswered",
                       "later": "actor rule answered step 8, to which no contribution is unanswered"}.items():
        said = failure(ENDLESS, how, out=how)
        assert words in said, said
    with open_run(ENDLESS, out="short") as run, program(run, "short") as rule:
        rule.wait(1)
        run.wait(1)
    assert re.search(r"rule: an answer has \d+ values; expected \d+", rule.said()), rule
    assert "actor rule of exchange is lost" in run.said(), run


def test_only_one_program_has_the_seat():
    with open_run(ENDLESS) as run, program(run, "mean"):
        run.until_trained("out")
        for name, how, words in (("rule", "mean", "there is a program rule already"),
                                 ("ruler", "mean", 'no exchange of this run has an actor of its name (kind = "remote")')):
            with program(run, how, name, called="other") as other:
                other.wait(1)
            assert words in other.said(), other
        assert f"refused guest ruler" in run.said(), run
        run.process.send_signal(signal.SIGTERM)
        run.wait(143)
    assert metrics("out")[-1]["status"] == "interrupted", metrics("out")[-1]


def test_a_program_identifies_itself_with_a_certificate_of_the_name_of_its_actor():
    troupe("certs", "certs", "--node", "alpha", "--guest", "rule", "--guest", "other")
    port, = free_ports(1)
    text = on_nodes(TEXT, [4]).replace('name = "alpha"\n', f'name = "alpha"\naddress = "127.0.0.1:{port}"\n')
    with open_run(text + '[security]\ncertificates = "certs"\n') as run:
        address = f"127.0.0.1:{port}"
        with background(address, "certs", "other", "mean", name="other", program=(RULE,)) as other:
            other.wait(1)
        assert "no exchange of this run has an actor of its name" in other.said(), other
        with background(address, "certs", "rule", "mean", name="rule", program=(RULE,)) as rule:
            run.wait(0)
            rule.wait(0)
    assert weights("out") == in_the_run(TEXT, '[exchange]\nkind = "star"\n')


def test_a_run_waits_for_its_actors_and_says_so():
    with open_run(TEXT) as run:
        run.until_said("waiting for actor rule to attach")
        # A program that leaves before the run begins may come again.
        with stranger(run, greeting(name="rule", **{"as": "member"})) as early:
            assert early.answer()["exchange"]["members"] == 4
            assert not started_steps("out")
        with program(run, "mean") as rule:
            run.wait(0)
            rule.wait(0)
    assert "actor rule has attached" in run.said(), run
    limits = ("--set", "run.timeout=1s", "--set", "run.silence=1s")
    with open_run(on_nodes(TEXT), *limits, out="patient") as run:
        run.until_said("waiting for actor rule to attach")
        time.sleep(2.5)  # longer than both limits
        with program(run, "mean") as rule:
            run.wait(0)
            rule.wait(0)
    with open_run(TEXT, "--set", "run.join_timeout=1s", out="late") as run:
        run.wait(1)
    assert "actor rule did not attach within 1s (run.join_timeout)" in run.said(), run
    with open_run(TEXT, out="stopped") as run:
        run.until_said("waiting for actor rule to attach")
        run.process.send_signal(signal.SIGINT)
        run.wait(130)


def started_steps(out):
    return any(line["event"] == "epoch" for line in metrics(out))


def test_it_is_refused_where_there_can_be_no_program():
    file = write("remote.toml", TEXT)
    said = troupe("run", file, status=2).stderr
    assert "--actors" in said and "actor rule" in said, said
    for command in (["simulate", file], ["timeline", file], ["run", file, "--actors", "127.0.0.1:0", "--record"]):
        said = troupe(*command, status=2).stderr
        assert "actor" in said and "remote.toml:" in said, f"{command}: {said}"
    for more, words in {EACH + 'encoding = "bfloat16"\n': "float32",
                        'actor_ = "x"\n': "actor"}.items():
        said = troupe("check", write("wrong.toml", TEXT + more), status=2).stderr
        assert words in said, said
    for wrong, words in {'actor = ""': "actor", 'actor = "a b"': "cannot be called", "": "name under which"}.items():
        said = troupe("check", write("wrong.toml", TEXT.replace('actor = "rule"', wrong)), status=2).stderr
        assert words in said, f"{wrong}: {said}"
    two = TEXT.replace(LOOP, '"gradient", "a", "b", "apply"').replace(REMOTE, "")
    for name in "ab":
        two += f'[[exchange]]\nname = "{name}"\nkind = "remote"\nactor = "rule"\n'
    said = troupe("check", write("two.toml", two), status=2).stderr
    assert "expected a different name for each" in said, said


# Frames that a program must not send. ---------------------------------------------------------------------------------

PART, CREDIT, STATE, CONTROL, ACTORS = 2, 4, 5, 7, 2


class player(stranger):
    """A program that speaks with the run byte by byte."""

    def __init__(self, run):
        super().__init__(run, greeting(name="rule", **{"as": "member"}))
        self.place = self.answer()["exchange"]

    def hello(self):
        self.send(self.frame(1, place=ACTORS, total=2 << 20, payload=bytes(16)))
        return self

    def frame(self, kind, to=0, sender=None, step=0, place=0, first=0, total=0, samples=0, elements=0, payload=b"", at=0,
              how=0, what=0, run=None, size=None, version=10):
        header = struct.pack("<4sHBBBBBBIQIIQQIIqqqdQQI", b"TTRP", version, kind, how, elements > 0, what, at, 0, to,
                             self.place["run"] if run is None else run,
                             self.place["members"] if sender is None else sender, 0, step, 0, place, 0, first, total,
                             samples, 1.0, elements, len(payload) if size is None else size, crc32c(payload))
        return header + struct.pack("<I", crc32c(header)) + payload

    def part(self, **more):
        count = self.place["elements"]
        return self.frame(PART, **{"how": 1, "what": 1, "at": 2, "total": count, "samples": 1, "elements": count,
                                   "payload": bytes(4 * count), **more})


WRONG = {
    "not a frame": lambda who: b"GET / HTTP/1.1\r\n\r\n",
    "of another run": lambda who: who.part(run=7),
    "of a member": lambda who: who.part(sender=0),
    "a contribution": lambda who: who.part(at=0),
    "a partial": lambda who: who.part(at=1),
    "for no member": lambda who: who.part(to=4),
    "without samples": lambda who: who.part(samples=0),
    "of another model": lambda who: who.part(total=5),
    "of another exchange": lambda who: who.part(place=1),
    "a claim of 4 GiB": lambda who: who.part(size=1 << 32, payload=b""),
    "elements of 2^31": lambda who: who.part(elements=1 << 31),
    "parameters": lambda who: who.part(what=0),
    "of step 9": lambda who: who.part(step=9),
    "a state that was not asked for": lambda who: who.frame(STATE, sender=0, total=4, payload=b"1234"),
    "a text that answers nothing": lambda who: who.frame(CONTROL, payload=b"{}"),
    "a text that is none": lambda who: who.frame(CONTROL, payload=b"\xff\0["),
    "a long text": lambda who: who.frame(CONTROL, payload=bytes(4096)),
    "a snapshot": lambda who: who.frame(3, how=1, elements=4, total=4, payload=bytes(16)),
    "a second hello": lambda who: who.frame(1, place=ACTORS, total=1, payload=bytes(16)),
    "credit for nothing": lambda who: who.frame(CREDIT, total=1),
    "credit without end": lambda who: who.frame(CREDIT, total=1 << 62),
    "of another protocol": lambda who: who.part(version=9),
    "half a frame": lambda who: who.part()[:HEADER + 7],
}
SAMPLE = ("a contribution", "a claim of 4 GiB", "elements of 2^31", "of step 9", "a text that is none", "half a frame")


def sees(names):
    for name in names:
        out = name.replace(" ", "_").replace("^", "")
        with open_run(ENDLESS, out=out) as run, player(run).hello() as who:
            until(lambda: "waiting" in run.said() or "attached" in run.said(), "the run", alive=lambda: True)
            run.until_said("actor rule has attached")
            who.send(WRONG[name](who))
            who.say_no_more()
            run.wait(1)
        said = run.said().splitlines()[-1]
        print(f"  {name}: {said}")
        assert "actor rule" in said or "from server" in said or "exchange" in said, run
    nothing_is_left()


def test_frames_that_a_program_must_not_send_end_the_run():
    sees(SAMPLE)


@thorough
def test_all_frames_that_a_program_must_not_send_end_the_run():
    sees([name for name in WRONG if name not in SAMPLE])


@thorough
def test_a_program_that_greets_and_says_nothing_frees_the_seat():
    with open_run(TEXT) as run, player(run) as idle:
        until(idle.is_shown_the_door, "the end of its patience")
        with program(run, "mean") as rule:
            run.wait(0)
            rule.wait(0)


main(globals())
