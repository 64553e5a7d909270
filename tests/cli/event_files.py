"""Event files of --tensorboard hold the values of metrics.jsonl: read by a reader of this test, and by TensorBoard itself
where this Python has it (pip install tensorboard)."""

import importlib.util
import math
import pathlib
import struct
import subprocess
import sys
import time

from checked_files import crc32c
from nodes import node_tables
from troupe_command import BINARY, TINY, main, metrics, troupe, write

WHOLE_RUN = {"samples_per_second", "data_wait"}
ASYNCHRONOUS = TINY.replace('loop = ["gradient", "exchange", "apply"]', 'loop = ["gradient", "exchange"]').replace(
    'kind = "all_reduce"', 'kind = "parameter_server"\napply = "each"')


def float32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def masked_crc32c(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


def payloads(path):
    raw = path.read_bytes()
    while raw:
        size = int.from_bytes(raw[:8], "little")
        assert struct.unpack("<I", raw[8:12])[0] == masked_crc32c(raw[:8]), "checksum of the length"
        payload = raw[12:12 + size]
        assert struct.unpack("<I", raw[12 + size:16 + size])[0] == masked_crc32c(payload), "checksum of the payload"
        yield payload
        raw = raw[16 + size:]


def fields(message):
    """Yields the number and the value of each field of a Protocol Buffers message."""
    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value
    at = 0
    while at < len(message):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        elif key & 7 == 1:
            yield key >> 3, struct.unpack("<d", message[at:at + 8])[0]
            at += 8
        elif key & 7 == 2:
            size = varint()
            yield key >> 3, message[at:at + size]
            at += size
        else:
            assert key & 7 == 5, key
            yield key >> 3, struct.unpack("<f", message[at:at + 4])[0]
            at += 4


def event_files(out):
    return sorted(pathlib.Path(out).glob("events.out.tfevents.*"))


def points_of(out):
    """Returns the (wall time, step, value) of each scalar by tag, and the histograms, of all event files of a run."""
    scalars, histograms = {}, {}
    for path in event_files(out):
        events = [dict(fields(payload)) for payload in payloads(path)]
        assert events[0][3] == b"brain.Event:2", events[0]
        for event in events[1:]:
            step = event.get(2, 0)
            if event.get(7) == b"\x08\x01":  # a restart: discard what earlier files have of this step and later
                scalars = {tag: [one for one in points if one[1] < step] for tag, points in scalars.items()}
            for number, value in fields(event.get(5, b"")):
                assert number == 1
                entry = dict(fields(value))
                if 2 in entry:
                    scalars.setdefault(entry[1].decode(), []).append((event[1], step, entry[2]))
                else:
                    histograms[entry[1].decode()] = dict(fields(entry[5]))
    return scalars, histograms


def expected_of(out):
    """Returns the same from metrics.jsonl; of several lines with one step, the first that has a value counts."""
    scalars = {}
    for line in metrics(out):
        if line["event"] == "resume":
            continue
        for key, value in line.items():
            if key in ("step", "staleness_counts") or not isinstance(value, (int, float, list)):
                continue
            if line["event"] == "end" and (key in WHOLE_RUN or key.startswith("val_")):
                continue
            values = {f"{key}/{rank}": each for rank, each in enumerate(value)} if isinstance(value, list) else {key: value}
            for tag, one in values.items():
                points = scalars.setdefault(tag, [])
                if one is not None and (not points or points[-1][1] < line["step"]):
                    points.append((line["seconds"], line["step"], float32(one)))
    return {tag: points for tag, points in scalars.items() if points}


def expect_equal(out):
    found, histograms = points_of(out)
    expected = expected_of(out)
    assert set(found) == set(expected), set(found) ^ set(expected)
    for tag, points in expected.items():
        assert [one[1:] for one in found[tag]] == [one[1:] for one in points], (tag, found[tag], points)
    counts = metrics(out)[-1]["staleness_counts"]
    assert ("staleness" in histograms) == (counts is not None)
    if counts:
        histogram = histograms["staleness"]
        assert list(struct.unpack(f"<{len(counts)}d", histogram[7])) == counts
        assert histogram[3] == sum(counts) and histogram[4] == sum(i * n for i, n in enumerate(counts)), histogram
    expect_tensorboard_agrees(out, expected, counts)
    return found


def expect_tensorboard_agrees(out, expected, counts):
    if importlib.util.find_spec("tensorboard") is None:
        print("   SKIPPED: TensorBoard itself, which", sys.executable, "does not have")
        return
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    read = EventAccumulator(str(out), size_guidance={"scalars": 0, "histograms": 0})
    read.Reload()
    tags = read.Tags()
    assert set(tags["scalars"]) == set(expected), set(tags["scalars"]) ^ set(expected)
    for tag, points in expected.items():
        assert [(one.step, one.value) for one in read.Scalars(tag)] == [one[1:] for one in points], tag
    assert tags["histograms"] == (["staleness"] if counts else []), tags
    if counts:
        histogram = read.Histograms("staleness")[0].histogram_value
        assert histogram.bucket == counts and histogram.num == sum(counts), histogram
    print("   TensorBoard reads", sum(map(len, expected.values())), "values of", len(expected), "tags from", out)


def test_the_values_of_a_run_are_those_of_its_metrics():
    began = time.time()
    troupe("run", write("tiny.toml", TINY + '[evaluate]\nevery = 5\n'), "--out", "out", "--tensorboard")
    found = expect_equal("out")
    assert len(found["val_accuracy"]) == 4 and len(found["train_loss_workers/1"]) == 4, found
    times = [one[0] for one in found["seconds"]]
    for (at, _, _), (seconds, _, _) in zip(found["seconds"], expected_of("out")["seconds"]):
        assert math.isclose(at - times[0], seconds, abs_tol=1e-5), "wall times advance as seconds do"
    assert began - 1 < times[0] < times[-1] < time.time() + 1
    assert len(event_files("out")) == 1


def test_an_asynchronous_run_over_two_nodes_has_a_histogram_of_staleness():
    text = ASYNCHRONOUS.replace("count = 2\n", "") + node_tables([1, 1])
    troupe("run", write("nodes.toml", text), "--out", "out", "--tensorboard")
    expect_equal("out")
    assert metrics("out")[-1]["staleness_counts"]


def test_without_the_option_there_is_no_event_file_and_a_replaced_run_loses_its_own():
    tiny = write("tiny.toml", TINY)
    troupe("run", tiny, "--out", "out", "--tensorboard")
    assert event_files("out")
    troupe("run", tiny, "--out", "out", "--overwrite")
    assert not event_files("out")


def test_simulations_of_one_seed_write_the_same_bytes():
    tiny = write("tiny.toml", TINY + '[simulate]\ngradient = "10ms"\n')
    for out in ("once", "again"):
        troupe("simulate", tiny, "--compute", "none", "--out", out, "--tensorboard")
        expect_equal(out)
    (once,), (again,) = event_files("once"), event_files("again")
    assert once.name == again.name and once.read_bytes() == again.read_bytes()


def interrupted(*options):
    """Leaves a run with a checkpoint that was killed after more lines of its metrics."""
    text = TINY.replace("steps = 20", "steps = 200") + '[evaluate]\nevery = 20\n[checkpoint]\nevery = 40\n'
    process = subprocess.Popen([BINARY, "run", write("run.toml", text), "--out", "out", *options],
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not any(pathlib.Path("out/checkpoints").glob("step-*")):
        assert process.poll() is None and time.monotonic() < deadline, "no checkpoint"
        time.sleep(0.005)
    process.kill()
    process.communicate()
    assert not pathlib.Path("out/model.safetensors").exists(), "the run ended too early for this test"


def test_a_continued_run_continues_its_curves():
    interrupted("--tensorboard")
    troupe("run", "--resume", "out", "--tensorboard")
    assert len(event_files("out")) == 2
    expect_equal("out")


def test_a_continued_run_without_event_files_begins_with_the_lines_that_it_has():
    interrupted()
    troupe("run", "--resume", "out", "--tensorboard")
    assert len(event_files("out")) == 1
    expect_equal("out")


main(globals())
