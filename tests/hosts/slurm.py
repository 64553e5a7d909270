"""deploy/slurm.sh under Slurm itself: two hosts, namespaces of this machine, with slurmctld, slurmd and munge from Debian's
packages."""

import os
import pathlib
import secrets
import shutil
import subprocess

from hosts import network, skip_unless_possible
from nodes import until, weights
from troupe_command import BINARY, SOURCE, TINY, main, skip, troupe, write

PROGRAMS = ["slurmctld", "slurmd", "sbatch", "sinfo", "scontrol", "munged"]

# No accounting, no control groups, nothing outside the folder of the test. Each node has all of the machine.
CONFIGURATION = """
ClusterName=troupe
SlurmctldHost=h0
SlurmUser=root
SlurmctldPort=6817
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdSpoolDir={folder}/spool-%n
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
MailProg=/bin/true
SwitchType=switch/none
ReturnToService=2
NodeName=h[0-1] CPUs={cores} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=10:00 State=UP
"""

# The addresses are replaced by those of the hosts.
NODES = """
[[node]]
name    = "alpha"
address = "127.0.0.1:4700"
workers = 1

[[node]]
name    = "beta"
address = "127.0.0.1:4701"
workers = 1
"""


class slurm:
    """A controller on the first of two hosts, and a daemon on each."""

    def __init__(self):
        self.where = network(2)
        self.folder = pathlib.Path("slurm").absolute()
        self.running = []
        for name in ("state", "spool-h0", "spool-h1"):
            (self.folder / name).mkdir(parents=True)
        os.chmod(self.folder, 0o755)
        (self.folder / "slurm.conf").write_text(CONFIGURATION.format(folder=self.folder, cores=os.cpu_count()))
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")  # loaded, but not used

    def __enter__(self):
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        self.start(0, "munged", "--foreground", "--force", f"--socket={self.folder}/munge.socket", f"--key-file={key}",
                   f"--log-file={self.folder}/munged.log", f"--pid-file={self.folder}/munged.pid",
                   f"--seed-file={self.folder}/munged.seed")
        until((self.folder / "munge.socket").exists, "munged listens", 20)
        self.start(0, "slurmctld", "-D", "-f", self.folder / "slurm.conf")
        for index in (0, 1):
            self.start(index, "slurmd", "-D", "-N", f"h{index}", "-f", self.folder / "slurm.conf")
        until(lambda: self.ask("sinfo", "--noheader", "--format=%D %t").strip() == "2 idle", "both hosts are idle", 60,
              context=self)
        return self

    def start(self, index, *words):
        log = open(self.folder / f"{words[0]}-{index}.out", "wb")
        named = ["unshare", "--uts", "sh", "-c", f'hostname h{index}; exec "$@"', "sh", *words]
        self.running.append(subprocess.Popen(self.where.on(index, *named), stdin=subprocess.DEVNULL, stdout=log,
                                             stderr=log, env=self.environment()))

    def environment(self, **more):
        return {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf"), **more}

    def ask(self, *words, check=False, **more):
        done = subprocess.run(self.where.on(0, *words), capture_output=True, text=True, env=self.environment(**more),
                              timeout=60, check=False)
        assert not check or done.returncode == 0, f"{words}: {done.stdout}{done.stderr}\n{self}"
        return done.stdout

    def state(self, job):
        """Returns the state of a job and its exit status."""
        words = self.ask("scontrol", "show", "job", job, "--oneliner", check=True).split()
        found = dict(word.split("=", 1) for word in words if "=" in word)
        return found["JobState"], found["ExitCode"]

    def submit(self, *words, nodes, **more):
        """Returns the number of the job and the file of its output."""
        job = self.ask("sbatch", "--parsable", f"--nodes={nodes}", "--output=job-%j.out", *words, check=True,
                       **more).strip()
        return job, pathlib.Path(f"job-{job}.out")

    def finish(self, job, within):
        """Waits for the end of a job; returns its state and exit status."""
        until(lambda: self.state(job)[0] not in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING"),
              f"job {job} ends", within, context=self)
        return self.state(job)

    def __exit__(self, *_):
        for each in reversed(self.running):
            each.terminate()
        for each in self.running:
            try:
                each.wait(10)
            except subprocess.TimeoutExpired:
                each.kill()
                each.wait()

    def __str__(self):
        return "\n".join(f"--- {path.name}\n{path.read_text(errors='replace')[-1500:]}"
                         for path in sorted([*self.folder.glob("*.log"), *self.folder.glob("*.out")]))


def test_a_job_over_two_hosts_ends_in_the_weights_of_one_process():
    write("two.toml", TINY.replace("count = 2\n", "") + NODES)
    with slurm() as cluster:
        job, output = cluster.submit(SOURCE / "deploy" / "slurm.sh", "two.toml", "--out", "runs/two", nodes=2,
                                     TROUPE=os.path.abspath(BINARY))
        ended = cluster.finish(job, 120)
        assert ended == ("COMPLETED", "0:0"), f"{ended}\n{output.read_text()}\n{cluster}"
        said = output.read_text()
        assert "h0:4700" in said or "alpha" in said, said
    write("one.toml", TINY)
    troupe("run", "one.toml", "--out", "alone")
    assert weights("runs/two") == weights("alone")


def test_a_job_with_another_number_of_hosts_than_nodes_is_refused():
    write("two.toml", TINY.replace("count = 2\n", "") + NODES)
    with slurm() as cluster:
        job, output = cluster.submit(SOURCE / "deploy" / "slurm.sh", "two.toml", nodes=1, TROUPE=os.path.abspath(BINARY))
        assert cluster.finish(job, 60) == ("FAILED", "2:0")
        assert "two.toml has 2 nodes, but the job has 1 hosts; set --nodes=2" in output.read_text()


skip_unless_possible()
absent = [program for program in PROGRAMS if shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin") is None]
if absent:
    skip(f"there is no command {', '.join(absent)} (Debian's slurmctld, slurmd, slurm-client and munge)")
main(globals())
