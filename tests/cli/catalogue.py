"""Every file of topologies/ trains on the built-in digits, ends successfully, writes the metrics of its algorithm, and
equals the files that its comments name as equal.

    catalogue.py          one epoch each, to a modest accuracy
    catalogue.py --full   as the files are, to the accuracy stated in them
"""

import pathlib
import sys

from troupe_command import SOURCE, main, metrics, thorough, troupe

FULL = "--full" in sys.argv
LEAST = 0.95 if FULL else 0.75
LEAST_OF = {"hogwild_sparse": 0.8}  # a twentieth of its labels is wrong
SAME_BYTES = ["all_reduce", "data_parallel", "ddp", "star", "star_overlapped", "two_nodes", "sync_ps"]
STALE = {"asgd", "sync_ps", "hogwild", "hogwild_sparse"}  # whose gradients others pass by, or may, and who count it
APART = {"choco", "diloco", "dpsgd_ring", "gossip_pga", "model_averaging", "hierarchy", "post_local_sgd", "slowmo",
         "streaming_diloco"}  # whose result is an average of workers that differ


@thorough
def test_every_file():
    sent = {}
    for file in sorted((SOURCE / "topologies").glob("*.toml")):
        name = file.stem
        troupe("run", file, "--out", name, *([] if FULL else ["--set", "run.epochs=1"]), timeout=280)
        end = metrics(name)[-1]
        print(f"  {name}: {100 * end['val_accuracy']:.2f} %, {end['seconds']:.1f} s, {end['bytes_sent']} bytes")
        assert end["event"] == "end" and end["status"] == "done", end
        assert end["val_accuracy"] > LEAST_OF.get(name, LEAST), f"{name}: {end}"
        assert (end["staleness_mean"] is not None) == (name in STALE), f"{name}: {end}"
        assert (end["consensus_distance"] is not None) == (name in APART), f"{name}: {end}"
        if name == "asgd":
            assert 1 < end["staleness_mean"] < 3.01 and end["staleness_max"] >= 3, f"{name}: {end}"
            assert sum(end["staleness_counts"]) == end["updates"], f"{name}: {end}"
        if name == "sync_ps":
            assert end["staleness_max"] == 0, f"{name}: {end}"
        if "hogwild" in name:
            assert sum(end["staleness_counts"]) == end["updates"] and end["bytes_sent"] == 0, f"{name}: {end}"
        sent[name] = end["bytes_sent"]
    expected = pathlib.Path(SAME_BYTES[0], "model.safetensors").read_bytes()
    for name in SAME_BYTES[1:]:
        assert pathlib.Path(name, "model.safetensors").read_bytes() == expected, f"{name} has weights of its own"
    assert sent["single"] == 0
    assert 0.9 < sent["all_reduce"] / (8 * sent["model_averaging"]) < 1.1, sent


def test_the_results_have_a_row_for_every_file():
    page = (SOURCE / "docs" / "results.md").read_text()
    files = [file.name for file in sorted((SOURCE / "topologies").glob("*.toml"))]
    missing = [name for name in files if f"topologies/{name})" not in page]
    assert not missing, f"docs/results.md has no row for {', '.join(missing)}; bench/catalogue.py makes them"


main(globals())
