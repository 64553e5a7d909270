"""Training over several hosts with certificates: the same bytes as in one process, whatever the addresses are."""

import os
import pathlib
import signal
import subprocess
import sys
import time

from hosts import addressed, certificates, network, skip_unless_possible
from nodes import ASYNCHRONOUS, WIRINGS, background, weights, wired
from troupe_command import BINARY, TINY, main, metrics, thorough, troupe, write

FULL = "--full" in sys.argv
TEXT = TINY.replace("count = 2\n", "")
FEW = ["star", "all_reduce auto", "buckets", "gossip on a ring", "synchronous parameter server", "pairs that gossip"]


def trained(where, file, out, count=2, late=None):
    """Trains with one node on each host; returns the weights."""
    started = []
    for index in reversed(range(count)):
        if index == late:
            continue
        started.append(where.node(index, file, out=out if index == 0 else None))
    if late is not None:
        for one in started:
            one.until_said("waiting for")
        time.sleep(1)
        started.append(where.node(late, file, out=out if late == 0 else None))
    for one in started:
        one.wait(0, within=120)
    return weights(out)


def test_every_wiring_on_two_hosts_gives_the_bytes_of_one_process():
    where = network(2)
    secured = certificates(2)
    for name, wiring in WIRINGS.items():
        if not FULL and name not in FEW:
            continue
        out = name.replace(" ", "_")
        alone = write("alone.toml", wired(TINY.replace("count = 2", "count = 4"), wiring))
        troupe("run", alone, "--out", out + "_alone")
        file = write("two.toml", wired(TEXT, wiring) + secured + addressed([2, 2]))
        assert trained(where, file, out) == weights(out + "_alone"), name
        print(f"  {name}")


ENCODINGS = {"float32": "", "bf16": "", "fp16": "", "int8": "", "int4": "", "sign": "", "top_k": "ratio = 0.05\n",
             "random_k": "ratio = 0.1\n", "powersgd": "rank = 100\n"}


@thorough
def test_the_bytes_of_each_encoding_are_those_that_pass_the_interface():
    """With 25 MB of parameters."""
    where = network(2)
    text = TEXT.replace('name = "lenet"', 'name = "mlp"\nlayers = 1\nwidth = 7860').replace("steps = 20", "steps = 3")
    secured = certificates(2) + addressed([1, 1])
    for encoding, more in ENCODINGS.items():
        file = write("two.toml", f"{text}encoding = \"{encoding}\"\n{more}{secured}")
        before = passed(where)
        trained(where, file, encoding)
        sent = metrics(encoding)[-1]["bytes_sent"]
        apart = (passed(where) - before) / sent - 1
        print(f"  {encoding}: {sent / 1e6:.1f} MB sent, {100 * apart:+.2f} % at the interface")
        assert abs(apart) < 0.05, (encoding, sent, apart)


def passed(where):
    """The bytes that the first host has sent and received."""
    return sum(int(subprocess.run(where.on(0, "cat", f"/sys/class/net/eth0/statistics/{way}_bytes"), capture_output=True,
                                  text=True, check=True).stdout) for way in ("rx", "tx"))


def test_asynchronous_wirings_on_two_hosts_end_well():
    where = network(2)
    secured = certificates(2)
    for name in ("asgd", "asynchronous elastic"):
        file = write("two.toml", wired(TEXT, ASYNCHRONOUS[name]) + secured + addressed([2, 2]))
        trained(where, file, name.replace(" ", "_"))


def test_addresses_of_every_kind():
    where = network(3)
    secured = certificates(3)
    troupe("run", write("alone.toml", TINY.replace("count = 2", "count = 3")), "--out", "alone")
    expected = weights("alone")
    kinds = {"ipv6": lambda i: f"[fd77::{i + 1}]:4700", "names": lambda i: f"h{i}:4700",
             "mixed": lambda i: ["10.77.0.1:4700", "[fd77::2]:4701", "h2:4702"][i]}
    for kind, address in kinds.items():
        file = write("three.toml", TEXT + secured + addressed([1] * 3, address))
        assert trained(where, file, kind, 3) == expected, kind
    file = write("three.toml", TEXT + secured + addressed([1] * 3).replace(
        'address = "10.77.0.1:4700"\n', 'address = "10.77.0.1:4700"\nlisten = "0.0.0.0:4700"\n'))
    assert trained(where, file, "listens", 3) == expected


# Replaces the clock of a process by one that is SHIFT seconds ahead.
CLOCK = r"""
#include <dlfcn.h>
#include <time.h>
extern "C" time_t time(time_t* out) {
  static auto* real = reinterpret_cast<time_t (*)(time_t*)>(dlsym(RTLD_NEXT, "time"));
  const time_t now = real(nullptr) + SHIFT;
  if (out != nullptr) *out = now;
  return now;
}
extern "C" int clock_gettime(clockid_t which, timespec* out) {
  static auto* real = reinterpret_cast<int (*)(clockid_t, timespec*)>(dlsym(RTLD_NEXT, "clock_gettime"));
  const int result = real(which, out);
  if (result == 0 && which == CLOCK_REALTIME) out->tv_sec += SHIFT;
  return result;
}
"""


@thorough
def test_clocks_that_are_an_hour_apart_do_no_harm():
    where = network(2)
    troupe("run", write("alone.toml", TINY), "--out", "alone")
    file = write("two.toml", TEXT + certificates(2) + addressed([1, 1]))
    write("clock.cpp", CLOCK)
    for shift in (3600, -3600):
        subprocess.run(["c++", "-shared", "-fPIC", f"-DSHIFT={shift}", "clock.cpp", "-o", "clock.so", "-ldl"], check=True)
        shifted = {"LD_PRELOAD": os.path.abspath("clock.so")}
        beta = where.node(1, file, env=shifted)
        alpha = where.node(0, file, out=f"shifted_{shift}")
        for one in (alpha, beta):
            one.wait(0)
        assert weights(f"shifted_{shift}") == weights("alone")
    days = 3 * 24 * 3600  # a clock that is too wrong is told so
    subprocess.run(["c++", "-shared", "-fPIC", f"-DSHIFT=-{days}", "clock.cpp", "-o", "clock.so", "-ldl"], check=True)
    with where.node(1, file, env={"LD_PRELOAD": os.path.abspath("clock.so")}) as beta:
        beta.wait(2)
        assert "is not valid before" in beta.said() and "set the clock of this machine" in beta.said(), beta


@thorough
def test_a_host_that_appears_late_is_awaited():
    where = network(2)
    troupe("run", write("alone.toml", TINY), "--out", "alone")
    file = write("two.toml", TEXT + certificates(2) + addressed([1, 1]))
    for late in (0, 1):
        assert trained(where, file, f"late_{late}", late=late) == weights("alone")


@thorough
def test_slow_networks_change_nothing_but_the_time():
    where = network(2)
    troupe("run", write("alone.toml", TINY), "--out", "alone")
    file = write("two.toml", TEXT + certificates(2) + addressed([1, 1]))
    for rate in ("100mbit", "20mbit"):
        for index in range(2):
            where.limit(index, rate)
        begin = time.monotonic()
        assert trained(where, file, rate) == weights("alone")
        print(f"  {rate}: {time.monotonic() - begin:.1f} s")


def test_without_certificates_only_what_is_declared_insecure_is_connected():
    where = network(2)
    troupe("run", write("alone.toml", TINY), "--out", "alone")
    file = write("two.toml", TEXT + addressed([1, 1]))
    for arguments in (["run", file], ["node", file, "--name", "alpha"], ["check", file]):
        said = troupe(*arguments, status=2).stderr
        for word in ("node.alpha.address", "10.77.0.1:4700", "troupe certs", "security.insecure"):
            assert word in said, said
    file = write("two.toml", TEXT + "[security]\ninsecure = true\n" + addressed([1, 1]))
    assert trained(where, file, "insecure") == weights("alone")
    said = troupe("run", file, status=2).stderr
    assert "not an address of this host" in said and "troupe node" in said, said


def test_a_name_server_that_does_not_answer_holds_up_no_signal():
    where = network(1)
    pathlib.Path("/etc/netns", where.hosts[0], "resolv.conf").write_text("nameserver 127.0.0.1\n")
    silent = ("import socket, time; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('127.0.0.1', 53)); "
              "print('there', flush=True); time.sleep(60)")
    nodes = '[[node]]\nname = "alpha"\naddress = "nowhere.example:4700"\nworkers = 1\n'
    file = write("two.toml", TEXT + "[security]\ninsecure = true\n" + nodes +
                 '[[node]]\nname = "beta"\naddress = "127.0.0.1:4701"\nworkers = 1\n')
    with background("-c", silent, name="silent", program=where.on(0, sys.executable)) as server:
        server.until(lambda: "there" in server.printed(), "it listened")
        with background("node", file, "--name", "beta", name="beta", program=where.on(0, BINARY)) as beta:
            beta.until_said("waiting for node alpha at nowhere.example:4700")
            beta.process.send_signal(signal.SIGINT)
            assert beta.wait(130, within=20) < 2, beta


skip_unless_possible()
main(globals())
