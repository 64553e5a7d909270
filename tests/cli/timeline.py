"""`troupe timeline`: the messages of a step are those that `check` counts, for every file of topologies/; chunks, partial
sums and results are told apart; options and mistakes.
"""

import collections
import json
import pathlib
import subprocess
import xml.etree.ElementTree

from troupe_command import BINARY, SOURCE, main, thorough, troupe

TOPOLOGIES = sorted((SOURCE / "topologies").glob("*.toml"))


def timeline(file, *options):
    return json.loads(troupe("timeline", file, "--json", *options).stdout)


def planned(file, *options):
    """The messages and bytes of one exchange on each edge, as check counts them."""
    plan = json.loads(troupe("check", file, "--json", *options).stdout)
    is_only = len(plan["exchanges"]) == 1
    first_server, edges = plan["workers"], {}
    for exchange in plan["exchanges"]:
        def name(number, first=first_server, of=exchange["name"]):
            return f"worker {number}" if number < plan["workers"] else f"{'' if is_only else of + ' '}server {number - first}"
        for edge in exchange["edges"]:
            edges[exchange["name"], name(edge["from"]), name(edge["to"])] = (edge["messages"], edge["bytes"], edge["used"])
        first_server += len(exchange["servers"])
    return edges


def measured(shown):
    edges = collections.defaultdict(lambda: [0, 0])
    for message in shown["messages"]:
        edge = edges[message["exchange"], message["from"], message["to"]]
        edge[0] += 1
        edge[1] += message["bytes"]
    return edges


@thorough
def test_the_messages_of_a_step_are_those_that_check_counts():
    assert len(TOPOLOGIES) > 15
    for file in TOPOLOGIES:
        steps = 35 if file.stem == "streaming_diloco" else 1  # in which each fragment is sent and used once
        shown = timeline(file, "--steps", steps)
        want, have = planned(file), measured(shown)
        assert set(have) <= set(want), f"{file.name}: {set(have) - set(want)}"
        for edge, (messages, sent, used) in want.items():
            if (used == 1 and edge[0] not in shown["left_out"]) or edge in have:
                assert tuple(have[edge]) == (messages, sent), f"{file.name}: {edge}: {have[edge]}, not {messages, sent}"


def test_two_steps_have_twice_the_messages():
    for name in ("all_reduce", "star_overlapped", "sync_ps", "dpsgd_ring", "two_nodes"):
        file = SOURCE / "topologies" / f"{name}.toml"
        one, two = timeline(file, "--steps", 1), timeline(file)
        assert len(two["messages"]) == 2 * len(one["messages"]) > 0, name
        assert {message["step"] for message in two["messages"]} == {1, 2}, name


def test_a_ring_of_four_has_twelve_partial_sums_and_twelve_results():
    shown = timeline(SOURCE / "topologies/ring_all_reduce.toml", "--steps", 1)
    stages = collections.Counter(message["stage"] for message in shown["messages"])
    assert stages == {"partial": 12, "result": 12}, stages
    for row in shown["rows"]:
        assert [span["step"] for span in row["spans"] if span["what"] == "compute"] == [1], row
        spans = [(span["begin"], span["end"]) for span in row["spans"]]
        assert all(a[1] <= b[0] + 1e-9 for a, b in zip(spans, spans[1:])), f"boxes of {row['name']} overlap"
    for message in shown["messages"]:
        assert message["received"] > message["time"] >= 0, message


def test_an_exchange_in_every_eighth_step_is_shown():
    shown = timeline(SOURCE / "topologies/model_averaging.toml")
    assert (shown["first_step"], shown["last_step"]) == (7, 8), shown
    assert {message["step"] for message in shown["messages"]} == {8}, shown["messages"]


def test_the_table():
    page = troupe("timeline", SOURCE / "topologies/ring_all_reduce.toml", "--steps", 1).stdout.splitlines()
    assert page[0].startswith("step 1 of ") and "assumed: gradients of 10 ms" in page[0], page[0]
    assert page[1].split() == ["time", "from", "to", "what", "bytes"], page[1]
    assert len(page) == 2 + 24, page
    assert any("partial sum, elements" in line for line in page) and any("result, elements" in line for line in page)
    assert "no messages" in troupe("timeline", SOURCE / "topologies/single.toml").stdout


def test_the_picture_has_an_arrow_for_each_message():
    for name, shown in (("ring_all_reduce", 24), ("asgd", 8), ("hogwild", 8)):
        file = SOURCE / "topologies" / f"{name}.toml"
        steps = 2 if name == "hogwild" else 1
        troupe("timeline", file, "--steps", steps, "-o", f"made/{name}.svg")
        picture = pathlib.Path(f"made/{name}.svg").read_text()
        xml.etree.ElementTree.fromstring(picture)
        assert picture.count("</title></line>") == shown, f"{name}: {picture.count('</title></line>')}"
        troupe("timeline", file, "--steps", steps, "-o", f"made/{name}.svg")  # a drawing may be replaced


def test_only_some_workers():
    shown = timeline(SOURCE / "topologies/all_reduce.toml", "--steps", 1, "--workers", "1,3")
    assert [row["name"] for row in shown["rows"]] == ["worker 1", "worker 3"]
    ends = {name for message in shown["messages"] for name in (message["from"], message["to"])}
    assert ends == {"worker 1", "worker 3"}, ends


def test_the_same_bytes_again():
    file = SOURCE / "topologies/asgd.toml"
    assert troupe("timeline", file, "--json").stdout == troupe("timeline", file, "--json").stdout


def test_mistakes():
    file = SOURCE / "topologies/all_reduce.toml"
    for options, words in ((("--steps", 0), "--steps"), (("--steps", 101), "--steps"),
                           (("--workers", "7"), "there is no worker \"7\"; expected numbers from 0 to 3"),
                           (("--workers", ""), "there is no worker \"\""), (("--workers", "0-2"), "\"0-2\""),
                           (("-o", ""), "expected a name that ends in .svg"),
                           (("-o", "picture.png"), "expected a name that ends in .svg"), (("-o", file), "svg")):
        said = troupe("timeline", file, *options, status=2).stderr
        assert words in said, f"{options}: {said}"
    pathlib.Path("mine.svg").write_text("<svg/>")
    assert "--overwrite" in troupe("timeline", file, "-o", "mine.svg", status=2).stderr
    troupe("timeline", file, "-o", "mine.svg", "--overwrite")
    pathlib.Path("link.svg").symlink_to("mine.svg")
    troupe("timeline", file, "--steps", 1, "-o", "link.svg")
    assert pathlib.Path("link.svg").is_symlink() and "step 1<" in pathlib.Path("mine.svg").read_text()
    for options in ((), ("--json",)):
        with open("/dev/full", "w") as full:
            said = subprocess.run([BINARY, "timeline", file, *options], stdout=full, stderr=subprocess.PIPE, text=True)
        assert said.returncode == 1 and "standard output cannot be written" in said.stderr, said


def test_what_is_left_out_is_said():
    topologies = SOURCE / "topologies"
    fault = 'fault=[{kind="kill",at="step 100",node="beta"}]'
    for file, settings, words in (("two_nodes", [fault], "not shown: faults"),
                                  ("all_reduce", ["exchange.every=20000"], "not shown: exchange"),
                                  ("ring_all_reduce", ["model.name=resnet20", "model.sync_batch_norm=true"],
                                   "not shown: the messages of batch_norm")):
        settings = [word for each in settings for word in ("--set", each)]
        page = troupe("timeline", topologies / f"{file}.toml", "--steps", 1, *settings).stdout
        assert words in page, page
    shown = timeline(topologies / "all_reduce.toml", "--set", "run.max_seconds=0.001")
    assert {message["step"] for message in shown["messages"]} == {1, 2}, shown


def test_names_and_times_that_are_long_or_odd():
    odd = pathlib.Path("bad\udcff\x01.toml")
    odd.write_bytes((SOURCE / "topologies/single.toml").read_bytes())
    for file, *options in ((odd,), (SOURCE / "topologies/single.toml", "--set", "simulate.gradient=1h", "--set",
                                    "run.timeout=10h", "--set", "simulate.jitter=0", "--steps", 100)):
        troupe("timeline", file, *options, "-o", "made/odd.svg")
        picture = xml.etree.ElementTree.parse("made/odd.svg")
        for text in picture.iter("{http://www.w3.org/2000/svg}text"):
            if text.get("class") == "time":
                assert float(text.get("x")) + 3.5 * len(text.text) < 860, text.text


main(globals())
