"""A headless Chromium, controlled through the pipes of --remote-debugging-pipe. Only the standard library is used."""

import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time

CHROMIUM = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)


class Browser:
    """One page. `problems` collects errors of the console, of scripts and of loading."""

    def __init__(self, width=1280, height=900):
        self.profile = tempfile.TemporaryDirectory(prefix="troupe-browser-", ignore_cleanup_errors=True)
        to_read, self.output = os.pipe()
        self.input, to_write = os.pipe()

        def connect():  # the browser reads commands from descriptor 3 and writes to 4
            high = [os.dup(fd) for fd in (to_read, to_write)]
            for fd, wanted in zip(high, (3, 4)):
                os.dup2(fd, wanted)

        self.process = subprocess.Popen(
            [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-extensions", "--remote-debugging-pipe", f"--user-data-dir={self.profile.name}", "about:blank"],
            pass_fds=(3, 4), preexec_fn=connect, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for fd in (to_read, to_write):
            os.close(fd)
        self.rest, self.number, self.problems = b"", 0, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = None
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.resize(width, height)

    session = None

    def _read(self, until):
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.input], [], [], max(0, until - time.monotonic()))
            if not ready:
                raise AssertionError("the browser does not answer")
            some = os.read(self.input, 1 << 20)
            if not some:
                raise AssertionError("the browser has ended")
            self.rest += some
        line, _, self.rest = self.rest.partition(b"\0")
        return json.loads(line)

    def _note(self, message):
        method, given = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.problems.append(given["exceptionDetails"].get("exception", {}).get("description", str(given)))
        elif method == "Runtime.consoleAPICalled" and given["type"] in ("error", "assert", "warning"):
            self.problems.append(str(given["args"]))
        elif method == "Log.entryAdded" and given["entry"]["level"] in ("error", "warning"):
            self.problems.append(given["entry"]["text"] + " " + given["entry"].get("url", ""))

    def call(self, method, **given):
        self.number += 1
        request = {"id": self.number, "method": method, "params": given}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.output, json.dumps(request).encode() + b"\0")
        until = time.monotonic() + 60
        while True:
            message = self._read(until)
            self._note(message)
            if message.get("id") == self.number:
                assert "error" not in message, message
                return message["result"]

    def resize(self, width, height=900, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def run(self, script):
        """Returns the value of an expression."""
        done = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def wait(self, script, seconds=30):
        """Waits until an expression is true, and returns its value."""
        until = time.monotonic() + seconds
        while not (value := self.run(script)):
            assert time.monotonic() < until, f"not true within {seconds} s: {script}"
            time.sleep(0.05)
        return value

    def screenshot(self, path, whole=True):
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        pathlib.Path(path).write_bytes(base64.b64decode(shot["data"]))

    def close(self):
        self.process.kill()
        self.process.wait()
        for fd in (self.input, self.output):
            os.close(fd)
        self.profile.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
