"""Runs on a Dask cluster whose machines need share no folder with this one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from sab.experiments import records
from sab.experiments.config import RunConfig
from sab.experiments.files import write_atomic
from sab.experiments.records import Record
from sab.experiments.run import Options, collect, execute, one_thread_children, single_thread
from sab.experiments.train import train
from sab.experiments.weights import clear

PATIENCE = "20s"  # to wait for a scheduler


def remote(plain: dict[str, Any], device: str) -> tuple[Record, dict[str, bytes]]:
    """Carry out one run on a worker; return its record and its weights by file name.

    The worker keeps the checkpoint in its temporary folder, so that a worker that dies and comes
    back goes on.
    """
    single_thread()
    run = RunConfig.from_dict(plain)
    home = Path(tempfile.gettempdir()) / "sab-runs" / run.experiment / run.name
    record = train(run, home, device=device, progress="none")
    weights = {path.name: path.read_bytes() for path in home.glob("*.npz")}
    clear(home)
    return record, weights


def fetch(future: Any, run: RunConfig, options: Options) -> Record:
    """Wait for a run and write here what it sent."""
    record, weights = future.result()
    folder = options.runs / run.experiment / run.name
    for name, data in weights.items():
        write_atomic(folder / name, lambda file, data=data: file.write(data))  # type: ignore[misc]
    records.write(record, options.results)
    return record


def run_on_dask(
    runs: list[RunConfig],
    options: Options,
    workers: int | None,
    scheduler: str | None,
    done: Callable[[Record], None],
) -> list[str]:
    """Carry out ``runs`` through the scheduler at that address, or on a cluster of local processes.

    Tests of saved models need the weights, which come back here: they run here, at the end.

    Returns:
        the errors, one line each.

    Raises:
        ValueError: Dask is not installed, or no scheduler answers.
    """
    try:
        from distributed import Client, LocalCluster, as_completed
    except ImportError:
        cure = "pip install 'sab[dask]'"
        raise ValueError(f"executor='dask': Dask is not installed; {cure}") from None
    errors: list[str] = []
    cluster = None
    if scheduler is None:
        count = workers or os.cpu_count()
        with one_thread_children():
            cluster = LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=None)
    try:
        client = Client(cluster or scheduler, timeout=PATIENCE)
    except (OSError, ValueError) as error:
        raise ValueError(f"scheduler={scheduler!r}: no Dask scheduler answers ({error})") from None
    try:
        futures = {}
        for run in runs:
            if run.transfer is None:
                key = f"{run.experiment}-{run.name}"
                futures[client.submit(remote, run.resolved(), options.device, key=key)] = run
        for future in as_completed(list(futures)):
            run = futures[future]
            collect(run, partial(fetch, future, run, options), done, errors)
    finally:
        client.close()
        if cluster is not None:
            cluster.close()
    for run in runs:
        if run.transfer is not None:
            collect(run, partial(execute, run, options), done, errors)
    return errors
