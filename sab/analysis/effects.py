"""What a switch does to learning, from records: one row beside another, and whole designs."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sab.experiments.records import Record
from sab.experiments.rows import Row
from sab.experiments.statistics import estimate


@dataclass(frozen=True)
class Effect:
    """What the runs of one row came to; ``None`` everywhere where there are none.

    Attributes:
        row, title: which row.
        n: seeds.
        accuracy: mean over seeds on fresh sequences, a fraction. lowest, highest: of the seeds.
        best: highest held-out accuracy on the way, mean over seeds.
        norm: median over training of the mean gradient norm before clipping, mean over seeds.
        norm_max: largest gradient norm of any update of any seed.
        updates: of the longest run.
        seconds: all seeds together.
    """

    row: str
    title: str
    n: int = 0
    accuracy: float | None = None
    lowest: float | None = None
    highest: float | None = None
    best: float | None = None
    norm: float | None = None
    norm_max: float | None = None
    updates: int | None = None
    seconds: float = 0.0


def typical_norm(record: Record) -> float:
    """Median over a run's evaluations of the mean gradient norm, before clipping, since the last.

    Of an even number of evaluations, the mean of the two in the middle. NaN where none has a norm.
    """
    known = [e["grad_norm"] for e in record.history if e.get("grad_norm") is not None]
    return statistics.median(known) if known else float("nan")


def effect(row: Row, records: Sequence[Record]) -> Effect:
    """Summarise the records of ``row`` among ``records``; all must be of one profile.

    Raises:
        ValueError: they are of several profiles.
    """
    mine = [record for record in records if record.row == row.name]
    profiles = sorted({record.profile for record in mine})
    if len(profiles) > 1:
        raise ValueError(f"records of {row.name}: profiles {', '.join(profiles)}: must be one")
    if not mine:
        return Effect(row.name, row.title)
    accuracies = [record.metrics["accuracy"] for record in mine]
    return Effect(
        row=row.name,
        title=row.title,
        n=len(mine),
        accuracy=estimate(accuracies).mean,
        lowest=min(accuracies),
        highest=max(accuracies),
        best=estimate([max(e["accuracy"] for e in r.history) for r in mine]).mean,
        norm=estimate([typical_norm(record) for record in mine]).mean,
        norm_max=max(record.metrics["grad_norm_max"] for record in mine),
        updates=max(int(record.metrics["updates"]) for record in mine),
        seconds=sum(record.seconds for record in mine),
    )


def factor_effects(values: Mapping[tuple[str, ...], float]) -> dict[tuple[int, ...], float]:
    """Main effects and interactions of a full design of factors with two levels each.

    The effect of a set of factors is the mean over all cells of the value times the product of the
    factors' signs (−1 for a factor's first level, in order of appearance, +1 for its second),
    doubled: for one factor, mean at the second level less mean at the first.

    Args:
        values: a cell's levels → its value; every combination once.

    Returns:
        Indices of the factors → effect, main effects first.

    Raises:
        ValueError: a factor has not two levels, or a combination is missing.
    """
    cells = list(values)
    count = len(cells[0]) if cells else 0
    if not count or any(len(cell) != count for cell in cells):
        raise ValueError(f"values={cells!r}: must name the same factors in every cell")
    levels = [list(dict.fromkeys(cell[i] for cell in cells)) for i in range(count)]
    for i, found in enumerate(levels):
        if len(found) != 2:
            raise ValueError(f"factor {i} has levels {found!r}: must be two")
    missing = [cell for cell in itertools.product(*levels) if cell not in values]
    if missing:
        raise ValueError(f"values lack {missing!r}: must hold every combination")

    def sign(cell: tuple[str, ...], chosen: tuple[int, ...]) -> float:
        product = 1.0
        for i in chosen:
            product *= -1.0 if cell[i] == levels[i][0] else 1.0
        return product

    return {
        chosen: 2 * sum(sign(cell, chosen) * value for cell, value in values.items()) / len(values)
        for size in range(1, count + 1)
        for chosen in itertools.combinations(range(count), size)
    }
