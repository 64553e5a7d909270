"""deploy/slurm.sh finds the nodes of any topology file, because it asks the command. Slurm's programs are stand-ins here;
tests/hosts/slurm.py uses real ones."""

import os
import pathlib
import subprocess

from troupe_command import BINARY, SOURCE, TINY, main, write

PROGRAM = TINY.replace("count = 2\n", "")
NODE = '[[node]]\nname = "{}"\naddress = "127.0.0.1:{}"\n'
TWO = NODE.format("alpha", 4700) + NODE.format("beta", 4701)


def submit(*words, hosts="node01 node02"):
    """Runs the script; returns its status, its errors and the command that srun would start."""
    programs = pathlib.Path("bin")
    programs.mkdir(exist_ok=True)
    for name, text in (("scontrol", "for h in $HOSTS; do echo $h; done"), ("srun", 'shift; printf "%s\\n" "$@" > srun')):
        (programs / name).write_text(f"#!/bin/bash\n{text}\n")
        (programs / name).chmod(0o755)
    pathlib.Path("srun").unlink(missing_ok=True)
    done = subprocess.run(["bash", SOURCE / "deploy" / "slurm.sh", *words], capture_output=True, text=True, check=False,
                          timeout=60, env={**os.environ, "PATH": f"{programs.absolute()}:{os.environ['PATH']}",
                                           "TROUPE": os.path.abspath(BINARY), "HOSTS": hosts, "SLURM_JOB_NODELIST": "x"})
    started = pathlib.Path("srun").read_text().splitlines() if pathlib.Path("srun").exists() else []
    return done.returncode, done.stderr, started


def takes(names, *words):
    status, errors, started = submit(*words)
    assert status == 0, errors
    for index, name in enumerate(names):
        assert f"node.{name}.address=node0{index + 1}:4700" in started, started
        assert pathlib.Path("certs", f"{name}.crt").exists(), name
    assert sum("address=" in word for word in started) == len(names), started


def test_nodes_are_found_however_the_file_is_written():
    write("base.toml", PROGRAM + TWO)
    takes(["alpha", "beta"], "base.toml")
    takes(["alpha", "beta"], write("extends.toml", 'extends = "base.toml"\n[run]\nsteps = 3\n'))
    commented = PROGRAM + NODE.format("alpha", 4700).replace('"alpha"', '"alpha" # not "beta"') \
        + NODE.format("beta", 4701).replace("name", '"name"').replace('"beta"', "'beta'")
    takes(["alpha", "beta"], write("commented.toml", commented))
    inline = 'node = [{name = "left", address = "127.0.0.1:1"}, {name = "right", address = "127.0.0.1:2"}]\n' + PROGRAM
    takes(["left", "right"], write("inline.toml", inline))


def test_another_number_of_hosts_is_refused():
    write("two.toml", PROGRAM + TWO)
    status, errors, started = submit("two.toml", hosts="node01 node02 node03")
    assert status == 2 and not started, errors
    assert errors == "error: two.toml has 2 nodes, but the job has 3 hosts; set --nodes=2\n", errors


def test_mistakes_in_the_file_are_those_of_the_command():
    status, errors, started = submit(write("wrong.toml", PROGRAM.replace("lenet", "lenett") + TWO))
    assert status == 2 and not started and "lenett" in errors, errors
    write("two.toml", PROGRAM + TWO)
    status, errors, started = submit("two.toml", "--set", "run.stepps=3")
    assert status == 2 and not started and "stepps" in errors, errors


main(globals())
