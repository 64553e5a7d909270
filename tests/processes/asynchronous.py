"""Asynchronous wirings over two processes: results are not reproducible bit for bit, but they learn, apply each
gradient once, and count its staleness."""

from nodes import ASYNCHRONOUS, node_tables, nothing_is_left, wired
from troupe_command import TINY, main, metrics, thorough, troupe, write

WORKERS, STEPS = 4, 150
LONGER = (TINY.replace("steps = 20", f"steps = {STEPS}").replace("count = 2\n", "").replace("lenet", "convnet")
          .replace("batch_size = 8", "batch_size = 16").replace("lr = 0.05", "lr = 0.03\nmomentum = 0.5"))


def learn_and_count(wirings, *settings):
    for name, wiring in wirings.items():
        file = write("longer.toml", wired(LONGER, wiring) + node_tables([WORKERS // 2] * 2))
        troupe("run", file, "--out", "out", "--overwrite", *settings)
        end = metrics("out")[-1]
        print(f"  {name}: {100 * end['val_accuracy']:.1f} %, staleness {end['staleness_mean']}")
        assert end["step"] == STEPS and end["status"] == "done", (name, end)
        assert end["val_accuracy"] > 0.6, (name, end)
        if "asgd" in name or "hogwild" in name:
            shards = 2 if "two shards" in name else 1
            counts = end["staleness_counts"]
            assert sum(counts) == shards * WORKERS * STEPS, (name, end)
            mean = sum(behind * count for behind, count in enumerate(counts)) / sum(counts)
            assert abs(mean - end["staleness_mean"]) < 1e-6 and 0 < mean <= end["staleness_max"], (name, end)
    nothing_is_left()


@thorough
def test_each_learns_and_counts():
    learn_and_count(ASYNCHRONOUS)


@thorough
def test_workers_that_share_a_budget_learn_and_count():
    shared = {name: ASYNCHRONOUS[name] for name in ("asgd of two shards", "asynchronous elastic", "hogwild")}
    learn_and_count(shared, "--set", "run.budget=total")


main(globals())
