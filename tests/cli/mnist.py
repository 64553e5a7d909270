"""Convnet on the real MNIST with four workers: one epoch, or with --full the three epochs of the documented result."""

import os
import pathlib
import sys

from troupe_command import main, metrics, skip, troupe, write

if not os.environ.get("TROUPE_DATA"):
    skip("TROUPE_DATA is not set; it names the folder that holds mnist/")
if not pathlib.Path(os.environ["TROUPE_DATA"], "mnist").is_dir():
    skip(f"there is no mnist/ in TROUPE_DATA={os.environ['TROUPE_DATA']}")

EPOCHS, LEAST = (3, 0.975) if "--full" in sys.argv else (1, 0.96)
FILE = f"""
[run]
seed = 1
epochs = {EPOCHS}
[model]
name = "convnet"
[data]
name = "mnist"
batch_size = 16
[optimizer]
lr = 0.05
momentum = 0.5
[workers]
count = 4
loop = ["gradient", "exchange", "apply"]
[exchange]
kind = "all_reduce"
"""


def test_four_workers_reach_the_promised_accuracy():
    troupe("run", write("mnist.toml", FILE), "--out", "out", timeout=1100)
    evaluation = [line for line in metrics("out") if line["event"] == "evaluation"][-1]
    print(f"  {100 * evaluation['val_accuracy']:.2f} % after {EPOCHS} epochs, {evaluation['seconds']:.0f} s")
    assert evaluation["val_accuracy"] >= LEAST, evaluation


main(globals())
