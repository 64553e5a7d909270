"""A relay that holds back everything that passes for a time, as a long wire does."""

import collections
import contextlib
import selectors
import socket
import threading
import time


class direction:
    """What one side has sent and the other has not got yet."""

    def __init__(self, source, sink):
        self.source, self.sink = source, sink
        self.held = collections.deque()  # of (when it leaves, bytes)


class delaying_relay:
    """Forwards connections to the ports of this host that are the keys of `ports` to those that are the values. Each byte takes
    so many milliseconds, in either direction. One thread, so that it takes little of the machine."""

    def __init__(self, ports, milliseconds):
        self.delay, self.open = milliseconds / 1000, True
        self.wakes = selectors.DefaultSelector()
        self.directions, self.sockets = [], []
        for port, to in ports.items():
            listener = socket.create_server(("127.0.0.1", port))
            self.sockets.append(listener)
            self.wakes.register(listener, selectors.EVENT_READ, to)
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.open = False
        self.thread.join()
        for one in self.sockets:
            one.close()

    def work(self):
        while self.open:
            due = [one.held[0][0] for one in self.directions if one.held]
            wait = min([0.1, *(when - time.monotonic() for when in due)])
            for key, _ in self.wakes.select(max(0, wait)):
                if isinstance(key.data, direction):
                    self.take(key.data)
                else:
                    self.connect(key.fileobj, key.data)
            for one in self.directions:
                self.forward(one)

    def connect(self, listener, to):
        dialled, _ = listener.accept()
        self.sockets.append(dialled)
        try:
            there = socket.create_connection(("127.0.0.1", to))
        except OSError:
            dialled.close()
            return
        self.sockets.append(there)
        for one in (dialled, there):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for source, sink in ((dialled, there), (there, dialled)):
            made = direction(source, sink)
            self.directions.append(made)
            self.wakes.register(source, selectors.EVENT_READ, made)

    def take(self, one):
        try:
            data = one.source.recv(1 << 20)
        except OSError:
            data = b""
        if not data:
            self.wakes.unregister(one.source)
        one.held.append((time.monotonic() + self.delay, data))

    def forward(self, one):
        while one.held and one.held[0][0] <= time.monotonic():
            _, data = one.held.popleft()
            with contextlib.suppress(OSError):
                one.sink.sendall(data) if data else one.sink.shutdown(socket.SHUT_WR)
