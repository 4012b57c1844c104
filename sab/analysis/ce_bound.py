"""What an accuracy says of the cross-entropy beside it (register D12 and D15).

Whoever gives the wrong class the highest probability gives the right one at most 1/2, so a wrong
answer costs at least ln 2 nats; a right one costs something, but may cost next to nothing. Hence
CE ≥ (1 − accuracy) · ln 2, whatever the model.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from sab.checks import finite_float, positive_int
from sab.experiments.claims import Claim
from sab.tasks.copy import CopyTask


def least_ce(accuracy: float, rounding: float = 0.0) -> float:
    """Least mean cross-entropy, in nats, of answers of which ``accuracy`` are right.

    Args:
        accuracy: a fraction.
        rounding: by how much the true accuracy may exceed it, a fraction.

    Raises:
        ValueError: one of them is not between 0 and 1.
    """
    wrong = 1 - finite_float("accuracy", accuracy, 0, 1) - finite_float("rounding", rounding, 0, 1)
    return max(0.0, wrong) * math.log(2)


def least_accuracy(ce: float) -> float:
    """The lowest accuracy, a fraction, that a mean cross-entropy ``ce`` in nats can have.

    Raises:
        ValueError: ``ce`` is negative or not finite.
    """
    return max(0.0, 1 - finite_float("ce", ce, 0) / math.log(2))


def least_ce_of_all_steps(ce10: float, T: int) -> float:
    """Least mean cross-entropy over *all* steps of the copy task where the answers have ``ce10``.

    The other T + 10 steps cost at least nothing.

    Raises:
        ValueError: ``ce10`` is negative, or ``T`` is not a positive integer.
    """
    task = CopyTask(T=positive_int("T", T))
    return finite_float("ce10", ce10, 0) * task.length / task.steps


@dataclass(frozen=True)
class Cell:
    """A row of Table 1 at one delay.

    Attributes:
        says: the row in words. T: its delay. accuracy: as the paper prints it, a fraction.
        ce10: least cross-entropy of the ten answers, nats; rounding of the accuracy granted.
        ce: least cross-entropy over all steps, nats.
        stated: the cross-entropy of the answers that our source quotes, or ``None``.
    """

    says: str
    T: int
    accuracy: float
    ce10: float
    ce: float
    stated: float | None

    @property
    def possible(self) -> bool | None:
        """Whether the stated cross-entropy can stand beside the accuracy; ``None``: none stated."""
        return None if self.stated is None else self.stated >= self.ce10


def table1_cells(claims: Sequence[Claim]) -> list[Cell]:
    """Bound every cell of Table 1 that ``claims`` give an accuracy for, in their order.

    Accuracies are printed with one decimal, so the true one may be 0.05 points higher.
    """
    values = [c for c in claims if c.kind == "value" and c.run.startswith("table1/")]
    stated = {c.run: c.value for c in values if c.metric == "ce10"}
    cells = []
    for claim in values:
        delay = re.search(r"_T(\d+)$", claim.run)
        if claim.metric != "accuracy" or claim.value is None or delay is None:
            continue
        T, accuracy = int(delay[1]), claim.value / 100
        least = least_ce(accuracy, 0.0005)
        says = claim.says.removesuffix(f", T={T}")
        whole = least_ce_of_all_steps(least, T)
        cells.append(Cell(says, T, accuracy, least, whole, stated.get(claim.run)))
    return cells
