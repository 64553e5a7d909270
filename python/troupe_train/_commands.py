"""The functions of the package. Each one runs a command of Troupe."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ._inputs import Inputs, Training, claim
from ._process import (
    INTERRUPTED,
    Job,
    PathLike,
    Progress,
    TroupeError,
    flattened,
    folder_of,
    lists,
    options,
    output,
    say,
    settings,
    toml,
    topology,
    variations,
    warn,
)
from ._results import Comparison, Drawing, Plan, Run, Tuning


def run(
    file_or_name: PathLike | None = None,
    model: Any = None,
    data: Any = None,
    validation: Any = None,
    set: Mapping[str, Any] = {},
    out: PathLike | None = None,
    resume: PathLike | None = None,
    quiet: bool = False,
    **flags: Any,
) -> Run:
    """Trains, and returns when the run has ended.

    file_or_name  a path that ends in .toml, or the name of a topology of the package, such as "dpsgd_ring".
    model         a torch.nn.Module on the CPU with float32 parameters. It takes a batch of inputs, [N, …], and returns
                  scores [N, classes], or [N, T, classes] for tokens, or one number per sample, [N]. Training starts
                  from its weights, and does not change it: run.load_into(model) loads the result. Or the path of a .pt2
                  file, or an ExportedProgram. Without it, the topology names the model.
    data          (x, y): tensors or arrays with N samples each. x is float32, float16 or bfloat16 [N, …], which the
                  module gets as float32, uint8 images [N, C, H, W], which are divided by 255, or integer tokens [N, T].
                  y is integer or bool classes [N] from 0, float32 numbers [N], or tokens [N, T]. Or a Dataset with
                  __getitem__ and __len__ of such pairs, each of which is read once. Without it, the topology names the
                  data.
    validation    the same for the samples that are evaluated, or a number such as 0.2, the share of data to hold out.
    set           keys of the topology and their values: {"workers.count": 8, "link": {"at": "*", "latency": "1ms"}}.
                  A dict in it sets the keys in it, and leaves the other keys of the section as they are.
    out           the results folder, new or empty; runs/NAME-UTC-TIME in the current folder if it is not given.
    resume        the results folder of a run to continue, with its model and data.
    quiet         prints nothing: no progress, and no messages. Warnings are still warnings.
    flags         options of `troupe run`: csv="x.csv", dashboard=True, record=True, trace=True, overwrite=True, …

    model and data are written into the folder python_inputs of the results folder, and topology.toml names them there.
    The run can be continued and evaluated as long as the folder stays in its place.

    An interrupt (Ctrl-C, or that of a notebook) ends the run in good order and returns what there is, with status 130;
    a second one ends it at once. While the module is exported, it raises KeyboardInterrupt, and nothing is left. It
    reaches a run in the main thread only: elsewhere, use start(), and end the run with stop().

    Raises TroupeError for what cannot be trained, TopologyError if the command refuses the topology or a setting, and
    RunError if the run fails.
    """
    return start(file_or_name, model, data, validation, set, out, resume, quiet, **flags)._wait_for_caller()


def start(
    file_or_name: PathLike | None = None,
    model: Any = None,
    data: Any = None,
    validation: Any = None,
    set: Mapping[str, Any] = {},
    out: PathLike | None = None,
    resume: PathLike | None = None,
    quiet: bool = False,
    **flags: Any,
) -> Run:
    """Starts a run and returns at once. The arguments are those of run().

    Iterate over the run to get its records as they come, or call its stop() or wait(). If Python ends, so does the run,
    in good order. Raises TroupeError for what cannot be trained; wait() and iteration raise TopologyError and RunError.
    """
    words = options(run, flags)
    if resume is not None:
        inputs = _resumed(resume, model, data, validation, out)
        named = [topology(file_or_name)] if file_or_name is not None else []
        command = ["run", *named, "--resume", str(inputs.folder), "--json", *settings(flattened(set)), *words]
        return Run(inputs.folder, Job(command, inputs.ended), quiet, own_data=False)
    if file_or_name is None:
        raise TroupeError("there is nothing to run; expected a topology file or name, or resume= with a results folder")
    return _start("run", Training.of(file_or_name, set, model, data, validation), out, quiet, words)


def simulate(
    file_or_name: PathLike,
    model: Any = None,
    data: Any = None,
    validation: Any = None,
    set: Mapping[str, Any] = {},
    out: PathLike | None = None,
    quiet: bool = False,
    **flags: Any,
) -> Run:
    """Runs a topology in virtual time, on the network and machines that its [[link]] and [simulate] sections describe.

    The arguments are those of run(), and the options those of `troupe simulate`: seed=, compute="none", against=,
    events=, trace=True, … Seconds in the results are virtual. Raises what run() raises.
    """
    words = options(simulate, flags)
    started = _start("simulate", Training.of(file_or_name, set, model, data, validation), out, quiet, words)
    return started._wait_for_caller()


def compare(
    files_or_names: PathLike | Iterable[PathLike] = (),
    vary: Mapping[str, Sequence[Any]] = {},
    simulate: bool = False,
    set: Mapping[str, Any] = {},
    repeat: int = 1,
    target: float | None = None,
    model: Any = None,
    data: Any = None,
    validation: Any = None,
    out: PathLike | None = None,
    resume: PathLike | None = None,
    quiet: bool = False,
    **flags: Any,
) -> Comparison:
    """Runs topologies in turns, each with each combination of the values in vary, and returns how they differ.

    files_or_names  paths, names, or one of them; a folder stands for the .toml files in it.
    vary            keys and lists of values: {"link.bandwidth": ["10Mbit/s", "1Gbit/s"]}.
    simulate        runs in virtual time, as simulate() does.
    repeat, target  number of runs of each variant, each with the next seed; validation accuracy, from 0 to 1, to which
                    time and bytes are measured.

    The other arguments are those of run(); resume= continues a comparison. An interrupt ends the run in progress and
    returns the finished ones. A failed run does not end the others: it is a warning, and status is 1.

    Raises TroupeError for what cannot be trained, TopologyError if the command refuses a topology or a setting, and
    RunError if the comparison as a whole fails.
    """
    values = lists(vary)
    words = options(compare, flags) + settings(flattened(set))
    if not isinstance(files_or_names, str | os.PathLike | Iterable):
        raise TroupeError(f"files_or_names is {files_or_names!r}; expected topology files or names")
    names = [files_or_names] if isinstance(files_or_names, str | os.PathLike) else files_or_names
    files = [topology(name, folders=True) for name in names]
    words += [*files, *variations(values)]
    if simulate:
        words.append("--simulate")
    if repeat != 1:
        words += ["--repeat", str(repeat)]
    if target is not None:
        words += ["--target", str(target)]
    # The command names a value as it was given to it.
    varied = {key: {toml(value): value for value in each} for key, each in values.items()}
    if resume is not None:
        inputs = _resumed(resume, model, data, validation, out)
        job = Job(["compare", *words, "--resume", str(inputs.folder), "--json"], inputs.ended)
    else:
        if not files:
            raise TroupeError("there is nothing to compare; expected topology files or names")
        training = Training(files[0], flattened(set), model, data, validation)
        inputs = claim(out, "compare")
        job = _job("compare", words, inputs, training)
    with job.ends_with_caller(), job.interrupts():
        progress = Progress(quiet)
        for _ in job.follow():
            for line in job.news():
                progress.show(line.strip())
        progress.close()
    text = "".join(job.lines)
    job.check(inputs.folder, (0, 1, INTERRUPTED) if text else (0, INTERRUPTED))
    if job.status == 1:  # some of the runs have failed
        warn(job.error())
    if job.status == INTERRUPTED:
        folder = str(inputs.folder)
        if (inputs.folder / "comparison.json").is_file():
            say(f"interrupted; finished runs in {folder}; to go on: troupe_train.compare(resume={folder!r})", quiet)
        else:
            say(f"{folder}: interrupted before the comparison began; there are no results", quiet)
    return Comparison(inputs.folder, job.status or 0, json.loads(text or "{}"), varied)


def tune(
    file_or_name: PathLike | None = None,
    link: str | None = None,
    links: PathLike | None = None,
    probe: str | None = None,
    target: float | None = None,
    vary: Mapping[str, Sequence[Any]] = {},
    budget: str = "2min",
    set: Mapping[str, Any] = {},
    model: Any = None,
    data: Any = None,
    validation: Any = None,
    out: PathLike | None = None,
    resume: PathLike | None = None,
    quiet: bool = False,
    **flags: Any,
) -> Tuning:
    """Finds the exchange that trains a model soonest on a network, by simulation on this machine.

    link          the bandwidth of each node or worker, and optionally the latency: "50Mbit/s,20ms".
    links         in place of link, a topology file with [[link]] sections.
    probe         in place of link, where `troupe tune --listen` answers: the network to that machine is measured.
    target        the validation accuracy, from 0 to 1, that is to be reached soonest; without it, the best is sought.
    vary          keys and lists of values to try in place of the usual exchanges: {"exchange.every": [4, 16]}.
    budget        the time for the search, such as "90s".

    The other arguments are those of run(); resume= continues a search. An interrupt ends it and returns what is known.

    Raises TroupeError for what cannot be trained, TopologyError if the command refuses a topology or a setting, and
    RunError if the search fails.
    """
    words = options(tune, flags) + settings(flattened(set)) + variations(lists(vary))
    if resume is not None:
        inputs = _resumed(resume, model, data, validation, out)
        job = Job(["tune", *words, "--resume", str(inputs.folder), "--json"], inputs.ended)
    elif file_or_name is None:
        raise TroupeError("there is nothing to tune; expected a topology file or name, or resume= with a folder")
    else:
        training = Training.of(file_or_name, set, model, data, validation)
        words += [training.file, "--budget", budget]
        for option, value in (("--link", link), ("--links", links), ("--probe", probe), ("--target", target)):
            if value is not None:
                words += [option, str(value)]
        inputs = claim(out, "tune")
        job = _job("tune", words, inputs, training)
    with job.ends_with_caller(), job.interrupts():
        progress = Progress(quiet)
        for _ in job.follow():
            for line in job.news():
                progress.show(line.strip())
        progress.close()
    text = "".join(job.lines)
    job.check(inputs.folder, (0, INTERRUPTED))
    if job.status == INTERRUPTED:
        folder = str(inputs.folder)
        say(f"interrupted; to go on: troupe_train.tune(resume={folder!r})", quiet)
    return Tuning(inputs.folder, job.status or 0, json.loads(text or "{}"))


def check(
    file_or_name: PathLike,
    model: Any = None,
    data: Any = None,
    validation: Any = None,
    set: Mapping[str, Any] = {},
    **flags: Any,
) -> Plan:
    """Returns the plan of a run without starting it. Options: no_data=True; operators=True, for those of the model.

    Raises TroupeError for what cannot be trained, TopologyError if the command refuses the topology or a setting, and
    RunError if the command fails in another way.
    """
    words = options(check, flags)
    with _arguments(Training.of(file_or_name, set, model, data, validation)) as (_, arguments):
        words = ["check", *arguments, *words]
        plan = Plan(output(words))
        plan.plan = {} if "--operators" in words else json.loads(output([*words, "--json"], warns=False))
    return plan


def graph(
    file_or_name: PathLike,
    model: Any = None,
    data: Any = None,
    validation: Any = None,
    set: Mapping[str, Any] = {},
    **flags: Any,
) -> Drawing:
    """Returns a drawing of the wiring. wiring_only=True leaves out the title and the actors that do not compute.

    Raises what check() raises.
    """
    return _drawing(graph, Training.of(file_or_name, set, model, data, validation), flags)


def timeline(
    file_or_name: PathLike,
    model: Any = None,
    data: Any = None,
    validation: Any = None,
    set: Mapping[str, Any] = {},
    **flags: Any,
) -> Drawing:
    """Returns a drawing of steps in virtual time: which worker computes, waits and sends.

    Options: steps=4, workers=[0, 1]. Raises what check() raises.
    """
    return _drawing(timeline, Training.of(file_or_name, set, model, data, validation), flags)


def _start(command: str, training: Training, out: PathLike | None, quiet: bool, words: list[str]) -> Run:
    words = [training.file, *settings(training.set), *words]
    inputs = claim(out, pathlib.Path(training.file).stem)
    job = _job(command, words, inputs, training)
    return Run(inputs.folder, job, quiet, own_data=training.data is not None and training.validation is None)


def _resumed(resume: PathLike, model: Any, data: Any, validation: Any, out: Any) -> Inputs:
    """Returns the folder to continue in. Raises TroupeError for arguments that this folder has already."""
    if any(each is not None for each in (model, data, validation, out)):
        raise TroupeError(
            "resume= continues with the model, data and folder of before; leave out model=, data=, validation= and out="
        )
    return Inputs(folder_of(resume, "resume"), made=False)


def _job(command: str, words: list[str], inputs: Inputs, training: Training) -> Job:
    """Writes the inputs and starts the command. Removes what it has written if that fails."""
    more = inputs.write(training)
    words = [command, *words, *more, "--out", str(inputs.folder), "--json"]
    try:
        return Job(words + [word for word in inputs.options if word not in words], inputs.ended)
    except BaseException:
        inputs.remove()
        raise


@contextlib.contextmanager
def _arguments(training: Training) -> Iterator[tuple[pathlib.Path, list[str]]]:
    """Gives a folder, and the words of a command that needs model and data only while it runs."""
    try:
        place = tempfile.TemporaryDirectory(prefix="troupe-")
    except OSError as error:
        raise TroupeError(f"a temporary folder cannot be made: {error}") from None
    with place as name:
        folder = pathlib.Path(name)
        yield folder, [training.file, *settings(training.set), *Inputs(folder, made=False).write(training)]


def _drawing(function: Callable[..., Any], training: Training, flags: Mapping[str, Any]) -> Drawing:
    words = options(function, flags)
    with _arguments(training) as (folder, arguments):
        path = folder / "drawing.svg"
        output([function.__name__, *arguments, *words, "--output", str(path)])
        return Drawing(path.read_text(encoding="utf-8"))
