"""Data sets of the user's own files: folders of images, tensors and texts, what is evaluated, which worker gets which
classes, and messages for broken files."""

import json
import os
import pathlib
import random
import struct
import zlib

from troupe_command import main, metrics, troupe, write

FILE = """
[run]
seed = 1
epochs = 2
[model]
name = "lenet"
[data]
name = "{name}"
file = "{file}"
batch_size = 4
[optimizer]
lr = 0.05
[workers]
count = 2
loop = ["gradient", "exchange", "apply"]
[exchange]
kind = "all_reduce"
"""


def png(side, colour, noise):
    """A PNG of one colour and some noise."""
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    rows = b"".join(b"\0" + bytes(max(0, min(255, value + noise.randint(-40, 40))) for _ in range(side)
                                  for value in colour) for _ in range(side))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def folder(name, count, side=16, seed=1):
    """Writes `count` images of each of two colours into a folder for each."""
    noise = random.Random(seed)
    for colour, values in (("blue", (30, 30, 200)), ("red", (200, 30, 30))):
        place = pathlib.Path(name, colour)
        place.mkdir(parents=True)
        for index in range(count):
            (place / f"{index:03}.png").write_bytes(png(side, values, noise))


def safetensors(name, tensors, metadata=None):
    """Writes {name: (dtype, shape, bytes)} as Python's safetensors does."""
    header, data = {}, b""
    if metadata:
        header["__metadata__"] = metadata
    for key, (dtype, shape, values) in tensors.items():
        header[key] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    pathlib.Path(name).write_bytes(struct.pack("<Q", len(text)) + text + data)


def labels(values):
    return "I64", [len(values)], struct.pack(f"<{len(values)}q", *values)


def settings(*pairs):
    return [word for pair in pairs for word in ("--set", pair)]


def train(file, *pairs, out="out"):
    troupe("run", file, "--out", out, "--overwrite", *settings(*pairs))
    end = metrics(out)[-1]
    assert end["event"] == "end" and end["status"] == "done", end
    return end


def refusal(*words, status=2):
    return troupe(*words, status=status).stderr


def test_a_folder_of_images_is_trained_on_and_evaluated():
    folder("pictures/train", 20)
    folder("pictures/val", 6, seed=2)
    file = write("a.toml", FILE.format(name="image_folder", file="pictures"))
    said = troupe("check", file).stdout
    assert "image_folder, 40 training samples of 3×16×16, 2 classes" in said, said
    assert "evaluated on the 12 test samples" in said, said
    end = train(file, "run.epochs=6")
    assert end["val_accuracy"] == 1, end
    found = json.loads(troupe("eval", "out/model.safetensors", "--set", "data.file=pictures", "--json").stdout)
    assert found["accuracy"] == 1 and found["sample_count"] == 12, found
    pathlib.Path("pictures/train/blue").rename("pictures/train/azure")
    pathlib.Path("pictures/val/blue").rename("pictures/val/azure")
    said = refusal("eval", "out/model.safetensors", "--set", "data.file=pictures")
    assert 'class 0 is "azure" in this data and "blue" in the weights' in said, said


def test_the_bits_do_not_depend_on_loader_threads():
    folder("pictures", 20)
    file = write("a.toml", FILE.format(name="image_folder", file="pictures"))
    contents = []
    for threads in (0, 3):
        train(file, f"data.threads={threads}", "data.image_size=14")
        contents.append(pathlib.Path("out/model.safetensors").read_bytes())
    assert contents[0] == contents[1]


def test_data_dir_alone_is_the_folder():
    folder("pictures", 8)
    file = write("a.toml", FILE.format(name="image_folder", file="").replace('file = ""', 'dir = "pictures"'))
    assert "evaluated on the training samples, because there are no test samples" in troupe("check", file).stdout


def test_a_corrupt_image_among_many_is_named():
    folder("pictures", 100)
    victim = pathlib.Path("pictures/red/057.png")
    whole = victim.read_bytes()
    file = write("a.toml", FILE.format(name="image_folder", file="pictures"))
    victim.write_bytes(whole[:len(whole) // 2])
    said = refusal("run", file, "--out", "cut", status=1)
    assert "pictures/red/057.png: the file is truncated; replace the file or remove it from its folder" in said, said
    victim.write_bytes(whole[:60] + b"?" + whole[61:])
    said = refusal("run", file, "--out", "flipped", status=1)
    assert "pictures/red/057.png: the file is damaged (libpng: " in said, said
    victim.write_bytes(b"<html>not found</html>")
    said = refusal("run", file, "--out", "html")
    assert "pictures/red/057.png: the file is neither a PNG nor a JPEG image" in said, said


def test_tensors_of_three_kinds():
    generator = random.Random(3)
    count = 40
    classes = [generator.randrange(3) for _ in range(count)]
    pixels = bytes(max(0, min(255, 80 * each + generator.randint(0, 60))) for each in classes for _ in range(256))
    safetensors("images", {"inputs": ("U8", [count, 1, 16, 16], pixels), "targets": labels(classes)})
    file = write("a.toml", FILE.format(name="tensors", file="images"))
    said = troupe("check", file, *settings("data.mean=[0.5]", "data.std=[0.25]")).stdout
    assert "40 training samples of 1×16×16, 3 classes, normalised with mean 0.5 and std 0.25" in said, said
    end = train(file, "run.epochs=4")
    floats = struct.pack(f"<{len(pixels)}f", *(byte / 255 for byte in pixels))
    safetensors("floats", {"inputs": ("F32", [count, 1, 16, 16], floats), "targets": labels(classes)})
    same = train(file, "run.epochs=4", "data.file=floats", "data.normalize=false")
    assert abs(end["val_loss"] - same["val_loss"]) < 1e-4, (end, same)
    found = json.loads(troupe("eval", "out/model.safetensors", "--set", "data.file=floats", "--json").stdout)
    assert abs(found["loss"] - same["val_loss"]) < 1e-4, (found, same)
    tokens = struct.pack("<40q", *range(40))
    safetensors("tokens", {"inputs": ("I64", [4, 10], tokens), "targets": ("I64", [4, 10], tokens)})
    said = refusal("check", file, *settings("data.file=tokens", "data.batch_size=1"))
    assert "lenet" in said and "tensors" in said, said


def test_broken_tensors_are_told_with_the_sample():
    good = "F32", [2, 1, 14, 14], struct.pack("<392f", *[0.5] * 392)
    file = write("a.toml", FILE.format(name="tensors", file="a"))
    safetensors("a", {"inputs": good, "targets": labels([0, -3])})
    assert "/a: targets of sample 1 (counting from 0) is -3" in refusal("check", file)
    safetensors("a", {"inputs": (*good[:2], good[2][:-4] + struct.pack("<f", float("nan"))), "targets": labels([0, 1])})
    assert "/a: inputs of sample 1 (counting from 0) contain nan" in refusal("check", file)
    safetensors("a", {"inputs": good, "targets": labels([0, 1])}, {"classes": "2"})
    safetensors("b", {"inputs": good, "targets": labels([0, 2])})
    assert "/b: targets of sample 1 (counting from 0) is 2; expected 0 to 1" in refusal(
        "check", file, *settings("data.test_file=b"))


def test_a_part_of_the_training_samples_is_held_out():
    file = write("a.toml", FILE.format(name="digits", file=""))
    said = json.loads(troupe("check", file, "--json", *settings("data.validation=0.1")).stdout)
    assert said["training_samples"] == 10_800, said["training_samples"]
    assert said["evaluated"] == {"set": "held_out", "samples": 1200, "shares": 1, "drop_last": False}, said["evaluated"]
    said = json.loads(troupe("check", file, "--json").stdout)
    assert said["evaluated"] == {"set": "test", "samples": 2000, "shares": 1, "drop_last": False}, said["evaluated"]
    words = troupe("check", file, *settings("data.validation=0.1")).stdout
    assert "evaluated on 1,200 samples held out of the training set" in words, words
    end = train(file, "data.validation=0.1", "run.epochs=1", "data.batch_size=100")
    assert end["val_accuracy"] > 0.1, end


def test_workers_see_classes_in_unequal_shares():
    file = write("a.toml", FILE.format(name="digits", file=""))
    five = settings("workers.count=5")
    assert "each worker sees 2 of 10 classes" in troupe("check", file, *five, *settings("data.split=by_label")).stdout
    wide = json.loads(troupe("check", file, *five, "--json",
                             *settings("data.split=dirichlet", "data.alpha=1000")).stdout)["classes_of_a_worker"]
    assert wide["least"] == wide["most"] == 10 and len(wide["samples"]) == 5, wide
    narrow = json.loads(troupe("check", file, *five, "--json",
                               *settings("data.split=dirichlet", "data.alpha=0.01")).stdout)["classes_of_a_worker"]
    assert narrow["least"] < 5, narrow
    end = train(file, "data.split=dirichlet", "run.epochs=1", "data.batch_size=100")
    assert end["val_accuracy"] > 0.2, end
    write("numbers.txt", "0 0 1\n1 1 2\n")
    said = refusal("check", file, *settings("data.name=triplets", "data.file=numbers.txt", "data.split=by_label"))
    words = 'data.split = "by_label" distributes samples by class, but those of triplets have numeric targets'
    assert words in said, said


def test_a_text_that_has_not_the_characters_is_told():
    write("train.txt", "to be or not to be\n" * 20)
    write("test.txt", "to be\nor what\n" * 10)
    file = write("a.toml", FILE.format(name="text", file="train.txt"))
    said = refusal("check", file, *settings("data.test_file=test.txt"))
    assert 'test.txt:2: found the character "w", which does not occur in the training text train.txt' in said, said
    said = refusal("check", file, *settings("data.sequence_length=1000"))
    assert "train.txt: the file has 380 characters, but data.sequence_length = 1000 requires at least 1001" in said, said


def test_random_windows_of_a_text_know_no_placement_and_leave_alone_what_is_held_out():
    write("train.txt", "".join(f"{number} is twice {number / 2}, " for number in range(400)))
    text = FILE.format(name="text", file="train.txt").replace("lenet", "gpt")
    text = text.replace("[data]", "layers = 1\nwidth = 16\nheads = 2\n[data]\nsequence_length = 16\nvalidation = 0.2")
    text = text.replace("batch_size = 4", "batch_size = 16")
    file = write("a.toml", text)
    fixed = train(file, out="fixed")
    drawn = train(file, "data.random_windows=true", out="drawn")
    assert drawn["step"] == fixed["step"] and drawn["train_loss"] != fixed["train_loss"], (drawn, fixed)
    nodes = "".join(f'[[node]]\nname = "{name}"\naddress = "127.0.0.1:0"\n' for name in ("alpha", "beta"))
    apart = train(write("b.toml", text.replace("count = 2\n", "") + nodes), "data.random_windows=true", out="apart")
    assert apart["val_loss"] == drawn["val_loss"], (apart, drawn)
    tensors = [pathlib.Path(out, "model.safetensors").read_bytes() for out in ("drawn", "apart")]
    assert tensors[0] == tensors[1], "two nodes draw other windows"
    said = json.loads(troupe("eval", "drawn/model.safetensors", "--json", *settings("data.file=train.txt")).stdout)
    assert abs(said["loss"] - drawn["val_loss"]) < 1e-5, (said, drawn)
    again = train("drawn/topology.toml", out="again")
    assert again["val_loss"] == drawn["val_loss"], (again, drawn)


def test_rows_that_are_mapped_are_held_out_all_the_same():
    generator = random.Random(6)
    rows = [(sign, " ".join(f"{column}:{sign * generator.random() + 0.1:.3f}" for column in (1, 2, 3)))
            for sign in (generator.choice((-1, 1)) for _ in range(200))]
    write("rows.txt", "".join(f"{sign} {values}\n" for sign, values in rows))
    file = write("a.toml", FILE.format(name="libsvm", file="rows.txt").replace("lenet", "logistic"))
    contents = []
    for mapped in ("false", "true"):
        end = train(file, "data.validation=0.25", f"data.mapped={mapped}")
        assert end["val_accuracy"] > 0.8, end
        contents.append(pathlib.Path("out/model.safetensors").read_bytes())
    assert contents[0] == contents[1]


def test_a_folder_that_is_not_called_in_utf8_is_evaluated_by_its_name():
    folder("pictures", 12)
    os.rename("pictures/blue", b"pictures/bl\xe9")
    file = write("a.toml", FILE.format(name="image_folder", file="pictures"))
    train(file)
    found = json.loads(troupe("eval", "out/model.safetensors", "--set", "data.file=pictures", "--per-class",
                              "--json").stdout)
    assert [each["class"] for each in found["classes"]] == ["bl\\xe9", "red"], found


if __name__ == "__main__":
    main(globals())
