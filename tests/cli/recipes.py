"""The recipes of topologies/recipes/: `troupe check` accepts each, each trains and has the settings of its source.

Instead of the published images, the tests generate noise in the formats of these data sets, so nothing has to be
downloaded."""

import json
import math
import os
import pathlib
import random
import struct
import tomllib

from troupe_command import SOURCE, main, metrics, thorough, troupe

RECIPES = SOURCE / "topologies" / "recipes"

# What makes a recipe exact, by section and key; besides, the number of parameters, of workers, the batch of one worker,
# and the number of epochs.
DPSGD = {"model.name": "resnet20", "model.shortcut": "pad", "data.name": "cifar10",
         "data.remainder": "pad", "data.drop_last": False, "data.split": "strided", "data.shuffle": True,
         "data.mean": [0.4914, 0.4822, 0.4465], "data.std": [0.2023, 0.1994, 0.2010], "augment.preset": "crop_flip",
         "optimizer.name": "sgd", "optimizer.lr": 0.1, "optimizer.momentum": 0, "optimizer.l2_penalty": 1e-4,
         "optimizer.weight_decay": 1e-4, "optimizer.schedule": "step", "optimizer.decay_epochs": [80, 120],
         "optimizer.decay_factor": 0.1, "optimizer.warmup_epochs": 0, "exchange.kind": "gossip",
         "exchange.graph": "ring", "exchange.buffers": "local", "evaluate.buffers": "mean",
         "evaluate.pause_training": True, "workers.loop": ["gradient", "exchange", "apply"]}
VGG = {"model.name": "vgg11_bn", "data.name": "cifar10", "optimizer.name": "sgd", "optimizer.lr": 0.1,
       "optimizer.momentum": 0.9, "optimizer.weight_decay": 1e-4, "optimizer.l2_penalty": 0,
       "optimizer.schedule": "constant", "data.drop_last": False}
VGG_OF_FOUR = {**VGG, "evaluate.buffers": "first", "data.remainder": "pad"}
MNIST = {"model.name": "convnet", "data.name": "mnist", "data.mean": [0.1307], "data.std": [0.3081],
         "data.drop_last": False, "optimizer.name": "sgd", "optimizer.weight_decay": 0,
         "optimizer.schedule": "constant"}
SERVER = {**MNIST, "data.split": "contiguous", "optimizer.lr": 0.001, "optimizer.momentum": 0.9,
          "exchange.kind": "parameter_server", "exchange.shards": 1}
DEVICES = {"data.name": "fashion_mnist", "data.normalize": False, "data.drop_last": False,
           "model.initializer": "normal", "model.initializer_std": 0.01, "optimizer.name": "sgd",
           "optimizer.momentum": 0, "optimizer.weight_decay": 0, "optimizer.schedule": "constant",
           "augment.preset": "none", "evaluate.pause_training": True}
LENET = {**DEVICES, "model.name": "lenet", "model.initializer_bias": "zero"}
RESNET18 = {**DEVICES, "model.name": "resnet18_small_images", "model.initializer_bias": "default", "optimizer.lr": 0.1}
LAB = {"model.name": "wide_resnet_pooled", "model.dropout": 0.01, "model.sync_batch_norm": False,
       "data.name": "fashion_mnist", "data.normalize": False, "data.remainder": "pad", "data.drop_last": True,
       "augment.preset": "none", "optimizer.name": "sgd", "optimizer.lr": 0.01, "optimizer.momentum": 0,
       "optimizer.weight_decay": 0, "optimizer.warmup_epochs": 0, "optimizer.scale_lr": "none",
       "exchange.send": "bucket", "evaluate.split": "workers", "evaluate.drop_last": True, "evaluate.buffers": "first",
       "evaluate.target_accuracy": 0.85, "evaluate.target_hold": 2}
NOVOGRAD = {"optimizer.name": "novograd", "optimizer.betas": [0.95, 0], "optimizer.eps": 1e-8,
            "optimizer.grad_averaging": True, "optimizer.moment_start": "zero"}
EXACT = {
    "a_dpsgd_resnet20": (DPSGD, 269_722, 4, 32, 160),
    "b_vgg11_single": (VGG, 9_231_114, 1, 256, 1),
    "b_vgg11_gather_scatter": ({**VGG_OF_FOUR, "exchange.kind": "star", "exchange.send": "whole"}, 9_231_114, 4, 64, 1),
    "b_vgg11_isend_irecv": ({**VGG_OF_FOUR, "exchange.kind": "star", "exchange.send": "parameter"}, 9_231_114, 4, 64,
                            1),
    "b_vgg11_all_reduce": ({**VGG_OF_FOUR, "exchange.kind": "all_reduce", "exchange.send": "parameter"}, 9_231_114, 4,
                           64, 1),
    "b_vgg11_ddp": ({**VGG_OF_FOUR, "exchange.kind": "all_reduce", "exchange.send": "bucket",
                     "exchange.bucket_mb": 25}, 9_231_114, 4, 64, 1),
    "c_server_mnist": ({**SERVER, "exchange.apply": "all"}, 21_840, 2, 32, 10),
    "c_asgd_mnist": ({**SERVER, "exchange.apply": "each"}, 21_840, 2, 32, 10),
    "c_hogwild_mnist": ({**MNIST, "data.split": "all", "optimizer.lr": 0.01, "optimizer.momentum": 0.5,
                         "exchange.kind": "shared", "exchange.lock": False, "exchange.local_steps": 1}, 21_840, 4, 64,
                        10),
    "d_lenet_one_device": ({**LENET, "optimizer.lr": 0.2}, 129_068, 1, 256, 10),
    "d_lenet_two_devices": ({**LENET, "optimizer.lr": 0.3}, 129_068, 2, 256, 10),
    "d_resnet18_one_device": (RESNET18, 11_175_818, 1, 256, 10),
    "d_resnet18_two_devices": ({**RESNET18, "evaluate.buffers": "first"}, 11_175_818, 2, 256, 10),
    "e_lab_sgd": (LAB, 17_117_466, 4, 32, 40),
    "e_lab_momentum": ({**LAB, "optimizer.momentum": 0.9}, 17_117_466, 4, 32, 40),
    "e_lab_novograd": ({**LAB, **NOVOGRAD}, 17_117_466, 4, 32, 40),
    "e_assignment": ({**LAB, **NOVOGRAD, "model.sync_batch_norm": True, "data.name": "cifar10", "data.normalize": True,
                      "augment.preset": "affine_jitter", "optimizer.lr": 0.15, "optimizer.warmup_epochs": 5,
                      "optimizer.warmup_start": 0.25, "optimizer.schedule_by": "epoch"}, 17_117_754, 4, 256, 40),
    "gpt_characters": ({"model.name": "gpt", "data.random_windows": True, "optimizer.name": "adamw",
                        "optimizer.lr": 1e-3, "optimizer.min_lr": 1e-4, "optimizer.betas": [0.9, 0.99],
                        "optimizer.weight_decay": 0.1, "optimizer.decay_min_dims": 2, "optimizer.clip_norm": 1,
                        "optimizer.schedule": "cosine"}, None, 2, 12, None),
    "gpt_characters_local": ({"exchange.sends": "parameters", "exchange.every": "8 steps"}, None, 2, 12, None),
}
# Three steps of few images. Of the networks with millions of parameters two workers are enough.
SHORT = {"b": {"data.global_batch_size": 8}, "d": {"data.global_batch_size": 4}, "a": {"data.global_batch_size": 16},
         "c": {"data.batch_size": 4}, "g": {"data.batch_size": 2},
         "e": {"data.batch_size": 2, "evaluate.batch_size": 2, "workers.count": 2}}


def write_images(folder, training, test):
    """MNIST, Fashion-MNIST and CIFAR-10 with as many images, all of them noise."""
    noise = random.Random(5)
    for name in ("mnist", "fashion-mnist"):
        where = pathlib.Path(folder, name)
        where.mkdir(parents=True)
        for part, count in (("train", training), ("t10k", test)):
            (where / f"{part}-images-idx3-ubyte").write_bytes(
                struct.pack(">iiii", 2051, count, 28, 28) + noise.randbytes(count * 784))
            (where / f"{part}-labels-idx1-ubyte").write_bytes(
                struct.pack(">ii", 2049, count) + bytes(index % 10 for index in range(count)))
    where = pathlib.Path(folder, "cifar-10-batches-bin")
    where.mkdir()
    for name, count in (*((f"data_batch_{number}", training // 5) for number in range(1, 6)), ("test_batch", test)):
        records = (bytes([index % 10]) + noise.randbytes(3072) for index in range(count))
        (where / f"{name}.bin").write_bytes(b"".join(records))
    os.environ["TROUPE_DATA"] = str(pathlib.Path(folder).resolve())


def files():
    return {file.stem: file for file in sorted(RECIPES.glob("*.toml"))}


def test_every_recipe_is_known_here():
    assert set(files()) == set(EXACT), set(files()) ^ set(EXACT)


def test_check_accepts_every_recipe():
    write_images("data", 1040, 1040)  # the assignment's four workers need 256 images each, and as many to evaluate
    for name, file in files().items():
        _, parameters, workers, batch, epochs = EXACT[name]
        plan = json.loads(troupe("check", file, "--json").stdout)
        assert parameters in (None, plan["parameters"]), f"{name}: {plan['parameters']} parameters"
        assert (plan["workers"], plan["batch_size"]) == (workers, batch), name
        assert epochs in (None, plan["steps"] / plan["steps_per_epoch"]), f"{name}: {plan['steps']} steps"
        asynchronous = name in ("c_asgd_mnist", "c_hogwild_mnist")
        assert plan["same_bits"] != asynchronous, f"{name}: {plan['same_bits']}"


@thorough
def test_every_recipe_trains_three_steps_with_the_settings_of_its_source():
    write_images("data", 80, 8)
    for name, file in files().items():
        words = [word for key, value in SHORT[name[0]].items() for word in ("--set", f"{key}={value}")]
        troupe("run", file, "--out", name, "--set", "run.steps=3", "--set", "run.timeout=5min", *words)
        end = metrics(name)[-1]
        assert end["status"] == "done" and end["step"] == 3, f"{name}: {end}"
        for key in ("train_loss", "val_loss"):
            assert end[key] is not None and math.isfinite(end[key]), f"{name}: {end}"
        assert 0 <= end["val_accuracy"] <= 1, f"{name}: {end}"
        print(f"  {name}: loss {end['train_loss']:.3f}, {end['seconds']:.1f} s", flush=True)
        settings = tomllib.loads(pathlib.Path(name, "topology.toml").read_text())  # with every default filled in
        for key, expected in EXACT[name][0].items():
            section, word = key.split(".")
            found = settings[section].get(word)
            assert found == expected, f"{name}: {key} is {found}; its source has {expected}"


main(globals())
