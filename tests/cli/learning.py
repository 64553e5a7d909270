"""Real learning within minutes: a residual network on real CIFAR-10 with decentralised SGD, and a GPT on a text from
the repository with all-reduce and with local averaging."""

import os
import pathlib

from troupe_command import SOURCE, main, metrics, troupe

RECIPES = SOURCE / "topologies/recipes"


def run(name, *settings):
    troupe("run", RECIPES / f"{name}.toml", "--out", name, *settings, timeout=1100)
    last = [line for line in metrics(name) if line["event"] == "evaluation"][-1]
    print(f"  {name}: loss {last['val_loss']:.3f}, {100 * last['val_accuracy']:.1f} %, {last['seconds']:.0f} s")
    return last


def test_resnet20_learns_on_a_ring_of_four():
    folder = os.environ.get("TROUPE_DATA", "")
    if not pathlib.Path(folder, "cifar-10-batches-bin").is_dir():
        print("  SKIPPED: there is no cifar-10-batches-bin/ in TROUPE_DATA")
        return
    # The recipe is made for 160 epochs. Within half an epoch a network learns more with momentum, smaller batches (468
    # steps of 64 images), no augmentation and statistics that are mixed.
    short = {"run.steps": 468, "data.global_batch_size": 64, "augment.preset": "none", "model.shortcut": "projection",
             "optimizer.lr": 0.05, "optimizer.momentum": 0.9, "optimizer.l2_penalty": 0, "exchange.buffers": "mix"}
    words = [word for key, value in short.items() for word in ("--set", f"{key}={value}")]
    assert run("a_dpsgd_resnet20", *words)["val_accuracy"] >= 0.47


def test_a_gpt_learns_to_spell_under_all_reduce():
    assert run("gpt_characters")["val_loss"] < 2.0


def test_a_gpt_learns_to_spell_under_local_averaging():
    assert run("gpt_characters_local")["val_loss"] < 2.0


main(globals())
