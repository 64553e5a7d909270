"""Attacks on the port of a node, each a function that is called again and again while a run trains. Executed as a script on
another host: attacks.py NAME ADDRESS PORT FOLDER, where FOLDER has the certificates that some of them use."""

import os
import pathlib
import socket
import ssl
import struct
import sys
import time

HEADER = 112
TENSORS, CONTROL = 0, 1


def crc32c(data):
    """CRC-32C (Castagnoli), bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x82F63B78 * (crc & 1)
    return crc ^ 0xFFFFFFFF


def frame(kind, to=0, place=0, total=0, payload=b"", claimed=None, elements=0):
    """A frame as docs/protocol.md specifies it; `claimed` is the size that the header says instead of the payload's."""
    header = struct.pack("<4sHBBBBBBIQIIQQIIqqqdQQI", b"TTRP", 10, kind, 0, 0, 0, 0, 0, to, 0, 0, 0, 0, 0, place, 0, 0,
                         total, 0, 1.0, elements, len(payload) if claimed is None else claimed, crc32c(payload))
    return header + struct.pack("<I", crc32c(header)) + payload


def hello(node, plane):
    return frame(1, to=node, place=plane, total=2 << 20, payload=bytes(16))


class attacks:
    def __init__(self, address, port, folder):
        self.where, self.folder = (address, port), pathlib.Path(folder)
        self.held = []

    def dial(self):
        return socket.create_connection(self.where, timeout=5)

    def tls(self, name, alpn="troupe-control", folder=None):
        """Connects with the certificate of `name`, or with none."""
        folder = folder or self.folder
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        if alpn:
            context.set_alpn_protocols([alpn])
        if name:
            context.load_cert_chain(folder / f"{name}.crt", folder / f"{name}.key")
        return context.wrap_socket(self.dial())

    def shown_the_door(self, connection, *words):
        """Says something and waits until the other side closes the connection."""
        with connection:
            try:
                for word in words:
                    connection.sendall(word)
                connection.settimeout(10)
                while connection.recv(65536):
                    pass
            except (ConnectionError, ssl.SSLError):
                return  # closed
            except TimeoutError:
                raise AssertionError("the connection stays open") from None

    def hold(self, most, connection):
        self.held.append(connection)
        if len(self.held) > most:
            self.held.pop(0).close()

    # What strangers do. ----------------------------------------------------------------------------------------------

    def plain_text(self):
        self.shown_the_door(self.dial(), b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")

    def plain_hello(self):
        self.shown_the_door(self.dial(), hello(1, CONTROL))

    def half_handshake(self):
        one = self.dial()
        one.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + os.urandom(100))
        self.hold(100, one)

    def slow_bytes(self):
        if not self.held:
            self.held = [self.dial() for _ in range(20)]
        for one in self.held:
            try:
                one.sendall(b"\x16")
            except OSError:
                pass  # shown the door
        time.sleep(0.02)  # a few bytes even into a run of half a second

    def many_connections(self):
        for _ in range(500):
            self.hold(1000, self.dial())
        self.count = getattr(self, "count", 0) + 500
        if self.count >= 12000:
            time.sleep(1)

    def no_certificate(self):
        try:
            self.shown_the_door(self.tls(None), hello(1, CONTROL))
        except (ConnectionError, ssl.SSLError):
            pass

    def wrong_alpn(self):
        try:
            self.shown_the_door(self.tls("beta", alpn="h2"), hello(1, CONTROL))
        except (ConnectionError, ssl.SSLError):
            pass

    def no_alpn(self):
        self.shown_the_door(self.tls("beta", alpn=None), hello(1, TENSORS))

    def wrong_authority(self):
        self.shown_the_door(self.tls("beta", folder=self.folder / "foreign"), hello(1, CONTROL))

    def expired(self):
        self.shown_the_door(self.tls("expired"), hello(1, CONTROL))

    def replayed(self):
        """Says again what a node has said on another connection."""
        self.shown_the_door(self.dial(), (self.folder / "recorded").read_bytes())

    # What nodes with a certificate do that they must not. ------------------------------------------------------------

    def wrong_name(self):
        """A certificate of the authority, but for a node that the run does not have."""
        self.shown_the_door(self.tls("mallory", alpn="troupe-tensors"), hello(1, TENSORS))

    def another_name(self):
        """A node that introduces itself as another one."""
        name = b"beta"
        introduction = b"\x00" + struct.pack("<I", len(name)) + name + bytes(4 * 4 + 4 + 1)
        self.shown_the_door(self.tls("mallory"), hello(1, CONTROL), frame(7, payload=introduction))

    def other_plane(self):
        self.shown_the_door(self.tls("beta", alpn="troupe-control"), hello(1, TENSORS))

    def gigabytes(self):
        self.shown_the_door(self.tls("beta"), hello(1, CONTROL), frame(7, claimed=1 << 30))

    def not_an_introduction(self):
        self.shown_the_door(self.tls("beta"), hello(1, CONTROL), frame(7, payload=b"\x02\x00\x00\x00\x00"))


def main():
    name, address, port, folder = sys.argv[1:]
    attack = attacks(address, int(port), folder)
    times = 0
    print("ready", flush=True)
    try:
        while True:
            try:
                getattr(attack, name)()
                times += 1
            except (ConnectionError, TimeoutError) as error:
                if times == 0:
                    print(repr(error), flush=True)
                time.sleep(0.05)
            if times == 1:
                print("once", flush=True)
            time.sleep(0.002)
    finally:
        print(times, flush=True)


if __name__ == "__main__":
    main()
