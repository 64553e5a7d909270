"""What the functions of the package return, and how a notebook shows it: runs, comparisons, plans and drawings.

They read the results folder of a run or a comparison, and follow a run that still trains through the records that it
prints, or through its dashboard.
"""

from __future__ import annotations

import contextlib
import csv
import html
import http.client
import importlib.util
import json
import pathlib
import re
from collections.abc import Iterator
from typing import Any

from ._process import INTERRUPTED, Job, PathLike, Progress, TroupeError, folder_of, say, warn

# The dashboard sends something every 15 seconds, even if nothing has changed.
PATIENCE_SECONDS = 40
LARGEST = 8 << 20  # bytes of a state


class Results:
    """The results folder of a run: Results("runs/first") reads one that has ended, or still trains elsewhere.

    Raises TroupeError if the folder is not that of a run.
    """

    folder: pathlib.Path

    def __init__(self, folder: PathLike) -> None:
        self.folder = folder_of(folder, "folder")
        if not (self.folder / ".troupe-run").is_file():
            raise TroupeError(f"{self.folder}: this is not the results folder of a run; it contains no .troupe-run")

    @property
    def records(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl as dicts, those of the time before a resume included."""
        return read_records(present(self.folder) / "metrics.jsonl")

    @property
    def metrics(self) -> Any:
        """The records as a pandas DataFrame, or as a list of dicts if pandas is not installed.

        The columns are those of docs/outputs.md: event, epoch, step, seconds, train_loss, val_accuracy, …; times are in
        seconds, accuracies from 0 to 1.
        """
        return table(self.records)

    @property
    def epochs(self) -> Any:
        """One row for each epoch, as in epochs.csv, as a DataFrame or a list of dicts."""
        return table(read_csv(present(self.folder) / "epochs.csv"))

    def state_dict(self, best: bool = False) -> dict[str, Any]:
        """Returns the weights of the run as CPU tensors by the names of the module's state_dict.

        They are new tensors, read from the folder at each call, with the dtypes of the module: float32 parameters, and
        buffers of any type. best=True returns those with the best evaluation instead of the last ones. Raises
        TroupeError if the run has written none yet, or if the file cannot be read.
        """
        path = present(self.folder) / ("model_best.safetensors" if best else "model.safetensors")
        if not path.is_file():
            raise TroupeError(f"{path}: no such file; the run has not written its weights")
        from ._export import read_weights

        return read_weights(path)

    def load_into(self, module: Any, best: bool = False) -> Any:
        """Copies the weights into a torch module of the same names and shapes, and returns the module.

        The module keeps its dtypes and devices, to which the values are converted. best=True takes the weights with the
        best evaluation. Raises TroupeError if there are none, or if names or shapes differ; the module is then
        unchanged.
        """
        weights = self.state_dict(best)
        from ._export import load_weights

        load_weights(module, weights)
        return module

    def report(self) -> Report:
        """Returns report.html, which a notebook shows and whose str() is its path.

        Raises TroupeError if the run has not ended, because the report is written at the end.
        """
        return Report(present(self.folder) / "report.html")

    def _summary(self) -> dict[str, Any]:
        records = self.records if self.folder.is_dir() else []
        last = records[-1] if records else {}
        figures = ("epoch", "step", "train_loss", "val_loss", "val_accuracy", "seconds")
        return {name: last[name] for name in figures if last.get(name) is not None}

    def _state(self) -> str:
        """Returns how the run has ended. That of a run without an end is unknown: it may have been killed."""
        if not self.folder.is_dir():
            return "no results folder"
        records = self.records
        return str(records[-1].get("status") or "unfinished") if records else "no records"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.folder)!r}: {self._state()}{_figures(self._summary())})"

    def _repr_html_(self) -> str:
        return Rows([{"run": self.folder, "status": self._state(), **self._summary()}])._repr_html_()


class Run(Results):
    """A run that this process has started.

    Iteration gives its records, dicts as in metrics.jsonl, as they come, from the first one that it has written itself;
    it raises what wait() raises when the run ends. An interrupt (Ctrl-C, or that of a notebook) while Python waits for
    the run stops it in good order; a second one ends it at once.
    """

    def __init__(self, folder: pathlib.Path, job: Job, quiet: bool, own_data: bool) -> None:
        self.folder = folder
        self._job = job
        self._quiet = quiet
        self._own_data = own_data
        self._told = False

    def __reduce__(self) -> tuple[type[Results], tuple[pathlib.Path]]:
        """Pickles as the Results of its folder: another process cannot wait for the run."""
        return Results, (self.folder,)

    @property
    def status(self) -> int | None:
        """The exit status: None while the run trains, 0 after its end, 130 after an interrupt or stop()."""
        return self._job.status

    @property
    def dashboard(self) -> str | None:
        """The URL of the dashboard, once the run has printed it; None without dashboard=."""
        found = [line.split()[1] for line in self._job.errors if line.startswith("dashboard: ")]
        return found[0] if found else None

    def stop(self) -> Run:
        """Ends the run in good order: it completes its step and writes its results. Returns at once; wait() waits."""
        self._job.stop()
        return self

    def __iter__(self) -> Iterator[dict[str, Any]]:
        lines = self._job.follow()
        while True:
            with self._job.interrupts():
                line = next(lines, "")
                self._notice()
            if line == "":
                break
            record = record_in(line)
            if record is not None:
                yield record
        self._check()

    def wait(self) -> Run:
        """Waits until the run ends, with a line of progress in a terminal or a notebook. Returns this object.

        Raises TopologyError if the command has refused its input, and RunError if the run has failed. If it was
        interrupted, status is 130, and the results so far are in the folder.
        """
        with self._job.interrupts():
            progress = Progress(self._quiet)
            for line in self._job.follow():
                self._notice()
                record = record_in(line)
                if record is not None and "step" in record:
                    progress.show(_line(record))
            progress.close()
        self._check()
        return self

    def _wait_for_caller(self) -> Run:
        """Waits for a run that its caller does not have yet, and ends it if an exception leaves wait()."""
        with self._job.ends_with_caller():
            return self.wait()

    def _notice(self) -> None:
        """Shows what the command says while it runs, such as warnings, and where its dashboard is."""
        for line in self._job.news():
            if line.startswith("dashboard: "):
                say(line.strip(), self._quiet)
        if self._own_data and self._job.lines:
            self._own_data = False
            file = self.folder / "topology.toml"
            held_out = file.is_file() and any(
                line.split("=")[0].strip() in ("validation", "test_file")
                for line in file.read_text(encoding="utf-8").splitlines()
            )
            if not held_out:
                warn(
                    "no validation data: val_loss and val_accuracy are those of the training samples; "
                    "pass validation=(x, y), or validation=0.2 to hold out a fifth of data"
                )

    def _check(self) -> None:
        self._job.check(self.folder)
        if self.status == INTERRUPTED and self._job.interrupted and not self._told:
            self._told = True
            if (self.folder / ".troupe-run").is_file():
                text = f"interrupted{_figures(self._summary())}; results in {self.folder}; {self._continue()}"
            else:
                text = f"{self.folder}: interrupted before the run began; there are no results"
            say(text, self._quiet)

    def _state(self) -> str:
        return "training" if self.status is None and self.folder.is_dir() and self.records else super()._state()

    def _continue(self) -> str:
        if any(self.folder.glob("checkpoints/*")):
            return f"to go on: troupe_train.run(resume={str(self.folder)!r})"
        return 'a run with set={"checkpoint.every": "100 steps"} can go on where it was interrupted'


def record_in(line: str | None) -> dict[str, Any] | None:
    """Returns the record in a line of the output, or None. A command that was killed can leave half a line."""
    if line is None or not line.startswith("{") or not line.endswith("\n"):
        return None
    record: dict[str, Any] = json.loads(line)
    return record


def _line(record: dict[str, Any]) -> str:
    speed = record.get("samples_per_second")
    text = f"epoch {record['epoch']}  step {record['step']}" + (f"  {speed:.0f} samples/s" if speed else "")
    for name, word in (("train_loss", "loss"), ("val_loss", "val loss"), ("val_accuracy", "val accuracy")):
        if record.get(name) is not None:
            text += f"  {word} {record[name]:.4f}"
    return f"{text}  {record['seconds'] or 0:.1f} s"


def _figures(figures: dict[str, Any]) -> str:
    return "".join(f", {name} {short(value)}" for name, value in figures.items())


class Comparison:
    """What `troupe compare` has found. table has one row for each variant, and runs one for each run."""

    def __init__(
        self, folder: pathlib.Path, status: int, found: dict[str, Any], varied: dict[str, dict[str, Any]]
    ) -> None:
        self.folder = folder
        self.status = status
        self.conclusion: str = found.get("conclusion", "")
        self._variants = found.get("variants", [])
        self._varied = varied

    @property
    def table(self) -> Any:
        """One row for each variant, as a DataFrame or a list of dicts, with medians over its repeats.

        The columns are topology, the keys of vary= with the values of each variant, and the figures that
        `troupe compare --json` has for a variant, such as seconds, bytes_sent and final_accuracy. Times are in seconds,
        virtual ones in a simulation; sizes are in bytes, and accuracies from 0 to 1. A figure that a variant does not
        have is None, or NaN in a DataFrame.
        """
        return table([self._row(each) for each in self._variants])

    @property
    def runs(self) -> Any:
        """The rows of compare.csv, one for each run, as a DataFrame or a list of dicts."""
        return table(read_csv(present(self.folder) / "compare.csv"))

    def results(self) -> list[Results]:
        """Returns the results folders of all runs, in the order of their paths."""
        return [Results(path.parent) for path in sorted(present(self.folder).glob("runs/*/*/.troupe-run"))]

    def report(self) -> Report:
        """Returns compare.html, which a notebook shows and whose str() is its path. Raises TroupeError without it."""
        return Report(present(self.folder) / "compare.html", height=900)

    def __repr__(self) -> str:
        return f"Comparison({str(self.folder)!r}: {self.conclusion})"

    def _repr_html_(self) -> str:
        shown: str = self.table._repr_html_()
        return shown

    def _row(self, variant: dict[str, Any]) -> dict[str, Any]:
        row = {"topology": pathlib.Path(variant["file"]).stem}
        for key, text in (variant.get("varied") or {}).items():
            row[key] = self._varied.get(key, {}).get(text, text)
        for name, value in variant.items():
            if name not in ("file", "label", "varied"):
                row[name] = value["median"] if isinstance(value, dict) else value
        return row


class Tuning:
    """What `troupe tune` has found. best is the path of a topology file, for run() with the same model and data."""

    def __init__(self, folder: pathlib.Path, status: int, found: dict[str, Any]) -> None:
        self.folder = folder
        self.status = status
        self.conclusion: str = found.get("conclusion", "")
        self.best = folder / "best.toml"

    @property
    def table(self) -> Any:
        """The rows of tune.csv as a DataFrame or a list of dicts: one for each training, or candidate that has none."""
        return table(read_csv(present(self.folder) / "tune.csv"))

    def report(self) -> Report:
        """Returns tune.html, which a notebook shows and whose str() is its path. Raises TroupeError without it."""
        return Report(present(self.folder) / "tune.html", height=900)

    def __repr__(self) -> str:
        return f"Tuning({str(self.folder)!r}: {self.conclusion})"


class Plan(str):
    """What `troupe check` prints. plan is the same as a dict, with the keys of `troupe check --json`.

    With operators=True, which has no JSON, plan is {}.
    """

    plan: dict[str, Any]

    def __repr__(self) -> str:
        return str(self)


class Report:
    """A page that a run or a comparison has written. str() is its path; a notebook shows the page."""

    def __init__(self, path: pathlib.Path, height: int = 700) -> None:
        if not path.is_file():
            raise TroupeError(f"{path}: no such file; it is written at the end")
        self.path = path
        self.height = height

    def __str__(self) -> str:
        return str(self.path)

    def __fspath__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        return f"Report({str(self.path)!r})"

    def _repr_html_(self) -> str:
        # Without allow-same-origin, the scripts of the page reach nothing of the notebook.
        page = html.escape(self.path.read_text(encoding="utf-8"), quote=True)
        return (
            f'<iframe sandbox="allow-scripts allow-downloads" srcdoc="{page}" '
            f'style="width: 100%; height: {self.height}px; border: 0"></iframe>'
        )


class Drawing:
    """A drawing of the command. svg is its text; a notebook shows it."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def save(self, path: str | pathlib.Path) -> None:
        """Writes the drawing to a file, which is replaced if it exists. Raises TroupeError if it cannot be written."""
        try:
            pathlib.Path(path).write_text(self.svg, encoding="utf-8")
        except OSError as error:
            raise TroupeError(f"{path}: {error.strerror}") from None

    def __repr__(self) -> str:
        return f"Drawing({len(self.svg)} characters of SVG; save(path) writes them)"

    def _repr_svg_(self) -> str:
        return self.svg[self.svg.index("<svg") :]


class Watch:
    """A run with a dashboard. Iteration gives its state, a dict as in /data.json, on each change, until it ends.

    status() and iteration raise TroupeError if there is no dashboard at the address, if it refuses the token, or if the
    connection ends before the run.
    """

    def __init__(self, address: str, token: str | None = None) -> None:
        found = re.fullmatch(r"(?:http://)?((\[[^\]@/?\s]+\]|[^@:/?\s]+):(\d{1,5}))/?(?:\?token=(\w+))?", str(address))
        if not found or int(found[3]) > 65535:
            raise TroupeError(f'the address is "{address}"; expected "HOST:PORT", or the URL that the run has printed')
        self.address = found[1]
        self._host, self._port = found[2].strip("[]"), int(found[3])
        self._token = token or found[4]

    def status(self) -> dict[str, Any]:
        """Returns the state now: status, step, steps, train_loss, workers, links, edges, …"""
        with self._get("/data.json") as answer, self._errors():
            return _state(answer.read(LARGEST + 1))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        over, reason = False, "it was closed"
        with self._get("/events.json") as answer:
            while True:
                try:
                    line = answer.readline(LARGEST + 1)
                except (OSError, http.client.HTTPException) as error:
                    line, reason = b"", str(error)
                if not line.endswith(b"\n") and len(line) <= LARGEST:
                    break
                if line.startswith(b"data:") or len(line) > LARGEST:
                    with self._errors():
                        state = _state(line, b"data:")
                    over = state["status"] not in ("waiting", "training")
                    yield state
        if not over:
            raise TroupeError(f"{self.address}: the connection has ended before the run ({reason})")

    def __repr__(self) -> str:
        return f"Watch({self.address!r})"

    @contextlib.contextmanager
    def _get(self, path: str) -> Iterator[http.client.HTTPResponse]:
        """Gives the answer of the dashboard. It follows no redirect and uses no proxy: both would get the token."""
        connection = http.client.HTTPConnection(self._host, self._port, timeout=PATIENCE_SECONDS)
        with contextlib.closing(connection):
            with self._errors():
                connection.request(
                    "GET", path, headers={"Authorization": f"Bearer {self._token}"} if self._token else {}
                )
                answer = connection.getresponse()
                if answer.status != 200:
                    said = " ".join(answer.read(500).decode(errors="replace").split())
                    raise TroupeError(f"{self.address}: the answer has status {answer.status}, not 200: {said}")
            yield answer

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise TroupeError(
                f"{self.address}: no dashboard answers ({error}); start the run with dashboard=True"
            ) from None
        except (http.client.HTTPException, ValueError, RecursionError) as error:
            raise TroupeError(
                f"{self.address}: this is not the dashboard of a run ({type(error).__name__}: {error})"
            ) from None


def watch(address: str, token: str | None = None) -> Watch:
    """Watches a run that was started with dashboard=True or --dashboard, here or on another host.

    address is HOST:PORT, or the URL that the run has printed, with its token. A dashboard that is served to other hosts
    has a token: pass the URL or token=.

    status() and iteration raise TroupeError if there is no dashboard at the address.
    """
    return Watch(address, token)


def _state(text: bytes, prefix: bytes = b"") -> dict[str, Any]:
    """Returns the state in an answer. Raises ValueError if it has none."""
    if len(text) > LARGEST:
        raise ValueError(f"more than {LARGEST >> 20} MiB")
    state = json.loads(text.removeprefix(prefix))
    if not isinstance(state, dict) or not isinstance(state.get("status"), str):
        raise ValueError("a state without a status")
    return state


def present(folder: pathlib.Path) -> pathlib.Path:
    """Returns a results folder. Raises TroupeError if it does not exist."""
    if not folder.is_dir():
        raise TroupeError(f"{folder}: no such folder; it has been removed, or the run ended before it began to train")
    return folder


class Rows(list[dict[str, Any]]):
    """A list of dicts that a notebook shows as a table; what takes the place of a DataFrame without pandas."""

    def _repr_html_(self) -> str:
        columns = list(dict.fromkeys(name for row in self for name in row))
        head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(short(row.get(name)))}</td>" for name in columns) + "</tr>"
            for row in self
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def table(rows: list[dict[str, Any]]) -> Any:
    """Returns a pandas DataFrame if pandas is installed, else a list of dicts. A missing value is NaN or None."""
    if importlib.util.find_spec("pandas") is None:
        return Rows(rows)
    import pandas

    return pandas.DataFrame(rows)


def read_records(path: pathlib.Path) -> list[dict[str, Any]]:
    """Reads a file of JSON lines that may still grow: a last line without its end is left out."""
    if not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    return [json.loads(line) for line in lines]


def read_csv(path: pathlib.Path) -> list[dict[str, Any]]:
    """Reads a CSV file of the command, with numbers as numbers and empty values as None."""
    if not path.is_file():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return [{name: _value(text) for name, text in row.items()} for row in csv.DictReader(file)]


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text or None


def short(value: Any) -> str:
    """Returns a value for a table, with five digits of a number that is not whole."""
    if value is None:
        return ""
    return f"{value:.5g}" if isinstance(value, float) else str(value)
