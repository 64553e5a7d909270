"""A run with a dashboard: starts it, and reads what it serves."""

import json
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request

from troupe_command import BINARY

# Trains for as long as a test needs, with an evaluation every few steps.
ENDLESS = """
[run]
seed = 1
steps = 1000000
[model]
name = "lenet"
[data]
name = "digits"
batch_size = 8
[evaluate]
every = "20 steps"
[optimizer]
lr = 0.05
[workers]
count = 2
loop = ["gradient", "exchange", "apply"]
[exchange]
kind = "all_reduce"
"""


class Watched:
    """A run in the background. `url` has the token, if there is one."""

    def __init__(self, *arguments, command="run", binary=BINARY):
        self.process = subprocess.Popen([binary, command, *map(str, arguments)], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.said, self.url = "", None
        for line in self.process.stderr:
            self.said += line
            if found := re.search(r"dashboard: (http://\S+)", line):
                self.url = found[1]
                break
        assert self.url, self.said

    def address(self, path):
        base, _, query = self.url.partition("?")
        return base + path + ("?" + query if query else "")

    def get(self, path, seconds=20):
        with urllib.request.urlopen(self.address(path), timeout=seconds) as answer:
            return answer.read().decode()

    def status(self, path, **fields):
        """The status of an answer, also of an error."""
        request = urllib.request.Request(self.url.partition("?")[0] + path, headers=fields)
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code

    def state(self):
        return json.loads(self.get("data.json"))

    def wait(self, condition, seconds=60):
        """Waits until a condition on the state is true, and returns the state."""
        until = time.monotonic() + seconds
        while not condition(state := self.state()):
            assert time.monotonic() < until, state
            time.sleep(0.05)
        return state

    def end(self, status=130):
        self.process.send_signal(signal.SIGINT)
        _, said = self.process.communicate(timeout=60)
        assert self.process.returncode == status, (self.process.returncode, self.said + said)
        return self.said + said

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
