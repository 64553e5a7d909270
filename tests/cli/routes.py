"""route = "auto" of all_reduce is within 5 % of the fastest route, on networks on which the routes differ by up to a
factor of 50. Times are virtual, so this does not depend on the machine.

    routes.py            networks that users have met
    routes.py --full     more of them
"""

import json
import pathlib
import sys

from troupe_command import TINY, main, metrics, troupe, write

ROUTES = ("direct", "chain", "all_gather", "ring")
TWO_NODES = '[[node]]\nname = "alpha"\nworkers = 8\n[[node]]\nname = "beta"\nworkers = 8\n'


def link(where, **keys):
    return f"[[link]]\n{where}\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())


def workers(count):
    return TINY.replace("count = 2", f"count = {count}")


def seconds(file, route, more):
    troupe("simulate", file, "--compute", "none", "--set", "run.steps=5", "--set", "simulate.gradient=1ms", "--set",
           "simulate.jitter=0", "--set", f"exchange.route={route}", *more, "--out", "out", "--overwrite")
    return metrics("out")[-1]["seconds"]


def compare(name, text, more=()):
    """Compares auto with each route, and with what `check` says of it."""
    file = write("case.toml", text)
    took = {route: seconds(file, route, more) for route in ROUTES if "bf16" not in text or route != "chain"}
    auto = seconds(file, "auto", more)
    plan = json.loads(troupe("check", file, "--json", *more).stdout)["exchanges"][0]
    chosen = plan["choices"][0]
    print(f"   {name}: auto is {chosen['value']}, {auto:.3f} s; "
          + ", ".join(f"{route} {each:.3f} s" for route, each in took.items()), flush=True)
    assert auto <= 1.05 * min(took.values()), name
    assert auto == took[chosen["value"]], name
    assert chosen["predicted_seconds"][chosen["value"]] == min(chosen["predicted_seconds"].values()), chosen
    assert plan["assumed_links"], plan


def test_many_workers_far_apart():
    compare("64 workers", workers(64) + link('at = "*"', bandwidth="100Mbit/s", latency="20ms"))


def test_two_nodes_with_a_slow_link():
    text = TINY.replace("count = 2\n", "") + TWO_NODES
    compare("two nodes", text + link('between = ["alpha", "beta"]', bandwidth="20Mbit/s"))


def test_small_model_and_high_latency():
    small = ["--set", "model.name=logistic", "--set", "data.name=sparse", "--set", "data.rows=1000", "--set",
             "data.columns=1000", "--set", "data.nonzeros=5"]
    compare("1,000 parameters", workers(8) + link('at = "*"', latency="50ms"), small)
    real = link('at = "*"', latency="50ms", bandwidth="1Gbit/s", real=True)
    compare("1,000 parameters, a real link", workers(8) + real, small)


def test_a_real_link_slows_nothing():
    """Emulated, it would take longer than this test waits."""
    troupe("run", write("real.toml", TINY + link('at = "*"', latency="10s", real=True)), "--out", "real")
    assert not pathlib.Path("real/links.csv").exists()
    assert "(real: a run delays nothing)" in troupe("check", "real.toml").stdout
    assert seconds("real.toml", "direct", []) > 5 * 2 * 10


def test_other_networks():
    if "--full" not in sys.argv:
        return
    text = TINY.replace("count = 2\n", "") + TWO_NODES
    everyone = 'at = "*"'
    for size in (["--set", "model.name=convnet"], ["--set", "model.name=lenet"]):
        for keys in ({"bandwidth": "20Mbit/s"}, {"bandwidth": "20Mbit/s", "latency": "30ms"}, {"latency": "5ms"}):
            if "bandwidth" in keys:  # where it is not limited, a simulation of nodes is faster than what is assumed
                compare(f"shared interfaces, {keys}", text + link('at = "alpha"', **keys) + link('at = "beta"', **keys), size)
                compare(f"two nodes, {keys}", text + link('between = ["alpha", "beta"]', **keys), size)
            for count in (2, 3, 8, 32):
                compare(f"{count} workers, {keys}", workers(count) + link(everyone, **keys), size)
                compare(f"{count} workers, one slow, {keys}", workers(count) + link(everyone, bandwidth="1Gbit/s")
                        + link('at = "w1"', **keys), size)
        for lossy in ({"jitter": "10ms", "latency": "5ms"}, {"loss": 0.01, "latency": "10ms", "bandwidth": "50Mbit/s"}):
            compare(f"lossy, {lossy}", workers(8) + link(everyone, **lossy), size)
        compare("encoded", workers(8).replace('"all_reduce"', '"all_reduce"\nencoding = "bf16"')
                + link(everyone, bandwidth="20Mbit/s", latency="1ms"), size)


main(globals())
