"""Carry out planned runs: in this process, in a pool of processes, or on a Dask cluster."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import re
import sys
from collections.abc import Callable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from sab.experiments import records, tables
from sab.experiments.config import RunConfig, did_you_mean, field_names, set_field
from sab.experiments.files import check_writable, locked, results_dir, runs_dir
from sab.experiments.records import Record
from sab.experiments.rows import expand
from sab.experiments.train import pick_device, train
from sab.experiments.transfer import SHORT, transfer
from sab.experiments.weights import CHECKPOINT, clear, load_checkpoint
from sab.tasks import registry as tasks

# Milliseconds a step of a sequence takes at batch 64 and 128 units on one thread, for a first
# estimate; measured # records replace it. The second number grows with the sequence (scoring every
# memory).
STEP_MS = {
    "lstm": (0.45, 0.0),
    "sab": (0.95, 0.001),
    "attentive_lstm": (2.0, 0.03),
    "transformer": (0.5, 0.002),
    "seq2seq": (9.0, 0.0),
    "memory_reader": (0.7, 0.002),
}


@dataclass(frozen=True)
class Options:
    """How runs are carried out, apart from what they are."""

    results: Path
    runs: Path
    device: str = "auto"
    progress: str = "auto"
    fresh: bool = False

    @classmethod
    def of(cls, results: str | None, runs: str | None, **rest: Any) -> Options:
        """Fill in the default folders."""
        return cls(Path(results or results_dir()), Path(runs or runs_dir()), **rest)


def plan(
    experiment: str,
    profile: str = "cpu",
    rows: list[str] | None = None,
    seeds: list[int] | None = None,
    changes: dict[str, Any] | None = None,
    text: str | None = None,
) -> list[RunConfig]:
    """Return the runs of an experiment, with ``changes`` (field → value) applied.

    ``text``: the file that language models read instead of their corpus.

    A changed run gets the change in its row's name, so that it never stands where the table's own
    record belongs. Rows without the field are left out.

    Raises:
        ValueError: a name or value is not allowed, or no row has a changed field.
    """
    runs = expand(tables.find(experiment), profile, rows, seeds)
    if text is not None:
        runs = [read_instead(run, text) for run in runs]
    for path, value in (changes or {}).items():
        changed = []
        for run in runs:
            try:
                new = set_field(run, path, value)
            except KeyError:
                continue
            text = str(value).replace(" ", "").replace("(", "").replace(")", "").replace(",", "_")
            changed.append(replace(new, row=f"{run.row}+{path}={text}"))
        if runs and not changed:
            names = sorted({name for run in runs for name in field_names(run)})
            hint = did_you_mean(path.rpartition(".")[2], names) or f"; there are {', '.join(names)}"
            raise ValueError(f"{path}={value!r}: no such field{hint}")
        runs = changed
    return runs


def read_instead(run: RunConfig, text: str) -> RunConfig:
    """Return ``run`` with the file ``text`` for its corpus, and that in its row's name.

    Raises:
        ValueError: the run is no language model, or the file cannot be used.
    """
    if run.task != "charlm":
        raise ValueError(f"text={text!r}: {run.experiment} reads no text; take sab run text")
    path = Path(text).expanduser().resolve()
    stem = re.sub(r"[^A-Za-z0-9_.-]+", "-", path.stem) or "file"
    task = {**run.task_config, "corpus": "file", "path": str(path)}
    return replace(run, row=f"{run.row}+text={stem}", task_config=task)


def missing(runs: list[RunConfig], results: Path) -> list[RunConfig]:
    """Return the runs that have no record yet.

    Raises:
        RecordError: a record is there but cannot be used.
    """
    todo = []
    for run in runs:
        path = records.path_of(run.experiment, run.name, results)
        if path.exists():
            records.read(path)
        else:
            todo.append(run)
    return todo


def estimate(run: RunConfig, results: Path) -> float:
    """Minutes a run takes on one thread: from a record of its row, else a rule of thumb."""
    for record in records.load(run.experiment, run.row, run.profile, results):
        each = record.metrics.get("seconds_per_update")
        if each is not None:
            return each * run.train.updates / 60
    flat, growing = STEP_MS.get(run.model, STEP_MS["sab"])
    units = run.resolved()["model_config"].get("hidden_size", 128)
    grown = max(units / 128, 1.0) ** 1.5  # large products are the better ones

    def minutes(steps: int, sequences: int) -> float:
        return grown * steps * (flat + growing * steps) * sequences / 64 / 60_000

    if run.transfer is not None:  # a forward pass is about a third of an update
        test = run.transfer
        counts = [test.sequences if T <= SHORT else test.sequences_beyond for T in test.lengths]
        return sum(minutes(T, count) for T, count in zip(test.lengths, counts, strict=True)) / 3
    steps = tasks.build(run.task, run.task_config).steps
    return minutes(steps, run.train.batch_size) * run.train.updates


def execute(run: RunConfig, options: Options) -> Record:
    """Carry out one run in this process, write its record and return it.

    Raises:
        ValueError, OSError: with a message that names the run's trouble and its cure.
    """
    folder = options.runs / run.experiment / run.name
    check_writable(options.results / run.experiment)
    with locked(folder):
        if options.fresh:
            clear(folder)
        if run.transfer is not None:
            record = transfer(run, options.runs, options.results, options.device, options.progress)
        else:
            record = train(run, folder, device=options.device, progress=options.progress)
        records.write(record, options.results)
        (folder / CHECKPOINT).unlink(missing_ok=True)
    return record


def check_before(runs: list[RunConfig], options: Options) -> None:
    """See, before anything is trained, that folders, checkpoints, data and the device can be used.

    What is missing of a data set is fetched here, once.

    Raises:
        ValueError, OSError: with a message that says what and how to mend it.
    """
    device = pick_device(options.device)
    for folder in (options.results, options.runs):
        check_writable(folder)
    for run in runs:
        task: Any = tasks.build(run.task, run.task_config)
        if hasattr(task, "prepare"):
            task.prepare()
        if not options.fresh:
            load_checkpoint(options.runs / run.experiment / run.name, run, device)


def single_thread() -> None:
    """Use one thread in this process.

    Two runs on two cores beat one run on two threads, and sums keep their order.
    """
    torch.set_num_threads(1)


@contextmanager
def one_thread_children() -> Iterator[None]:
    """Let processes that start meanwhile use one thread; libraries read this when they load."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})


def run_all(
    runs: list[RunConfig],
    options: Options,
    workers: int | None = None,
    executor: str = "local",
    scheduler: str | None = None,
    done: Callable[[Record], None] = lambda record: None,
) -> list[str]:
    """Carry out ``runs`` and return the errors; a run that fails does not stop the others.

    Args:
        runs: what to run.
        options: folders, device, progress.
        workers: processes; default one a core, or one in all on a GPU.
        executor: ``"local"`` or ``"dask"``.
        scheduler: address of a Dask scheduler; ``None`` starts a local cluster.
        done: called with each record.

    Raises:
        ValueError, OSError: found before the first run starts.
    """
    check_before(runs, options)
    if executor == "dask":
        from sab.experiments.cluster import run_on_dask

        return run_on_dask(runs, options, workers, scheduler, done)
    default = (os.cpu_count() or 1) if pick_device(options.device).type == "cpu" else 1
    workers = min(workers or default, max(len(runs), 1))
    errors: list[str] = []
    if workers == 1:
        threads = torch.get_num_threads()
        single_thread()
        try:
            for run in runs:
                collect(run, partial(execute, run, options), done, errors)
        finally:
            torch.set_num_threads(threads)
        return errors
    if options.progress in ("auto", "bar"):  # bars of several processes overwrite each other
        options = replace(options, progress="lines")
    context = multiprocessing.get_context("spawn")
    others = set(multiprocessing.active_children())
    # a process a run, so that its peak of memory is its own; smoke runs end before one has started
    share = None if all(run.profile == "smoke" for run in runs) else 1
    with (
        one_thread_children(),
        concurrent.futures.ProcessPoolExecutor(
            workers, mp_context=context, initializer=single_thread, max_tasks_per_child=share
        ) as pool,
    ):
        try:
            futures = {pool.submit(execute, run, options): run for run in runs}
            for future in concurrent.futures.as_completed(futures):
                collect(futures[future], future.result, done, errors)
        except KeyboardInterrupt:  # their checkpoints are safe at any moment
            pool.shutdown(wait=False, cancel_futures=True)
            for child in set(multiprocessing.active_children()) - others:
                child.terminate()
                while child.is_alive():  # the pool's own thread joins it too
                    child.join(0.1)
            raise
    return errors


def collect(
    run: RunConfig, result: Callable[[], Record], done: Callable[[Record], None], errors: list[str]
) -> None:
    """Hand a run's record to ``done``, or add what went wrong to ``errors``."""
    try:
        done(result())
    except (ValueError, OSError) as error:
        errors.append(f"{run.experiment} {run.name}: {error}")
    except torch.OutOfMemoryError:
        errors.append(f"{run.experiment} {run.name}: too large for the device; lower batch_size")
    except BrokenProcessPool:
        errors.append(
            f"{run.experiment} {run.name}: its process was killed (memory?); give the same command "
            "again: it goes on from the last checkpoint"
        )


def report(record: Record) -> None:
    """Say on stderr that a run has ended."""
    shown = [name for name in record.metrics if name in ("bpc", "accuracy", "mse", "ce10")]
    shown = shown or [name for name in record.metrics if name.startswith("accuracy_T")]
    parts = [f"{name} {record.metrics[name]:.4g}" for name in shown]
    text = f"{record.experiment} {record.name}: {record.status}, {', '.join(parts)}"
    print(f"{text}, {record.seconds / 60:.1f} min", file=sys.stderr, flush=True)
