"""The example of docs/deploying.md, followed on two hosts."""

import os
import re
import shutil

from hosts import network, skip_unless_possible
from nodes import background, weights
from troupe_command import BINARY, SOURCE, main, troupe, write

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


skip_unless_possible()
main(globals())
