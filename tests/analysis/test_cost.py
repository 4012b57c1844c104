"""Costs are measured, not guessed: known allocations, known waits, known exponents."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import pytest
import torch

from sab.analysis.cost import fit_slope, measure, peak_memory, time_call
from sab.ops.kept import kept_for_backward


def test_fit_recovers_a_power_law() -> None:
    lengths = [10, 20, 40, 80]
    slope = fit_slope(lengths, [3.0 * length**1.7 for length in lengths])
    assert slope.exponent == pytest.approx(1.7, abs=1e-12)
    assert math.exp(slope.intercept) == pytest.approx(3.0, rel=1e-9)
    assert slope.r_squared == pytest.approx(1.0, abs=1e-12)


def test_fit_says_when_a_line_is_poor() -> None:
    assert fit_slope([1, 10, 100], [1.0, 100.0, 1.0]).r_squared < 0.1


@pytest.mark.parametrize(
    ("lengths", "values"),
    [([1, 2], [1.0]), ([5, 5], [1.0, 2.0]), ([1, 2], [0.0, 1.0]), ([1, 2], [math.inf, 1.0])],
)
def test_fit_refuses(lengths: list[int], values: list[float]) -> None:
    with pytest.raises(ValueError, match="must"):
        fit_slope(lengths, values)


def test_peak_memory_counts_what_is_held_at_once() -> None:
    size = 250_000  # a megabyte of float32

    def both() -> tuple[torch.Tensor, torch.Tensor]:
        return torch.empty(size), torch.empty(size)

    def in_turn() -> torch.Tensor:
        for _ in range(5):
            kept = torch.empty(size)
            del kept
        return torch.empty(size)

    assert peak_memory(both) == pytest.approx(2.0, rel=0.01)
    assert peak_memory(in_turn) == pytest.approx(1.0, rel=0.01)


def test_time_is_the_median() -> None:
    waits = iter([0.05, 0.001, 0.001, 0.05, 0.001])
    assert 0.001 <= time_call(lambda: time.sleep(next(waits)), repeats=5, warmup=0) < 0.05


def test_measure_gives_the_exponent_of_memory() -> None:
    def make(length: int) -> Callable[[], torch.Tensor]:
        return lambda: torch.empty(length, length)

    points = measure(make, [100, 200, 400], repeats=1, warmup=0)
    assert [point.length for point in points] == [100, 200, 400]
    assert all(point.seconds > 0 for point in points)
    fitted = fit_slope([p.length for p in points], [p.peak_mb for p in points])
    assert fitted.exponent == pytest.approx(2.0, abs=0.01)
    with pytest.raises(ValueError, match="lengths=0"):
        measure(make, [100, 0])


def test_kept_for_backward_counts_each_storage_once() -> None:
    x = torch.ones(250_000, requires_grad=True)  # a megabyte

    def squares() -> torch.Tensor:
        y = x.exp()  # keeps its result
        return (y * y).sum() + y[:10].square().sum()  # keeps y again, and a view of it

    assert kept_for_backward(squares) == pytest.approx(1.0, rel=1e-3)
    with torch.no_grad():
        assert kept_for_backward(squares) == 0.0
