"""The results folder of a run, and the files in it that hold the model and the data that came from Python.

They are in the results folder, because topology.toml names them: a run can then be continued and evaluated as long as
its folder stays in its place, and removing the folder removes them. Folders are claimed by mkdir, which succeeds once,
so two runs that start at the same time never write into the same one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import os
import pathlib
import tempfile
from collections.abc import Mapping
from typing import Any

from ._process import (
    PathLike,
    TroupeError,
    absolute,
    binary,
    environment,
    flattened,
    folder_of,
    output,
    settings,
    topology,
    torch_folder,
)

NAME = "python_inputs"
FILES = ("net.pt2", "data.safetensors", "validation.safetensors")
MARKERS = (".troupe-run", "comparison.json")  # the command writes one of them when it begins


@dataclasses.dataclass(frozen=True)
class Training:
    """What is trained: a topology file, and what replaces its settings, its model and its data."""

    file: str
    set: dict[str, Any]
    model: Any
    data: Any
    validation: Any

    @classmethod
    def of(cls, file_or_name: PathLike, set: Mapping[str, Any], model: Any, data: Any, validation: Any) -> Training:
        return cls(topology(file_or_name), flattened(set), model, data, validation)

    @property
    def share(self) -> float | None:
        """The share of the data to hold out, or None if validation holds samples or is not given."""
        value = self.validation
        if getattr(value, "ndim", None) == 0:  # of NumPy or torch
            value = value.item()
        return value if isinstance(value, int | float) else None

    def check(self) -> None:
        """Raises TroupeError if two of its parts say different things."""
        if self.validation is not None and self.share is None and self.data is None:
            raise TroupeError("validation= holds samples, but data= is missing; pass both, or neither")
        for value, name, which, keys in (
            (self.model, "model", "a model", ("model.exported", "model.name", "model.script")),
            (self.data, "data", "the data", ("data.name", "data.file", "data.test_file")),
        ):
            both = [key for key in keys if key in self.set]
            if value is not None and both:
                raise TroupeError(f'{name}= and set={{"{both[0]}": …}} both choose {which}; leave one out')


class Inputs:
    """A results folder, and the place in it for model and data."""

    def __init__(self, folder: pathlib.Path, made: bool) -> None:
        self.folder = folder
        self._made = made
        self._place: pathlib.Path | None = None
        self._old: list[pathlib.Path] = []
        self.options: list[str] = []  # what the command needs to use a folder in which the inputs are

    def write(self, training: Training) -> list[str]:
        """Writes model and data, and returns the words that name them to the command. Removes all if it fails."""
        try:
            return settings(self._write(training))
        except BaseException:
            self.remove()
            raise

    def ended(self, status: int) -> None:
        """Removes the inputs of a run that has not begun, and those of an earlier run that this one has replaced."""
        if status == 2 or not any((self.folder / name).is_file() for name in MARKERS):
            self.remove()
        elif self._old:
            file = self.folder / "topology.toml"
            named = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
            for place in self._old:
                if str(self._place) in named and f"{place}{os.sep}" not in named:
                    _remove(place)

    def remove(self) -> None:
        """Removes what was written, and the folder if it was made for this run and is empty."""
        if self._place:
            _remove(self._place)
        if self._made:
            with contextlib.suppress(OSError):
                self.folder.rmdir()

    def _write(self, training: Training) -> dict[str, Any]:
        training.check()
        model, data, validation, share = training.model, training.data, training.validation, training.share
        more: dict[str, Any] = {} if share is None else {"data.validation": share}
        if isinstance(model, str | os.PathLike):
            path = absolute(model)
            if not path.is_file():
                raise TroupeError(f"model: {path}: no such file; expected a module, or a file of torch.export.save")
            more["model.exported"] = str(path)
            model = None
        if model is None and data is None:
            return more
        torch_folder()  # raises if torch is missing or of another version, before it is imported
        from . import _export

        place = self._make_place()  # before data are read: nobody else may take the folder meanwhile
        samples = _export.Samples(data, "data") if data is not None else None
        checked = _export.Samples(validation, "validation") if validation is not None and share is None else None
        if samples and checked and samples.inputs.shape[1:] != checked.inputs.shape[1:]:
            raise TroupeError(
                f"the inputs of validation have the shape {list(checked.inputs.shape)}, and those of data "
                f"{list(samples.inputs.shape)}; expected equal shapes but for the number of samples"
            )
        classes = None
        if model is not None:
            batch = samples.batch() if samples else _export.zeros(*_shape_in(training))
            scores = _export.write_module(model, batch, place / FILES[0])
            more["model.exported"] = str(place / FILES[0])
            classes = _export.classes_of(scores)
            for each in (samples, checked):
                if each and scores is not None and "model.loss" not in training.set:
                    each.fit(scores)
        if samples:
            samples.write(place / FILES[1], classes)
            more |= {"data.name": "tensors", "data.file": str(place / FILES[1])}
        if checked:
            checked.write(place / FILES[2], classes)
            more["data.test_file"] = str(place / FILES[2])
        return more

    def _make_place(self) -> pathlib.Path:
        """Makes the folder of the inputs. A folder that has nothing else in it is claimed with it."""
        try:
            self._old = list(self.folder.glob(f"{NAME}*"))
            place = self.folder / NAME
            try:
                place.mkdir()
            except FileExistsError:
                place = pathlib.Path(tempfile.mkdtemp(prefix=f"{NAME}_", dir=self.folder))
            self._place = place
            if list(self.folder.iterdir()) == [place]:
                self.options = ["--overwrite"]
        except OSError as error:
            raise TroupeError(f"{error.filename}: {error.strerror}; choose another folder with out=") from None
        return place


def claim(out: PathLike | None, stem: str) -> Inputs:
    """Returns the results folder `out`, made if it is new, or a new one, runs/STEM-UTC-TIME, as the command would."""
    binary()  # raises if there is no command, before anything is made
    environment()  # raises if there is no LibTorch for it
    try:
        if out is not None:
            folder = folder_of(out, "out")
            folder.parent.mkdir(parents=True, exist_ok=True)
            try:
                folder.mkdir()
            except FileExistsError:
                if not folder.is_dir():
                    raise TroupeError(f"{folder}: this is a file; choose a folder with out=") from None
                return Inputs(folder, made=False)
            return Inputs(folder, made=True)
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        pathlib.Path("runs").mkdir(exist_ok=True)
        for number in range(1, 1000):
            folder = pathlib.Path("runs", f"{stem}-{now}{f'-{number}' if number > 1 else ''}").absolute()
            with contextlib.suppress(FileExistsError):
                folder.mkdir()
                return Inputs(folder, made=True)
    except OSError as error:
        raise TroupeError(f"{error.filename}: {error.strerror}; choose another folder with out=") from None
    raise TroupeError(f"{folder}: there are too many runs of this second; choose a folder with out=")


def _remove(place: pathlib.Path) -> None:
    for name in FILES:
        with contextlib.suppress(OSError):
            (place / name).unlink()
    with contextlib.suppress(OSError):
        place.rmdir()


def _shape_in(training: Training) -> tuple[list[int], bool]:
    """Returns the shape of a sample of the topology's own data, and whether samples are tokens."""
    words = ["check", training.file, *settings(training.set), "--json"]
    plan = json.loads(output(words, warns=False))  # the run repeats them
    if plan["sample_kind"] == "sparse":
        raise TroupeError("model= cannot be trained on the sparse samples of this topology; pass data=(x, y)")
    return plan["sample_shape"], plan["sample_kind"] == "tokens"
