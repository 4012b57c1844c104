"""Means with 95 % intervals over seeds, and the confidence of an ordering."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache


def t_probability(t: float, df: int) -> float:
    """P(|X| < t) for Student's t with ``df`` degrees of freedom.

    The finite sums of Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4.
    """
    angle = math.atan(t / math.sqrt(df))
    cosine, sine = math.cos(angle), math.sin(angle)
    term, total = 1.0, 0.0
    if df % 2 == 0:
        for k in range(0, df // 2):
            total += term
            term *= cosine**2 * (2 * k + 1) / (2 * k + 2)
        return sine * total
    for k in range(0, (df - 1) // 2):
        total += term
        term *= cosine**2 * (2 * k + 2) / (2 * k + 3)
    return 2 / math.pi * (angle + sine * cosine * total)


@lru_cache
def t_value(df: int, confidence: float = 0.95) -> float:
    """The t that ``confidence`` of Student's distribution lies within, to ten digits.

    Raises:
        ValueError: ``df`` is below 1 or ``confidence`` is not between 0 and 1.
    """
    if df < 1 or not 0 < confidence < 1:
        raise ValueError(f"df={df!r}, confidence={confidence!r}: must be at least 1 and in (0, 1)")
    low, high = 0.0, 1e6
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if t_probability(middle, df) < confidence else (low, middle)
    return (low + high) / 2


@dataclass(frozen=True)
class Estimate:
    """Mean of ``n`` seeds, their standard deviation, and half of the mean's 95 % interval.

    ``deviation`` and ``halfwidth`` are ``None`` for a single seed.
    """

    n: int
    mean: float
    deviation: float | None
    halfwidth: float | None


def estimate(values: Sequence[float]) -> Estimate:
    """Summarise one value a seed.

    Raises:
        ValueError: there are none.
    """
    n = len(values)
    if n == 0:
        raise ValueError("values=[]: needs at least one")
    mean = math.fsum(values) / n
    if n == 1:
        return Estimate(1, mean, None, None)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    return Estimate(n, mean, deviation, t_value(n - 1) * deviation / math.sqrt(n))


Side = Sequence[float] | float
"""One value a seed, or a number that is known."""


def difference(a: Side, b: Side) -> tuple[float, float | None]:
    """Return mean(a) − mean(b) and half the width of its 95 % interval (Welch).

    A side with a single seed says nothing about its spread, so there is no interval; a known number
    has none. The degrees of freedom are rounded down, so the interval is never too narrow.
    """
    known = [side for side in (a, b) if isinstance(side, (int, float))]
    left, right = (
        Estimate(1, float(side), 0.0, 0.0) if isinstance(side, (int, float)) else estimate(side)
        for side in (a, b)
    )
    gap = left.mean - right.mean
    if left.deviation is None or right.deviation is None:
        return gap, None
    va, vb = left.deviation**2 / left.n, right.deviation**2 / right.n
    if va + vb == 0:
        return gap, 0.0
    if known:
        df = max(left.n, right.n) - 1
    else:
        df = math.floor((va + vb) ** 2 / (va**2 / (left.n - 1) + vb**2 / (right.n - 1)))
    return gap, t_value(max(1, df)) * math.sqrt(va + vb)
