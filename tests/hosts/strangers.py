"""Strangers on another host: whatever they send to the ports of a run, it ends with the same bytes, takes hardly more
memory, and mentions each kind of stranger once."""

import pathlib
import re
import shutil
import socket
import subprocess
import sys
import threading
import time

from hosts import addressed, certificates, network, skip_unless_possible
from nodes import until, weights
from troupe_command import TINY, main, troupe, write

ATTACKS = pathlib.Path(__file__).parents[1] / "support" / "attacks.py"

# Half a second of training or more, whatever the machine: the strangers come many times meanwhile.
TEXT = TINY.replace("count = 2\n", "").replace("steps = 20", "steps = 250").replace("lenet", "convnet")

# What the log says of each; None where a stranger leaves before anything can be said about it.
REASONS = {
    "plain_text": "does not use TLS",
    "plain_hello": "does not use TLS",
    "half_handshake": "too many connections|did not identify itself in time",
    "slow_bytes": "does not use TLS|did not identify itself in time",
    "many_connections": "too many connections",
    "no_certificate": "has shown no certificate",
    "wrong_alpn": "does not ask for a connection between nodes",
    "no_alpn": "has connected for another purpose",
    "wrong_authority": "another authority",
    "expired": "certificate expired on",
    "replayed": "TLS: |closed the connection during the handshake|did not identify",
    "wrong_name": "certificate is for mallory, not for node beta",
    "another_name": "certificate is for mallory, not for node beta",
    "other_plane": "has connected for another purpose",
    "gigabytes": "length is invalid",
    "not_an_introduction": "has not joined",
}


def memory_of(pid):
    """The largest resident memory so far, in MiB."""
    try:
        return int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text()).group(1)) / 1024
    except (OSError, AttributeError):
        return 0


def trained(where, file, out, attack=None):
    """Trains on two hosts, while a third one attacks the first; returns the memory of the first node in MiB, and what it said."""
    beta = where.node(1, file)
    with where.node(0, file, out=out) as alpha:
        attacker = None
        if attack:
            attacker = subprocess.Popen(where.on(2, sys.executable, ATTACKS, attack, "10.77.0.1", 4700, "certs"),
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        most = 0
        while alpha.process.poll() is None:
            most = max(most, memory_of(alpha.pid))
            time.sleep(0.02)
        alpha.wait(0)
        beta.wait(0)
        if attacker:
            attacker.terminate()
            printed = attacker.communicate()[0]
            assert "once" in printed, f"{attack} was not tried: {printed}"
        return most, alpha.said()


def record(where, file):
    """Records what the second node says to the first on its control connection."""
    said = []

    def relay(listener):
        there = None
        while not there:  # the second node may dial before the first one listens; it dials again
            dialled, _ = listener.accept()
            try:
                there = socket.create_connection(("127.0.0.1", 4791))
            except ConnectionRefusedError:
                dialled.close()
        threading.Thread(target=pump, args=(there, dialled, []), daemon=True).start()
        pump(dialled, there, said)

    def pump(source, sink, kept):
        try:
            while data := source.recv(65536):
                kept.append(data)
                sink.sendall(data)
        except OSError:
            pass

    listener = socket.create_server(("127.0.0.1", 4790))
    threading.Thread(target=relay, args=(listener,), daemon=True).start()
    local = write("recorded.toml", pathlib.Path(file).read_text().replace(
        'address = "10.77.0.1:4700"', 'address = "127.0.0.1:4790"\nlisten = "127.0.0.1:4791"').replace(
        'address = "10.77.0.2:4700"', 'address = "127.0.0.1:4792"'))
    started = [subprocess.Popen([*command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
               for command in nodes_of(local)]
    until(lambda: sum(map(len, said)) > 1500, "a node has introduced itself", 20)
    for one in started:
        one.kill()
        one.wait()
    listener.close()
    pathlib.Path("certs/recorded").write_bytes(b"".join(said))


def nodes_of(file):
    from troupe_command import BINARY
    return [[BINARY, "node", file, "--name", name, "--out", f"recorded_{name}"] for name in ("alpha", "beta")]


def make_expired():
    """A certificate of the authority for beta that has expired."""
    openssl = ["openssl"]
    subprocess.run([*openssl, "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-keyout", "certs/expired.key", "-out", "expired.csr", "-subj", "/CN=beta"], check=True,
                   capture_output=True)
    write("extensions", "subjectAltName=DNS:beta\n")
    subprocess.run([*openssl, "x509", "-req", "-in", "expired.csr", "-CA", "certs/authority.crt", "-CAkey",
                    "certs/authority.key", "-CAcreateserial", "-days", "-1", "-extfile", "extensions", "-out",
                    "certs/expired.crt"], check=True, capture_output=True)


def test_strangers_change_nothing():
    where = network(3)
    secured = certificates(2)
    troupe("certs", "certs", "--node", "mallory")
    troupe("certs", "certs/foreign", "--node", "beta")
    make_expired()
    # The attacks that reach a visitor speak frames.
    file = write("two.toml", TEXT + secured + "[transport]\ncontrol = \"frames\"\n" + addressed([1, 1]))
    record(where, file)
    undisturbed, _ = trained(where, file, "undisturbed")
    expected = weights("undisturbed")
    for attack, reason in REASONS.items():
        begin = time.monotonic()
        most, said = trained(where, file, attack, attack)
        assert weights(attack) == expected, f"{attack}: other weights"
        assert most < undisturbed + 32, f"{attack}: {most:.0f} MiB, {undisturbed:.0f} MiB without"
        lines = [line for line in said.splitlines() if "refused a connection from 10.77.0.3" in line]
        assert len(lines) == len(set(lines)) <= 3, f"{attack}: {said}"
        assert reason is None or re.search(reason, "\n".join(lines)), f"{attack}: {said}"
        shutil.rmtree(attack)
        print(f"  {attack}: {time.monotonic() - begin:.1f} s, {most - undisturbed:+.0f} MiB; {lines[0][-90:] if lines else ''}",
              flush=True)


skip_unless_possible()
main(globals())
