"""What a computation costs as the sequence grows: time, peak memory, and the exponent of both."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from sab.checks import positive_int

_MB = 1e6


@dataclass(frozen=True)
class CostPoint:
    """The cost of one call at one length.

    Attributes:
        length: steps.
        seconds: median wall time of a call.
        peak_mb: most tensor memory held at once beyond what was held before the call, in 10⁶ bytes.
    """

    length: int
    seconds: float
    peak_mb: float


@dataclass(frozen=True)
class Slope:
    """A power law cost = exp(intercept) · length^exponent, fitted by least squares on logarithms.

    Attributes:
        exponent: 1 is linear growth, 2 quadratic.
        intercept: natural logarithm of the cost at length 1.
        r_squared: share of the logarithms' variance that the line explains; 1 is a perfect fit.
    """

    exponent: float
    intercept: float
    r_squared: float


def _wait() -> None:
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def time_call(call: Callable[[], Any], repeats: int = 5, warmup: int = 1) -> float:
    """Median wall time of a call, after some calls that don't count.

    Args:
        call: what to time; a GPU's queue is emptied before and after it.
        repeats: timed calls.
        warmup: untimed calls before them.

    Returns:
        Seconds.

    Raises:
        ValueError: ``repeats`` is below 1 or ``warmup`` below 0.
    """
    positive_int("repeats", repeats)
    positive_int("warmup", warmup, minimum=0)
    for _ in range(warmup):
        call()
    times = []
    for _ in range(repeats):
        _wait()
        begin = time.perf_counter()
        call()
        _wait()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def peak_memory(call: Callable[[], Any]) -> float:
    """Most tensor memory a call holds at once, beyond what was held before it.

    On a GPU this is the allocator's own peak. On a CPU it is the running sum of torch's allocations
    and frees during the call, so that it is the same on every run; memory that a library takes
    without torch is not in it.

    Args:
        call: what to measure; its result is kept until the measurement ends.

    Returns:
        10⁶ bytes.
    """
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        kept = call()
        torch.cuda.synchronize()
        del kept
        return (torch.cuda.max_memory_allocated() - before) / _MB
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as session:
        kept = call()
    del kept
    results = session.profiler.kineto_results if session.profiler is not None else None
    if results is None:
        raise RuntimeError("torch's profiler recorded nothing: is another profiler running?")
    held = peak = 0
    for event in sorted(
        (event for event in results.events() if event.name() == "[memory]"),
        key=lambda event: event.start_ns(),
    ):
        held += event.nbytes()
        peak = max(peak, held)
    return peak / _MB


def measure(
    make_call: Callable[[int], Callable[[], Any]],
    lengths: Sequence[int],
    repeats: int = 5,
    warmup: int = 1,
) -> list[CostPoint]:
    """Time and peak memory of a call at several lengths.

    Args:
        make_call: from a length to the call to measure; what it prepares is not measured.
        lengths: steps, each a positive integer.
        repeats: timed calls a length.
        warmup: untimed calls before them.

    Returns:
        One ``CostPoint`` a length, in the order given.

    Raises:
        ValueError: a length or a count is out of range.

    Source: paper section 8 (the quantities its table bounds).
    """
    for length in lengths:
        positive_int("lengths", length)
    points = []
    for length in lengths:
        call = make_call(length)
        seconds = time_call(call, repeats, warmup)
        points.append(CostPoint(length, seconds, peak_memory(call)))
    return points


def fit_slope(lengths: Sequence[float], values: Sequence[float]) -> Slope:
    """Exponent of a power law through (length, value) pairs: a line through their logarithms.

    Args:
        lengths: positive, at least two different ones.
        values: positive, as many.

    Returns:
        Slope.

    Raises:
        ValueError: the counts differ, a number is not positive, or all lengths are equal.
    """
    if len(lengths) != len(values) or len(set(lengths)) < 2:
        raise ValueError(
            f"lengths={list(lengths)!r}: must hold two different ones, as many as values "
            f"({len(values)})"
        )
    if min(*lengths, *values) <= 0 or not all(math.isfinite(v) for v in (*lengths, *values)):
        raise ValueError(f"values={list(values)!r}: must be positive and finite, as the lengths")
    xs, ys = [math.log(x) for x in lengths], [math.log(y) for y in values]
    slope, intercept = statistics.linear_regression(xs, ys)
    mean = statistics.fmean(ys)
    total = sum((y - mean) ** 2 for y in ys)
    rest = sum((y - intercept - slope * x) ** 2 for x, y in zip(xs, ys, strict=True))
    return Slope(slope, intercept, 1.0 if total == 0 else 1.0 - rest / total)
