"""Ends a command whose Python process is gone. Run as a script, with the standard library only.

A process that is killed cannot end its children, but the system closes its pipes. This script reads the process ID of
the command from its standard input, and then waits for the line `ended`; the end of the input without this line means
that Python was killed. PR_SET_PDEATHSIG would do the same in the command itself, but it follows the thread that started
it, not the process, and needs code between fork and exec, which is unsafe with threads.
"""

import os
import signal
import sys
import time

PATIENCE_SECONDS = 60


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    first = sys.stdin.readline().strip()
    words = sys.stdin.read().split()
    if not first.isdigit() or "ended" in words:
        return
    process = int(first)
    deadline = time.monotonic() + PATIENCE_SECONDS
    try:
        if "stopped" not in words:  # a second signal would end it at once
            os.kill(process, signal.SIGINT)
        while time.monotonic() < deadline:
            os.kill(process, 0)
            time.sleep(0.1)
        os.killpg(process, signal.SIGKILL)  # its session is its own
    except ProcessLookupError:
        pass


if __name__ == "__main__":
    main()
