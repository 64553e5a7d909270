"""A relay that holds back everything that passes for a time, as a long wire does."""

import collections
import contextlib
import os
import selectors
import socket
import threading
import time


class direction:
    """What one side has sent and the other has not got yet."""

    def __init__(self, source, sink):
        self.source, self.sink = source, sink
        self.held = collections.deque()  # of (when it leaves, bytes); no bytes are the end
        self.blocked = False  # the receiver does not take more for now


class delaying_relay:
    """Forwards each connection to port k of this host to port `ports[k]`, and delays every byte by `milliseconds` in each
    direction. One thread, so that it takes little of the machine."""

    def __init__(self, ports, milliseconds):
        self.delay, self.open = milliseconds / 1000, True
        self.wakes = selectors.SelectSelector()  # epoll counts in milliseconds
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
        with contextlib.suppress(PermissionError):  # as soon as it is time, although the workers occupy all cores
            os.sched_setscheduler(threading.get_native_id(), os.SCHED_FIFO, os.sched_param(1))
        while self.open:
            due = [one.held[0][0] for one in self.directions if one.held and not one.blocked]
            blocked = [0.001] if any(one.blocked for one in self.directions) else []
            wait = min([0.1, *blocked, *(when - time.monotonic() for when in due)])
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
            one.setblocking(False)
        for source, sink in ((dialled, there), (there, dialled)):
            made = direction(source, sink)
            self.directions.append(made)
            self.wakes.register(source, selectors.EVENT_READ, made)

    def take(self, one):
        try:
            data = one.source.recv(1 << 20)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.wakes.unregister(one.source)
        one.held.append((time.monotonic() + self.delay, data))

    def forward(self, one):
        one.blocked = False
        while one.held and one.held[0][0] <= time.monotonic():
            when, data = one.held.popleft()
            try:
                sent = one.sink.send(data) if data else one.sink.shutdown(socket.SHUT_WR)
            except BlockingIOError:
                sent = 0
            except OSError:
                continue  # the receiver is gone
            if data and sent < len(data):
                one.held.appendleft((when, data[sent:]))
                one.blocked = True
                return
