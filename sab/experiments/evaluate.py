"""A model's outputs and metrics on batches, with or without state that is carried on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from sab.experiments.carry import carried
from sab.ops.kept import kept_for_backward
from sab.tasks.base import Batch


def follow(
    model: nn.Module, task: Any, x: Tensor, state: Any, y: Tensor | None = None
) -> tuple[Tensor, Any]:
    """Outputs for ``x`` from ``state``, and what the next sequence starts from.

    ``y``, in training only: a task with a ``teacher`` tells the model the right past.
    """
    told = {} if y is None or not hasattr(task, "teacher") else {"targets": task.teacher(y)}
    outputs, state = (model(x, **told) if state is None else model(x, state, **told))[:2]
    keep = getattr(task, "carry", ())
    return outputs, carried(state, keep, task.memories, model) if keep else None


def objective(
    model: nn.Module, task: Any, x: Tensor, y: Tensor, state: Any = None
) -> tuple[Tensor, Any]:
    """What training follows, a scalar, and what the next sequence starts from.

    The task's loss of the model's outputs; or the model's own ``objective(x, y)`` where it has one,
    as a choice has whose gradient is estimated from draws.
    """
    own = getattr(model, "objective", None)
    if callable(own):
        return own(x, y), None
    outputs, state = follow(model, task, x, state, y)
    return task.loss(outputs, y), state


def kept_mb(model: nn.Module, task: Any, batch: Batch, device: torch.device) -> float:
    """Memory, in 10⁶ bytes, that the backward pass of one training batch needs kept.

    Weights, batch and targets count where the backward pass reads them. Nothing is drawn from the
    random streams and the model is left as it was.
    """
    x, y = batch.x.to(device), batch.y.to(device)
    before = [(buffer, buffer.clone()) for buffer in model.buffers()]
    with torch.random.fork_rng([device] if device.type == "cuda" else []), torch.enable_grad():
        kept = kept_for_backward(lambda: objective(model, task, x, y)[0])
    for buffer, value in before:  # a running mean has moved
        buffer.copy_(value)
    return kept


@torch.no_grad()
def evaluate(
    model: nn.Module, task: Any, batches: Iterable[tuple[Batch, bool]], device: torch.device
) -> tuple[dict[str, float], list[float]]:
    """Return the task's metrics, averaged over batches, and its accuracy by position.

    ``batches``: each with whether it starts from nothing. They are weighed by the task's
    ``weight(y)`` where it has one, and equal where not. A metric that is no mean over batches, such
    as an area under a curve, a task makes of all: ``overall`` of every batch's ``scored``. A task
    with ``judged_told`` tells the model the right past here too: its metrics are of the next
    symbol, not of what the model makes alone.
    """
    model.eval()
    totals: dict[str, float] = {}
    places: list[float] = []
    scored: list[Tensor] = []
    count = 0
    state = None
    for batch, fresh in batches:
        y = batch.y.to(device)
        right = y if getattr(task, "judged_told", False) else None
        outputs, state = follow(model, task, batch.x.to(device), None if fresh else state, right)
        if hasattr(task, "scored"):
            scored.append(task.scored(outputs, y).cpu())
        weight = task.weight(y) if hasattr(task, "weight") else 1
        if weight == 0:
            continue
        for name, value in task.metrics(outputs, y).items():
            totals[name] = totals.get(name, 0.0) + weight * value
        if hasattr(task, "positions"):
            here = task.positions(outputs, y)
            places = [a + b for a, b in zip(places or [0.0] * len(here), here, strict=True)]
        count += weight
    model.train()
    overall = task.overall(torch.cat(scored)) if scored else {}
    return (
        {name: value / count for name, value in totals.items()} | overall,
        [round(value / count, 5) for value in places],
    )
