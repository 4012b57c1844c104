"""Gradient against distance: how far back a loss is still felt."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

from sab.figures.style import (
    COLOURS,
    PAGE_WIDTH,
    new_figure,
    series_styles,
    styled,
    system_label,
    with_alt,
)


@styled
def gradient_by_distance(
    curves: Mapping[str, tuple[Any, Any]],
    *,
    ylabel: str = "mean gradient norm",
    alt: str | None = None,
) -> Figure:
    """Gradient norm against the distance from the loss back to the input, on a logarithmic axis.

    Exact zeros have no place on such an axis: they are crosses on a rail at the bottom.

    Args:
        curves: label → (distances in steps, values of at least 0), each (L,). NaNs are left out.
        ylabel: name and unit of the values.
        alt: alt text; ``None``: a sentence made from the data.

    Returns:
        The figure, with alt text.

    Raises:
        ValueError: nothing to draw, lengths differ, a value is negative or all are 0.

    Source: paper section 1.1; the data come from ``sab.analysis.credit.gradient_by_distance``.
    """
    if not curves:
        raise ValueError(f"curves={curves!r}: must hold at least one curve")
    data: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for label, (distances, values) in curves.items():
        xs, ys = np.asarray(distances, dtype=float), np.asarray(values, dtype=float)
        if xs.shape != ys.shape or xs.ndim != 1:
            raise ValueError(
                f"curves[{label!r}] has shapes {xs.shape} and {ys.shape}: must be equal"
            )
        keep = np.isfinite(ys)
        if (ys[keep] < 0).any():
            raise ValueError(f"curves[{label!r}] has a negative norm: must be at least 0")
        data[label] = xs[keep], ys[keep]
    positive = np.concatenate([ys[ys > 0] for _, ys in data.values()])
    if not positive.size:
        raise ValueError("curves holds zeros only: must hold a positive value")
    zeros = any((ys == 0).any() for _, ys in data.values())
    low, high = math.floor(math.log10(positive.min())), math.ceil(math.log10(positive.max()))
    high = max(high, low + 1)
    gap = max(1.0, 0.12 * (high - low))
    fig, axes = new_figure(PAGE_WIDTH, 3.1)
    ax = axes[0, 0]
    ax.set_yscale("log")
    told = []
    for order, ((label, (xs, ys)), look) in enumerate(
        zip(data.items(), series_styles(list(data)), strict=True)
    ):
        ax.plot(
            xs, np.where(ys > 0, ys, np.nan), color=look["color"], marker=look["marker"], ms=3.6,
            ls=look["linestyle"], label=system_label(label), lw=1.5,
        )  # fmt: skip
        nothing = xs[ys == 0]
        rail = 10.0 ** (low - gap * (1 + 0.35 * order / max(1, len(data) - 1)))
        ax.plot(nothing, np.full(nothing.shape, rail), "x", ms=4.5, color=look["color"])
        some = xs[ys > 0]
        told.append(
            f"{label} is {ys[ys > 0][0]:.2g} at distance {some[0]:g} and {ys[ys > 0][-1]:.2g} at "
            f"{some[-1]:g}, with {nothing.size} of {xs.size} distances exactly 0"
            if some.size
            else f"{label} is exactly 0 everywhere"
        )
    every = max(1, math.ceil((high - low) / 6))
    marks = [10.0**power for power in range(high, low - 1, -every)]
    names = [f"$10^{{{power}}}$" for power in range(high, low - 1, -every)]
    if zeros:
        ax.axhline(10.0 ** (low - 0.5 * gap), color=COLOURS["edge"], lw=0.8)
        marks.append(10.0 ** (low - 1.17 * gap))
        names.append("exactly 0")
    ax.yaxis.set_major_locator(FixedLocator(marks))
    ax.yaxis.set_major_formatter(FixedFormatter(names))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.set_ylim(10.0 ** (low - (1.7 * gap if zeros else 0.3)), 10.0 ** (high + 0.2))
    ax.set_xlabel("steps from the loss back to the input")
    ax.set_ylabel(ylabel)
    fig.legend(loc="outside upper left", ncols=min(3, len(data)))
    return with_alt(fig, alt or f"Gradient norm against distance, logarithmic. {'; '.join(told)}.")
