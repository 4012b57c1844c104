"""Accuracy against length from records, with an interval at each length (paper, Table 5)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sab.experiments.records import Record
from sab.experiments.statistics import estimate


@dataclass(frozen=True)
class LengthPoint:
    """The accuracy at one length.

    Attributes:
        length: test delay T.
        mean: mean of the seeds, a fraction.
        low, high: 95 % interval, within 0 … 1.
        seeds: models tested.
        sequences: test sequences, all seeds together.
        lowest: the worst seed's accuracy.
        seconds: mean wall time a sequence.
    """

    length: int
    mean: float
    low: float
    high: float
    seeds: int
    sequences: int
    lowest: float
    seconds: float


def length_curve(records: Sequence[Record]) -> list[LengthPoint]:
    """Summarise transfer records of one system by length, shortest first.

    The interval is Student's over seeds. A single seed has one over its sequences instead. Where
    nothing varies (all seeds, or all sequences, equal) it reaches down as far as a share of
    1 − 0.05^(1/n) of all-wrong sequences among n, which would go unseen 5 times in 100.

    Raises:
        ValueError: there is no record, or one holds no accuracy by length.
    """
    if not records:
        raise ValueError("records=[]: needs at least one")
    lengths: dict[int, list[Record]] = {}
    for record in records:
        names = [name for name in record.metrics if name.startswith("accuracy_T")]
        if not names:
            raise ValueError(f"records: {record.experiment} {record.name} has no accuracy by T")
        for name in names:
            lengths.setdefault(int(name.removeprefix("accuracy_T")), []).append(record)
    return [_point(length, group) for length, group in sorted(lengths.items())]


def _point(length: int, group: list[Record]) -> LengthPoint:
    def values(name: str) -> list[float]:
        return [float(record.metrics[f"{name}_T{length}"]) for record in group]

    found = estimate(values("accuracy"))
    sequences = round(sum(values("sequences")))
    half = values("halfwidth")[0] if found.halfwidth is None else found.halfwidth
    low, high = found.mean - half, found.mean + half
    if half < 1e-9:
        unseen = 1 - math.pow(0.05, 1 / sequences)
        low, high = found.mean * (1 - unseen), found.mean + (1 - found.mean) * unseen
    seconds = values("seconds_per_sequence")
    return LengthPoint(
        length=length,
        mean=found.mean,
        low=max(0.0, low),
        high=min(1.0, high),
        seeds=found.n,
        sequences=sequences,
        lowest=min(values("accuracy")),
        seconds=sum(seconds) / len(seconds),
    )
