"""The main use: four workers reach over 95 % on the built-in digits, with the file that quickstart runs."""

from troupe_command import SOURCE, main, metrics, troupe


def test_the_main_job_passes_95_percent_within_a_minute():
    troupe("run", SOURCE / "topologies/all_reduce.toml", "--out", "out", timeout=280)
    end = metrics("out")[-1]
    best = [line["val_accuracy"] for line in metrics("out") if line["event"] == "evaluation"][-1]
    print(f"  {100 * best:.2f} % after {end['seconds']:.1f} s of training")
    assert best > 0.95, best
    assert end["seconds"] < 60, end


main(globals())
