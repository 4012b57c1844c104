"""Test saved models at other lengths than they were trained at (paper, Table 5)."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sab.experiments import records
from sab.experiments.config import RunConfig, TransferConfig, scan_form
from sab.experiments.progress import Progress
from sab.experiments.records import Record
from sab.experiments.train import pick_device
from sab.experiments.weights import load_model
from sab.models.bounded import BoundedSAB
from sab.models.rea import REA
from sab.models.sab import SAB
from sab.ops.sab_scan.types import SABState
from sab.tasks import registry as tasks
from sab.tasks.base import Task

Stepper = Callable[..., Any]  # (x, state) → (outputs, state, …)
REPORTED = ("accuracy", "string_accuracy", "ce10")
SHORT = 400  # up to here the larger number of sequences is used


@torch.no_grad()
def stream(model: Stepper, x: Tensor, keep: int, chunk: int) -> Tensor:
    """Run ``model`` over ``x (B, T, features)`` piece by piece, carrying its state.

    Only the outputs of the last ``keep`` steps are held, so that memory grows with the model's
    state alone.

    Returns:
        outputs ``(B, keep, output_size)``.
    """
    return streamed(model, x, keep, chunk)[0]


@torch.no_grad()
def streamed(model: Stepper, x: Tensor, keep: int, chunk: int) -> tuple[Tensor, Any]:
    """As `stream`, with the state behind the last step."""
    state = None
    kept: list[Tensor] = []
    total = x.shape[1]
    for start in range(0, total, chunk):
        outputs, state = model(x[:, start : start + chunk], state)[:2]
        first = max(0, total - keep - start)
        if first < outputs.shape[1]:
            kept.append(outputs[:, first:])
    return torch.cat(kept, 1), state


def numbers(state: Any) -> int:
    """How many numbers a state holds, over all its parts."""
    if isinstance(state, Tensor):
        return state.numel() if state.is_floating_point() else 0
    if isinstance(state, SABState):  # a buffer is room for the same memories
        state = (state.h, state.c, state.memory)
    return sum(map(numbers, state)) if isinstance(state, list | tuple) else 0


def batch_for(config: TransferConfig, length: int) -> int:
    """Sequences at once: fewer at great lengths, so that the memories fit."""
    return max(1, min(config.batch_size, config.batch_size * 2000 // length))


def test_at(
    model: Stepper,
    task: Task,
    config: TransferConfig,
    length: int,
    seed: int,
    device: torch.device,
) -> dict[str, float]:
    """Return the metrics at ``T = length`` on fresh sequences.

    The task's metrics as ``accuracy_T…`` and so on, ``halfwidth_T…`` (1.96 standard errors over
    sequences), ``sequences_T…``, ``seconds_per_sequence_T…``; and ``held_T…``, the numbers a
    sequence that the model's state holds at the end, where it carries one.
    """
    fixed = {"shortest": None} if hasattr(task, "shortest") else {}
    longer = dataclasses.replace(task, T=length, **fixed)  # type: ignore[type-var]
    wanted = config.sequences if length <= SHORT else config.sequences_beyond
    generator = torch.Generator().manual_seed(seed)
    size = batch_for(config, length)
    keep = longer.length  # type: ignore[attr-defined]
    outputs, targets = [], []
    started = time.perf_counter()
    for start in range(0, wanted, size):
        batch = longer.batch(min(size, wanted - start), generator)
        x = batch.x.to(device)
        answer, state = streamed(model, x, keep, config.chunk)
        outputs.append(answer.cpu())
        held = numbers(state) / len(x)
        targets.append(batch.y[:, -keep:])
    seconds = time.perf_counter() - started
    answer, y = torch.cat(outputs), torch.cat(targets)
    right = (answer.argmax(-1) == y).double().mean(1)
    metrics = longer.metrics(answer, y)
    kept = {name: metrics[name] for name in REPORTED if name in metrics}
    kept |= {"held": held} if held else {}
    return {
        **{f"{name}_T{length}": value for name, value in kept.items()},
        f"halfwidth_T{length}": 1.96 * right.std().item() / math.sqrt(len(right)),
        f"sequences_T{length}": len(right),
        f"seconds_per_sequence_T{length}": seconds / len(right),
    }


test_at.__test__ = False  # type: ignore[attr-defined]


def transfer(
    run: RunConfig,
    runs: Path | None = None,
    results: Path | None = None,
    device: str = "auto",
    progress: str = "auto",
) -> Record:
    """Test a saved model at every length of ``run.transfer`` and return the record.

    Raises:
        FileNotFoundError: the model has not been trained yet; the message has the command.
        ValueError: the weights are damaged, or the model has no memory to bound.
    """
    config = run.transfer
    if config is None:
        raise ValueError(f"run={run.name!r}: has no transfer settings")
    place = pick_device(device)
    model, source = load_model(
        config.experiment, config.row, run.profile, run.seed, None, runs, results
    )
    model.to(place)
    tested: Stepper = model
    if isinstance(model, REA) and model.config.attention != "full":
        tested = model.stream  # what attends to everything takes the sequence whole
    if config.capacity is not None:
        if not isinstance(model, SAB):
            raise ValueError(f"capacity={config.capacity!r}: only a SAB has a memory to bound")
        tested = BoundedSAB(model, config.capacity, config.policy)
    task = tasks.build(source.task, source.task_config)
    metrics: dict[str, float] = {}
    history = []
    started = time.perf_counter()
    with Progress(f"{run.experiment} {run.name}", len(config.lengths), progress) as bar:
        for i, length in enumerate(config.lengths, 1):
            seed = run.stream(f"transfer/{length}")
            found = test_at(tested, task, config, length, seed, place)
            metrics |= found
            entry: dict[str, Any] = {"update": i, "T": length}
            entry |= {name.rpartition("_T")[0]: value for name, value in found.items()}
            entry["seconds"] = time.perf_counter() - started
            history.append(records.finite(entry))
            bar.update(i)
            bar.report(i, entry)
    return Record(
        experiment=run.experiment,
        row=run.row,
        config={**run.resolved(), "source": source.resolved()},
        seed=run.seed,
        profile=run.profile,
        metrics=metrics,
        history=history,
        machine=records.machine(place, scan_form(source, place)),
        seconds=round(time.perf_counter() - started, 2),
        peak_mb=records.peak_mb(place),
        commit=records.commit(),
        created=records.now(),
    )
