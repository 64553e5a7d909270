"""Hosts of a network, as network namespaces of this machine that a bridge joins. It takes root and iproute2."""

import atexit
import os
import pathlib
import shutil
import subprocess
import sys

from nodes import NAMES, background
from troupe_command import BINARY, troupe

SKIPPED = 77


def ip(*words, netns=None, check=True):
    before = ["-n", netns] if netns else []
    return subprocess.run(["ip", *before, *words], capture_output=True, text=True, check=check)


def skip_unless_possible():
    """Ends this test where network namespaces cannot be created."""
    reason = None
    if shutil.which("ip") is None:
        reason = "there is no command `ip` (Debian's iproute2)"
    elif os.geteuid() != 0:
        reason = "network namespaces take root"
    else:
        name = f"troupe-{os.getpid()}-try"
        tried = ip("netns", "add", name, check=False)
        if tried.returncode != 0:
            reason = f"network namespaces cannot be created: {tried.stderr.strip()}"
        else:
            ip("netns", "del", name)
    if reason:
        print(f"SKIPPED: {reason}")
        sys.exit(SKIPPED)


class network:
    """So many hosts on one switch: 10.77.0.1, 10.77.0.2 … and fd77::1, fd77::2 …, called h0, h1 … in each one's
    /etc/hosts. Large packets (`mtu`, in bytes) cost this machine less time."""

    def __init__(self, count, mtu=1500):
        self.prefix = f"troupe-{os.getpid()}-"
        self.switch = self.prefix + "sw"
        self.hosts = [f"{self.prefix}{index}" for index in range(count)]
        atexit.register(self.remove)
        self.remove()
        ip("netns", "add", self.switch)
        ip("link", "add", "switch", "type", "bridge", netns=self.switch)
        ip("link", "set", "switch", "up", netns=self.switch)
        known = "127.0.0.1 localhost\n" + "".join(f"10.77.0.{i + 1} h{i}\n" for i in range(count))
        for index, host in enumerate(self.hosts):
            ip("netns", "add", host)
            ip("link", "add", f"port{index}", "netns", self.switch, "mtu", str(mtu), "type", "veth", "peer", "name", "eth0",
               "netns", host, "mtu", str(mtu))
            ip("link", "set", f"port{index}", "master", "switch", "up", netns=self.switch)
            ip("link", "set", "lo", "up", netns=host)
            ip("addr", "add", f"10.77.0.{index + 1}/24", "dev", "eth0", netns=host)
            ip("addr", "add", f"10.0.0.{index + 1}/24", "dev", "eth0", netns=host)  # those of docs/deploying.md
            ip("addr", "add", f"fd77::{index + 1}/64", "dev", "eth0", "nodad", netns=host)
            ip("link", "set", "eth0", "up", netns=host)
            etc = pathlib.Path("/etc/netns", host)
            etc.mkdir(parents=True, exist_ok=True)
            (etc / "hosts").write_text(known)

    def remove(self):
        for name in [self.switch, *self.hosts]:
            ip("netns", "del", name, check=False)
            shutil.rmtree(pathlib.Path("/etc/netns", name), ignore_errors=True)

    def on(self, index, *words):
        """The command line that executes `words` on a host."""
        return ["ip", "netns", "exec", self.hosts[index], *map(str, words)]

    def cable(self, index, up):
        """Cuts the cable of a host, or mends it."""
        ip("link", "set", f"port{index}", "up" if up else "down", netns=self.switch)

    def limit(self, index, rate):
        """Limits what a host sends, such as "100mbit", or no longer (None). The burst is small, because after a pause, that many
        bytes pass without a limit."""
        tc = ["tc", "-n", self.hosts[index], "qdisc"]
        subprocess.run([*tc, "del", "dev", "eth0", "root"], capture_output=True, check=False)
        if rate:
            subprocess.run([*tc, "add", "dev", "eth0", "root", "tbf", "rate", rate, "burst", "10kb", "latency",
                            "200ms"], check=True)

    def node(self, index, file, *more, name=None, out=None, env=None):
        """Starts a node of a file on a host. The first node has a folder for its results."""
        name = name or NAMES[index]
        options = ["--out", out] if out else []
        return on_host(self, index, "node", file, "--name", name, *options, *more, name=name, env=env)


class on_host(background):
    """A command under way on a host."""

    def __init__(self, where, index, *arguments, name, env=None):
        super().__init__(*arguments, name=name, program=where.on(index, BINARY),
                         env={**os.environ, **env} if env else None)


def addressed(workers, address=lambda index: f"10.77.0.{index + 1}:4700", more=""):
    """[[node]] tables with addresses of hosts."""
    return more + "".join(f'[[node]]\nname = "{NAMES[index]}"\naddress = "{address(index)}"\nworkers = {count}\n'
                          for index, count in enumerate(workers))


def certificates(count, folder="certs", *more):
    """Makes certificates for the first so many names; returns the section of the topology file that names them."""
    troupe("certs", folder, *[word for name in NAMES[:count] for word in ("--node", name)], *more)
    return f'[security]\ncertificates = "{folder}"\n'
