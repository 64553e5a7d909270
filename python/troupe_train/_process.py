"""The command `troupe` as a child process: where it and the LibTorch that it needs are, its arguments, and its end.

The public functions put a command line together from what a Python user passes, and start it with Job or output(). This
module imports no torch. Its main() is also the console script `troupe`.
"""

from __future__ import annotations

import atexit
import contextlib
import difflib
import functools
import importlib.util
import inspect
import json
import math
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from . import _guard

PathLike = str | os.PathLike[str]

PACKAGE = pathlib.Path(__file__).resolve().parent
TORCH = "2.11"
INSTALL = f"""pip install "torch=={TORCH}.*"
or, without CUDA (200 MB instead of 2 GB):
  pip install "torch=={TORCH}.*" --extra-index-url https://download.pytorch.org/whl/cpu"""
INTERRUPTED = 128 + signal.SIGINT

# The options of each command that may be given as keywords; a test compares them with the help of the command.
OPTIONS = {
    "run": "csv epoch_log dashboard actors record tensorboard trace overwrite",
    "simulate": "seed compute against events tensorboard trace dashboard overwrite",
    "compare": "overwrite",
    "tune": "overwrite",
    "check": "no_data operators",
    "graph": "wiring_only",
    "timeline": "steps workers",
}
# Those that need a value, and which one; True is not one.
VALUES = {
    **dict.fromkeys(("csv", "epoch_log"), "the path of a file"),
    "against": "a results folder",
    **dict.fromkeys(("seed", "events", "steps"), "a whole number"),
    "compute": '"real" or "none"',
    "workers": "a list of numbers",
}


class TroupeError(RuntimeError):
    """Something that Troupe cannot do; the message says what to change. The base of all errors of this package."""


class TopologyError(TroupeError):
    """The command has refused its input (status 2), and nothing was started. The message is its own, with its place."""


class RunError(TroupeError):
    """A run that was started has failed.

    status is the exit status of the command, cause the last lines that it printed to standard error, and folder the
    results folder, with what was written until then, or None if the command has none.
    """

    def __init__(self, status: int, cause: str, folder: pathlib.Path | None) -> None:
        super().__init__(status, cause, folder)  # so that a pickle of it can be read
        self.status = status
        self.cause = cause
        self.folder = folder

    def __str__(self) -> str:
        return self.cause or f"the command ended with status {self.status}"


def torch_folder() -> pathlib.Path:
    """Returns the folder of the installed torch.

    Raises TroupeError if it is missing, incomplete or of another minor version.
    """
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise TroupeError(f"PyTorch {TORCH} is not installed; install it with\n  {INSTALL}")
    folder = pathlib.Path(spec.origin).parent
    version_file = folder / "version.py"
    text = version_file.read_text() if version_file.is_file() else ""
    found = re.search(r"__version__\s*=\s*['\"]([^'\"]+)", text)
    version = found[1] if found else "of an unknown version"
    if not version.startswith(TORCH + "."):
        raise TroupeError(
            f"PyTorch in {folder} is {version}, but this Troupe needs {TORCH}; install it with\n"
            f"  {INSTALL}\nand then restart Python"
        )
    if not (folder / "lib/libtorch_cpu.so").exists():
        reinstall = INSTALL.replace("pip install", "pip install --force-reinstall --no-deps")
        raise TroupeError(f"PyTorch in {folder} is incomplete; reinstall it with\n  {reinstall}")
    return folder


def binary() -> pathlib.Path:
    """Returns the path of the command: TROUPE_BINARY if that is set, else the one in this package."""
    named = os.environ.get("TROUPE_BINARY")
    path = absolute(named) if named else PACKAGE / "bin" / "troupe"
    if not (path.is_file() and os.access(path, os.X_OK)):
        fix = "correct TROUPE_BINARY" if named else "install the wheel of troupe-train, or set TROUPE_BINARY"
        raise TroupeError(f"{path}: there is no command here; {fix}")
    return path


def environment() -> dict[str, str]:
    """Returns the environment of the command.

    The command of the package looks for torch/lib next to the package; LD_LIBRARY_PATH names it if torch is elsewhere.
    A command that TROUPE_BINARY names finds its own LibTorch.
    """
    variables = dict(os.environ)
    if variables.get("TROUPE_BINARY"):
        return variables
    torch = torch_folder()
    beside = PACKAGE.parent / "torch"
    if not (beside.is_dir() and beside.samefile(torch)):
        before = variables.get("LD_LIBRARY_PATH")
        variables["LD_LIBRARY_PATH"] = f"{torch / 'lib'}{os.pathsep + before if before else ''}"
    return variables


def main() -> int:
    """Becomes the command, with the arguments of this process: the console script `troupe`."""
    try:
        command, variables = binary(), environment()
    except TroupeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    # Python ignores SIGPIPE, and a program that is executed would inherit that.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.execve(command, [str(command), *sys.argv[1:]], variables)


def topologies() -> pathlib.Path:
    """Returns the folder of the topology files that come with the package, or with the source that it is run from."""
    packaged = PACKAGE / "topologies"
    return packaged if packaged.is_dir() else PACKAGE.parents[1] / "topologies"


def topology(file_or_name: PathLike, folders: bool = False) -> str:
    """Returns the path of a topology file, or of the one of this name that comes with the package, such as "asgd".

    A name takes precedence over a folder of the same name. With folders=True, the path of a folder is returned, too.
    """
    if not isinstance(file_or_name, str | os.PathLike):
        raise TroupeError(f"the topology is {_kind(file_or_name)}; expected the path of a .toml file, or a name")
    path = pathlib.Path(file_or_name)
    if not isinstance(file_or_name, str) or path.suffix == ".toml":
        return str(path)
    names = sorted(file.relative_to(topologies()).with_suffix("").as_posix() for file in topologies().rglob("*.toml"))
    if file_or_name in names:
        return str(topologies() / f"{file_or_name}.toml")
    if folders and path.is_dir():
        return str(path)
    nearest = did_you_mean(file_or_name, names)
    raise TroupeError(
        f'there is no topology "{file_or_name}"{nearest}; expected a path that ends in .toml, or one of '
        + ", ".join(name for name in names if "/" not in name)
    )


def flattened(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings with one key for each value: {"workers": {"count": 3}} becomes {"workers.count": 3}.

    No key of a topology takes a table, and a section as a whole would replace the one of the file.
    """
    if not isinstance(values, Mapping):
        raise TroupeError(f'set is {_kind(values)}; expected a dict such as {{"workers.count": 8}}')
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flat |= {f"{key}.{name}": below for name, below in flattened(value).items()}
        else:
            flat[str(key)] = value
    return flat


def settings(values: Mapping[str, Any]) -> list[str]:
    """Returns --set key=value for each setting, with the value as TOML."""
    return [word for key, value in values.items() for word in ("--set", f"{key}={toml(value, key)}")]


def lists(values: Mapping[str, Iterable[Any]]) -> dict[str, list[Any]]:
    """Returns the values of vary= as lists. Raises TroupeError if one is not a sequence of values."""
    if not isinstance(values, Mapping):
        raise TroupeError(
            f'vary is {_kind(values)}; expected a dict of lists, such as {{"optimizer.lr": [0.02, 0.05]}}'
        )
    found = {}
    for key, each in values.items():
        each = each.tolist() if hasattr(each, "tolist") else each
        if isinstance(each, str | bytes | Mapping) or not isinstance(each, Iterable):
            raise TroupeError(
                f"{key} in vary= is {_kind(each)}; expected a list of values, as in "
                'vary={"optimizer.lr": [0.02, 0.05]}'
            )
        found[key] = list(each)
    return found


def variations(values: Mapping[str, list[Any]]) -> list[str]:
    """Returns --vary key=a,b,c for each key."""
    return [
        word
        for key, each in values.items()
        for word in ("--vary", f"{key}=" + ",".join(toml(value, key) for value in each))
    ]


def options(function: Callable[..., Any], flags: Mapping[str, Any]) -> list[str]:
    """Returns the options of the command of a function: record=True is --record, and csv="x.csv" is --csv=x.csv."""
    command = function.__name__
    known = OPTIONS[command].split()
    words = []
    for name, value in flags.items():
        if name not in known:
            raise TroupeError(f'{command}() has no option "{name}"{_instead(function, name, known)}')
        if name in VALUES and (value is True or value == ""):
            raise TroupeError(f"{name} is {value!r}; expected {VALUES[name]}")
        option = "--" + name.replace("_", "-")
        if value is True:
            words.append(option)
        elif isinstance(value, list | tuple):
            words.append(f"{option}={','.join(map(str, value))}")
        elif value is not None and value is not False:
            words.append(f"{option}={os.fspath(value) if isinstance(value, os.PathLike) else value}")
    return words


def _instead(function: Callable[..., Any], name: str, known: list[str]) -> str:
    """Returns what to write instead of an option that a function does not have."""
    if function.__name__ in ("graph", "timeline") and name in ("out", "output", "overwrite"):
        return "; save the drawing with .save(path)"
    named = [each.name for each in inspect.signature(function).parameters.values() if each.kind != each.VAR_KEYWORD]
    return (
        f"{did_you_mean(name, [*known, *named])}; expected one of {', '.join(known)}. "
        'Keys of the topology are given in set={"section.key": value}'
    )


def folder_of(value: Any, name: str) -> pathlib.Path:
    """Returns the absolute path that an argument of this name has."""
    if not isinstance(value, str | os.PathLike) or not os.fspath(value) or "\0" in str(value):
        raise TroupeError(f"{name} is {value!r}; expected the path of a folder")
    return absolute(value)


def absolute(path: PathLike) -> pathlib.Path:
    """Returns an absolute path, in which ~ stands for the home folder as in a shell."""
    try:
        return pathlib.Path(os.path.expanduser(path)).absolute()
    except FileNotFoundError:
        raise TroupeError("the current folder has been removed; change to another one with os.chdir()") from None


def did_you_mean(name: str, names: Iterable[str]) -> str:
    nearest = difflib.get_close_matches(name, list(names), 1, 0.5)
    return f' (did you mean "{nearest[0]}"?)' if nearest else ""


def toml(value: Any, key: str = "value") -> str:
    """Returns a Python value as TOML: text, paths, bools, numbers, lists and dicts, also of NumPy and torch scalars."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, str | os.PathLike):
        return _quoted(os.fspath(value))
    if isinstance(value, list | tuple):
        return f"[{', '.join(toml(each, key) for each in value)}]"
    if isinstance(value, Mapping):
        fields = (
            f"{name if re.fullmatch('[A-Za-z0-9_-]+', name) else _quoted(name)} = {toml(each, f'{key}.{name}')}"
            for name, each in value.items()
        )
        return f"{{{', '.join(fields)}}}"
    raise TroupeError(f"{key} is {_kind(value)}; expected text, a number, True, False, or a list or dict of these")


def _quoted(text: str) -> str:
    # JSON's escapes are TOML's, except that JSON leaves DEL as it is and writes surrogate pairs.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _kind(value: object) -> str:
    return "None" if value is None else f"of type {type(value).__name__}"


class Job:
    """The command as a child process. Threads read its output, so that it never waits for a slow reader.

    It has a session of its own: Ctrl-C in a terminal and the interrupt of a notebook reach Python only, which passes
    on exactly one SIGINT. It ends when Python does, in good order: at exit, or through a guard (_guard.py) if Python
    is killed. `ended` is called with the exit status, in a thread, before status is set.
    """

    def __init__(self, words: list[str], ended: Callable[[int], None]) -> None:
        self.lines: list[str] = []
        self.errors: list[str] = []
        self.status: int | None = None
        self._process: subprocess.Popen[str] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._failure: BaseException | None = None
        self._reported = 0
        self._stopped = False
        self._interrupts = 0
        self._changed = threading.Condition()
        child = _child(words)
        _register()
        with self.interrupts(), _starting(child), self._guarded() as guard:
            process = subprocess.Popen(**child, start_new_session=True)
            _tell(guard, f"{process.pid}\n")
            readers = [
                threading.Thread(target=self._read, args=(process.stdout, self.lines), daemon=True),
                threading.Thread(target=self._read, args=(process.stderr, self.errors), daemon=True),
            ]
            reaper = threading.Thread(target=self._reap, args=(process, readers, guard, ended), daemon=True)
            for thread in (*readers, reaper):
                thread.start()
            self._process = process
        if self._interrupts:
            self.stop()

    @contextlib.contextmanager
    def interrupts(self) -> Iterator[None]:
        """Passes interrupts of the user on to the command, as long as Python waits for it.

        The first one stops the command, and Python goes on waiting; the second one ends it at once, and is raised as
        KeyboardInterrupt. A handler does this, and no `except`, because an exception would come at any place, such as
        in the midst of showing progress. Python handles signals in its main thread only; nothing changes elsewhere.
        """
        ignored = signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, None)
        if threading.current_thread() is not threading.main_thread() or ignored:
            yield
            return
        before = signal.signal(signal.SIGINT, self._interrupt)
        try:
            yield
        except KeyboardInterrupt:
            self.join(10)
            raise
        finally:
            signal.signal(signal.SIGINT, before)

    @contextlib.contextmanager
    def ends_with_caller(self) -> Iterator[None]:
        """Ends the command if an exception leaves the block, whose caller has nothing to stop it with."""
        try:
            yield
        except BaseException:
            self.stop()
            self.join()
            raise

    @property
    def interrupted(self) -> bool:
        """Whether the user has interrupted it, which stop() is not."""
        return self._interrupts > 0

    def follow(self) -> Iterator[str | None]:
        """Gives each line of the output when it comes, and None when only the standard error has changed."""
        seen, errors = 0, 0
        while True:
            with self._changed:
                while len(self.lines) == seen and len(self.errors) == errors and self.status is None:
                    self._changed.wait()
                new = self.lines[seen:]
                over = not new and len(self.errors) == errors
                errors = len(self.errors)
            if over:
                return
            seen += len(new)
            yield from new
            if not new:
                yield None

    def stop(self) -> None:
        """Sends SIGINT, once: a run completes its step, writes its results and ends."""
        if self._process is None or self._guard is None:
            return
        before, self._stopped = self._stopped, True
        if not before:
            _tell(self._guard, "stopped\n")
            self._process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """Ends the command at once."""
        if self._process and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def join(self, timeout: float | None = None) -> bool:
        """Waits for the end. Returns whether it has come."""
        with self._changed:
            return self._changed.wait_for(lambda: self.status is not None, timeout)

    def release(self) -> None:
        """Closes the pipe of the guard in a forked child, which would keep it open when this process is killed."""
        if self._guard and self._guard.stdin:
            with contextlib.suppress(OSError):
                self._guard.stdin.close()

    def news(self) -> list[str]:
        """Returns the lines of the standard error since the last call. Those that are warnings become warnings."""
        new = self.errors[self._reported :]
        self._reported += len(new)
        return _without_warnings(new)

    def error(self) -> str:
        """Returns what the command has said about its failure."""
        return _cause("".join(self.errors))

    def check(self, folder: pathlib.Path, allowed: tuple[int, ...] = (0, INTERRUPTED)) -> None:
        """Raises the error of a command that has failed. The end by an interrupt or by stop() is not a failure."""
        if self._failure is not None:
            raise TroupeError(
                f"{folder}: the command has ended with status {self.status}, but what follows it has failed: "
                f"{self._failure!r}"
            ) from self._failure
        if self.status not in allowed:
            raise _error(self.status or 1, "".join(self.errors), folder)

    def _interrupt(self, *_: Any) -> None:
        self._interrupts += 1
        if self._interrupts == 1:
            self.stop()
        elif self._process:
            self.kill()
            raise KeyboardInterrupt

    def _read(self, stream: Any, lines: list[str]) -> None:
        for line in stream:
            with self._changed:
                lines.append(line)
                self._changed.notify_all()
        stream.close()

    def _reap(
        self,
        process: subprocess.Popen[str],
        readers: list[threading.Thread],
        guard: subprocess.Popen[bytes],
        ended: Callable[[int], None],
    ) -> None:
        status = 1
        try:
            status = _status(process.wait())
            _tell(guard, "ended\n")
            for reader in readers:
                reader.join()
            with contextlib.suppress(BrokenPipeError):
                guard.communicate()
            ended(status)
        except BaseException as failure:  # which check() raises where it is seen
            self._failure = failure
        finally:
            with self._changed:
                self.status = status
                _live.discard(self)
                self._changed.notify_all()

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[subprocess.Popen[bytes]]:
        """Starts the guard, and ends it if the command cannot be started."""
        guard = self._guard = subprocess.Popen(
            [sys.executable or "python3", "-I", "-S", _guard.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            bufsize=0,  # no buffer that a fork could copy
            start_new_session=True,
        )
        _live.add(self)
        try:
            yield guard
        except BaseException:
            _live.discard(self)
            guard.communicate(b"ended\n")
            raise


_live: set[Job] = set()


def _forget() -> None:
    """Leaves the runs to the process that has started them, in a child that it has forked."""
    for job in _live:
        job.release()
    _live.clear()


os.register_at_fork(after_in_child=_forget)


@atexit.register
def _stop_all() -> None:
    """Ends what still runs when the interpreter exits: in good order within a minute, else at once."""
    jobs = list(_live)
    for job in jobs:
        job.stop()
    for job in jobs:
        try:
            ended = job.join(_guard.PATIENCE_SECONDS)
        except KeyboardInterrupt:
            ended = False
        if not ended:
            job.kill()
            job.join()


def _stop_interrupted() -> None:
    """Ends what still runs after an interrupt has ended the main thread.

    Python calls _stop_all() only after it has waited for the other threads, which may wait for a run. Without an
    interrupt, they may do so.
    """
    if getattr(sys, "last_type", None) is KeyboardInterrupt:
        _stop_all()


@functools.cache
def _register() -> None:
    """Registers _stop_interrupted() to be called before Python waits for its threads, those of executors included."""
    import concurrent.futures.thread  # noqa: F401 (which does the same; what is registered last is called first)

    register = getattr(threading, "_register_atexit", None)
    if register:
        with contextlib.suppress(RuntimeError):  # Python is exiting
            register(_stop_interrupted)


def output(words: list[str], warns: bool = True) -> str:
    """Returns what a command prints that ends by itself. Its warnings become warnings, unless warns=False.

    Raises TopologyError if the command refuses its input, and RunError if it fails in another way.
    """
    child = _child(words)
    with _starting(child):
        done: subprocess.CompletedProcess[str] = subprocess.run(**child, check=False)
    status = _status(done.returncode)
    if status:
        raise _error(status, done.stderr, None)
    if warns:
        _without_warnings(done.stderr.splitlines())
    return done.stdout


def _child(words: list[str]) -> dict[str, Any]:
    """Returns what subprocess needs to start the command with these arguments. Nothing is given to its input."""
    return {
        "args": [str(binary()), *words],
        "env": environment(),
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "encoding": "utf-8",
        "errors": "replace",
    }


@contextlib.contextmanager
def _starting(child: dict[str, Any]) -> Iterator[None]:
    """Turns an error of the system that refuses to start a process into a TroupeError."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise TroupeError(f"{child['args'][0]}: it cannot be started: {error}") from error


def _tell(guard: subprocess.Popen[bytes], text: str) -> None:
    assert guard.stdin is not None
    with contextlib.suppress(BrokenPipeError, ValueError):  # it has ended, with the command
        guard.stdin.write(text.encode())


def _status(returncode: int) -> int:
    """Returns the status as a shell has it: 128 and the number of the signal that has ended the command."""
    return returncode if returncode >= 0 else 128 - returncode


def _error(status: int, errors: str, folder: pathlib.Path | None) -> TroupeError:
    """Returns the error for a command that has ended with this status and this standard error."""
    refused = status == 2 and re.search("^error: ", errors, re.MULTILINE)
    return TopologyError(_cause(errors)) if refused else RunError(status, _cause(errors), folder)


def _cause(errors: str) -> str:
    """Returns what the command says about its failure in its standard error, with what a user of Python needs."""
    text = re.split("^error: ", errors, flags=re.MULTILINE)[-1].strip()
    text = re.sub(r"^--set #\d+: ", "", text, flags=re.MULTILINE)
    if "got Long and Float" in text:
        return f"{text}; integers are taken as tokens: if they are numbers, pass x.float()"
    if re.search(r"it returns \[\d+\], but the loss cross_entropy", text):
        return f'{text}; for two classes, set={{"model.loss": "binary_cross_entropy"}}; for numbers, y.float()'
    names = {"--overwrite": "overwrite=True", "--out": "out=", "--resume": "resume="}
    found = [f"{option} is {name}" for option, name in names.items() if option in text]
    return f"{text}\n  in Python, {', '.join(found)}" if found else text


def _without_warnings(lines: list[str]) -> list[str]:
    """Warns of the lines that are warnings, and returns the others."""
    for line in lines:
        if line.startswith("warning: "):
            warn(line[len("warning: ") :].strip())
    return [line for line in lines if not line.startswith("warning: ")]


def say(text: str, quiet: bool) -> None:
    """Prints a message to the standard error."""
    if not quiet:
        print(text, file=sys.stderr)


def warn(text: str) -> None:
    """Warns about the line that has called this package."""
    frame, level = sys._getframe(), 1
    while frame.f_back and frame.f_globals.get("__package__") == __package__:
        frame, level = frame.f_back, level + 1
    warnings.warn(text, stacklevel=level)


class Progress:
    """One line that changes: in a notebook or a terminal. Elsewhere, nothing is shown."""

    def __init__(self, quiet: bool) -> None:
        shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
        self._notebook = not quiet and hasattr(shell, "kernel")
        self._terminal = not quiet and not self._notebook and sys.stderr is not None and sys.stderr.isatty()
        self._handle: Any = None

    def show(self, text: str) -> None:
        if self._terminal:
            print(f"\r\x1b[K{text[:100]}", end="", file=sys.stderr, flush=True)
        elif self._notebook:
            content = {"text/plain": text}
            if self._handle is None:
                self._handle = sys.modules["IPython"].display.display(content, raw=True, display_id=True)
            else:
                self._handle.update(content, raw=True)

    def close(self) -> None:
        if self._terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
