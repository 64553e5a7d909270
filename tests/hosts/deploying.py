"""The example of docs/deploying.md, and that of docs/tuning.md for measuring a network, followed on two hosts."""

import os
import re
import shutil

from hosts import network, skip_unless_possible
from nodes import background, weights
from troupe_command import BINARY, SOURCE, TINY, main, troupe, write

GUIDE = (SOURCE / "docs" / "deploying.md").read_text()


def commands(host):
    """The commands of the guide for a host, or for whom it does not matter where they run."""
    blocks = re.search(r"## Two hosts.*?(?=\n## )", GUIDE, re.DOTALL).group(0)
    lines = [line.strip() for block in re.findall(r"```shell\n(.*?)```", blocks, re.DOTALL)
             for line in block.splitlines() if line.strip()]
    found = [line.split(" #")[0].split() for line in lines if (line.endswith(host) if host else "#" not in line)]
    assert found, f"no command for {host or 'any host'}"
    return found


def test_the_example_with_two_hosts_works_as_written():
    where = network(2)
    text = re.search(r"```toml\n *# two.toml\n(.*?)```", GUIDE, re.DOTALL).group(1)
    write("two.toml", re.sub(r"^   ", "", text, flags=re.MULTILINE))
    shutil.copytree(SOURCE / "topologies", "topologies")
    for program, *arguments in commands(""):
        assert program == "troupe", program
        troupe(*arguments)
    for name in ("alpha", "beta"):  # what is copied to each host
        os.makedirs(f"{name}/certs")
        for file in ("authority.crt", f"{name}.crt", f"{name}.key"):
            shutil.copy2(f"certs/{file}", f"{name}/certs/{file}")
        shutil.copy("two.toml", name)
        shutil.copytree("topologies", f"{name}/topologies")
    started = []
    for index, name in enumerate(("alpha", "beta")):
        (_, *arguments), = commands(f"# on 10.0.0.{index + 1}")
        started.append(background(*arguments, name=name, cwd=name, program=where.on(index, os.path.abspath(BINARY))))
    for one in started:
        one.wait(0, within=120)
    troupe("run", "topologies/all_reduce.toml", "--out", "alone")
    assert weights("alpha/runs/two") == weights("alone")


def test_the_network_is_measured_in_both_directions():
    guide = (SOURCE / "docs" / "tuning.md").read_text()
    (_, *listen), (_, *probe) = [line.split(" #")[0].split() for line in guide.splitlines()
                                 if line.startswith("troupe tune --") and " # on 10.0.0." in line]
    where = network(2)
    where.limit(0, "20mbit")
    where.limit(1, "40mbit")
    listening = background(*listen, name="listening", program=where.on(1, BINARY))
    with listening:
        listening.until(lambda: "answering probes at 10.0.0.2:4800" in listening.printed(), "it listens")
        measuring = background(*probe, name="measuring", program=where.on(0, BINARY))
        measuring.wait(0)
    to, back = re.match(r"([\d.]+)Mbit/s to 10.0.0.2:4800, ([\d.]+)Mbit/s from there, a latency of", measuring.said()).groups()
    print(f"  {to} of 20 Mbit/s there, {back} of 40 Mbit/s back")
    assert 18 < float(to) <= 20.2 and 36 < float(back) <= 40.4, measuring.said()
    assert f"{to}Mbit/s" in troupe("check", write("measured.toml", TINY + measuring.printed())).stdout


skip_unless_possible()
main(globals())
