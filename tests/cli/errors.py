"""Every message in docs/errors.md is one that the program prints."""

import pathlib
import re
import shutil

from troupe_command import SOURCE, TINY, main, thorough, troupe, write

CHECKPOINTS = TINY + "[checkpoint]\nevery = 10\n"
NODES = TINY + '[[node]]\nname = "alpha"\naddress = "10.0.0.1:4700"\n[[node]]\nname = "beta"\naddress = "10.0.0.2:4700"\n'
MNIST = TINY.replace('"digits"', '"mnist"\ndir = "nowhere"')
SHARED = TINY.replace('kind = "all_reduce"', 'kind = "shared"\n[[link]]\nat = "*"\nlatency = "1ms"').replace(
    'loop = ["gradient", "exchange", "apply"]\n', "")


def check(*settings, text=TINY):
    return ["check", write("file.toml", text), *(word for setting in settings for word in ("--set", setting))]


def after_a_failure():
    after_a_run(text=CHECKPOINTS)
    for name in ("model.safetensors", "workers.csv"):  # written at the end
        pathlib.Path("out", name).unlink()
    return ["run", "file.toml", "--out", "out"]


def beside_notes():
    pathlib.Path("mine").mkdir()
    write("mine/notes.txt", "mine")
    return ["run", write("file.toml", TINY), "--out", "mine"]


def after_a_run(*arguments, text=TINY):
    troupe("run", write("file.toml", text), "--out", "out")
    return list(arguments)


# By heading: what to run. Each returns the arguments of a command that fails.
PROVOKED = {
    "A key that does not exist": lambda: check(text=TINY.replace("lr =", "learning_rate =")),
    "A value that is not one of the choices": lambda: check("exchange.route=rng"),
    "A setting of another kind of exchange": lambda: check("exchange.staleness_bound=3"),
    "An exchange that the loop does not use": lambda: check('workers.loop=["gradient", "apply"]'),
    "A step that would be applied twice": lambda: check("exchange.kind=parameter_server"),
    "A budget that needs an asynchronous wiring": lambda: check("run.budget=total"),
    "Data that is not there": lambda: check(text=MNIST),
    "A batch that is larger than a worker's share": lambda: check("data.batch_size=9999"),
    "A batch that cannot be divided": lambda: check("workers.count=3", "data.global_batch_size=32"),
    "A loss that is not finite": lambda: ["run", write("file.toml", TINY), "--out", "out", "--set",
                                          "optimizer.lr=1000000"],
    "A folder with results": lambda: after_a_run("run", "file.toml", "--out", "out"),
    "Results of a run that has not ended well": after_a_failure,
    "A folder with other files": beside_notes,
    "A run that cannot be continued": lambda: after_a_run("run", "--resume", "out", "--set", "optimizer.momentum=0.9",
                                                          text=CHECKPOINTS),
    "An address without certificates": lambda: check(text=NODES),
    "Links for workers that share memory": lambda: check(text=SHARED),
    "A GPU that this build does not use": lambda: check("workers.device=cuda"),
    "An option of another program": lambda: ["run", write("file.toml", TINY), "--epochs", "3"],
    "Weights that are a folder": lambda: after_a_run("eval", "out"),
}
RUNS = {"A loss that is not finite"}  # these have started when they fail


def documented():
    text = (SOURCE / "docs/errors.md").read_text()
    return dict(re.findall(r"^### (.+)\n\n```text\n(.+)\n```$", text, re.MULTILINE))


@thorough
def test_every_message_of_the_page_is_printed():
    messages = documented()
    assert set(messages) == set(PROVOKED), set(messages) ^ set(PROVOKED)
    cuda = next(line for line in troupe("--version").stdout.splitlines() if line.startswith("CUDA "))
    for heading, message in messages.items():
        if "GPU" in heading and cuda != "CUDA no":
            print("   SKIPPED:", heading)
            continue
        said = troupe(*PROVOKED[heading](), status=1 if heading in RUNS else 2).stderr
        pattern = ".*".join(re.escape(part) for part in message.split("…"))
        assert re.search(f"^{pattern}$", said, re.MULTILINE), f"{heading}\nexpected: {message}\nprinted: {said}"
        shutil.rmtree("out", ignore_errors=True)


main(globals())
