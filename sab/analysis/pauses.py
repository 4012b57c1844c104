"""Where copy stands still while it is learned: which symbols are missing, where blocks begin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sab.analysis.credit import first_step
from sab.checks import finite_float, positive_int
from sab.ops.sab_scan import ScanOptions
from sab.tasks.copy import CopyTask

History = Sequence[Mapping[str, Any]]


def course(history: History) -> tuple[np.ndarray, np.ndarray]:
    """Accuracy by place in the string over training.

    Returns:
        updates (U,) and accuracies (U, P), fractions.

    Raises:
        ValueError: no entry of ``history`` has positions.
    """
    known = [entry for entry in history if entry.get("positions")]
    if not known:
        raise ValueError("history has no positions: must be of the copy task")
    return (
        np.array([entry["update"] for entry in known]),
        np.array([entry["positions"] for entry in known], dtype=float),
    )


@dataclass(frozen=True)
class Pause:
    """The evaluations of one run at which its accuracy lies in a range.

    Attributes:
        first, last: updates of the first and the last of them.
        count: how many.
        positions: (P,), their mean accuracy by place in the string, fractions.
    """

    first: int
    last: int
    count: int
    positions: np.ndarray

    @property
    def drop_after(self) -> int:
        """The answer (1-based) behind which accuracy falls most."""
        return int(np.diff(self.positions).argmin()) + 1

    @property
    def drop(self) -> float:
        """By how much it falls there."""
        return float(-np.diff(self.positions).min())


def pause(history: History, low: float, high: float) -> Pause | None:
    """Summarise the evaluations with ``low`` ≤ accuracy ≤ ``high``; ``None`` where there are none.

    Raises:
        ValueError: a bound is not between 0 and 1, or ``history`` has no positions.
    """
    finite_float("low", low, 0, 1)
    finite_float("high", high, low, 1)
    updates, positions = course(history)
    mean = positions.mean(1)
    inside = (mean >= low) & (mean <= high)
    if not inside.any():
        return None
    found = updates[inside]
    return Pause(int(found[0]), int(found[-1]), int(inside.sum()), positions[inside].mean(0))


def answer_borders(task: CopyTask, options: ScanOptions) -> list[int]:
    """Answers (1-based) behind which a new block of truncation begins, the last answer left out."""
    step = task.steps - task.length  # of the marker
    return [j for j in range(1, task.length) if first_step(step + j + 1, options) == step + j + 1]


def symbol_borders(task: CopyTask, options: ScanOptions) -> list[int]:
    """Symbols (1-based) behind which a new block begins, the last one left out."""
    return [j for j in range(1, task.length) if first_step(j + 1, options) == j + 1]


def teachers(symbol: int, options: ScanOptions) -> list[int]:
    """Memories (by write step) whose mental update reaches the step at which a symbol is shown.

    A recalled memory of step m teaches the steps from ``first_step(m)`` to m. An empty list means
    that no credit ever reaches the input of that step by a single recall.

    Raises:
        ValueError: ``symbol`` is not a positive integer, or ``options`` leave replay out.
    """
    positive_int("symbol", symbol)
    if options.replay != "full" or options.k_trunc is None:
        raise ValueError(
            f"options have replay={options.replay!r}, k_trunc={options.k_trunc!r}: must be 'full' "
            "and a number"
        )
    reach = range(symbol, symbol + options.k_trunc)
    written = [step for step in reach if step % options.k_att == 0]
    return [step for step in written if first_step(step, options) <= symbol]
