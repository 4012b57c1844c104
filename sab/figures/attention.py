"""Figures of attention: vectors in the plane, matrices of weights, patterns, pointers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch

from sab.figures.style import (
    COLOURS,
    PAGE_WIDTH,
    as_panels,
    new_figure,
    styled,
    to_array,
    with_alt,
)

_BLUES = LinearSegmentedColormap.from_list(
    "weights", [COLOURS["panel"], COLOURS["gradient_fill"], "#5aa5d6", "#0072b2", "#06304d"]
)
_INK = LinearSegmentedColormap.from_list("ink", ["#e9e5dc", COLOURS["text"]])


def _arrow(ax: Axes, to: Any, colour: str, width: float, dashes: str = "-") -> None:
    ax.add_patch(
        FancyArrowPatch((0, 0), (to[0], to[1]), arrowstyle="-|>", mutation_scale=12, color=colour,
                        lw=width, ls=dashes, shrinkA=0, shrinkB=0, zorder=3)
    )  # fmt: skip


@styled
def attention_plane(
    query: Any, keys: Any, weights: Any, output: Any, *, alt: str | None = None
) -> Figure:
    """One query, its keys (which are the values too) and the output, as arrows; weights as bars.

    Args:
        query: (2,).
        keys: (N, 2).
        weights: (N,), between 0 and 1.
        output: (2,), the weighted mean of the keys.
        alt: alt text; ``None``: a sentence made from the data.

    Returns:
        The figure, with alt text.

    Raises:
        ValueError: a shape does not fit.
    """
    q, out = to_array("query", query, 1), to_array("output", output, 1)
    points, shares = to_array("keys", keys, 2), to_array("weights", weights, 1)
    if q.shape != (2,) or out.shape != (2,) or points.shape[1:] != (2,):
        raise ValueError(
            f"query, keys, output have shapes {q.shape}, {points.shape}, {out.shape}: must be "
            "(2,), (N, 2), (2,)"
        )
    if shares.shape != points.shape[:1]:
        raise ValueError(f"weights has shape {shares.shape}: must be ({len(points)},)")
    fig, axes = new_figure(PAGE_WIDTH, 3.3, columns=2, width_ratios=[1.1, 1])
    ax, bars = axes[0]
    for i, (point, share) in enumerate(zip(points, shares, strict=True), start=1):
        _arrow(ax, point, COLOURS["gradient"], 1.0 + 4 * float(share))
        ax.annotate(f"x{i}", point, xytext=(4, 4), textcoords="offset points")
    _arrow(ax, q, COLOURS["kept"], 2.2, "--")
    ax.annotate("query", q, xytext=(4, -12), textcoords="offset points", color=COLOURS["kept"])
    ax.plot(*out, "o", color=COLOURS["summary"], ms=9, zorder=5)
    ax.annotate("output", out, xytext=(7, 4), textcoords="offset points", color=COLOURS["summary"])
    every = np.vstack([points, q[None], out[None], [[0, 0]]])
    low, high = every.min() - 0.4, every.max() + 0.5
    ax.set(xlim=(low, high), ylim=(low, high), aspect="equal")
    ax.set_xlabel("first component")
    ax.set_ylabel("second component")
    names = [f"x{i}" for i in range(1, len(points) + 1)]
    bars.barh(names, shares, color=COLOURS["gradient"], height=0.6)
    for row, share in enumerate(shares):
        bars.annotate(f"{share:.3f}", (float(share), row), xytext=(4, 0),
                      textcoords="offset points", va="center")  # fmt: skip
    bars.invert_yaxis()
    bars.set(xlim=(0, max(1.0, float(shares.max()) * 1.15)), xlabel="attention weight",
             ylabel="input")  # fmt: skip
    told = ", ".join(f"x{i} {share:.3f}" for i, share in enumerate(shares, start=1))
    return with_alt(
        fig,
        alt
        or f"Left, a query and {len(points)} keys as arrows in the plane, and the output at "
        f"({out[0]:.2f}, {out[1]:.2f}). Right, their attention weights as bars: {told}.",
    )


@styled
def weight_matrices(
    weights: Any,
    *,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    ylabel: str = "query",
    xlabel: str = "key",
    numbers: bool | None = None,
    alt: str | None = None,
) -> Figure:
    """Attention weights, one row a query, as a matrix or several side by side.

    Args:
        weights: (M, N), or title → (M, N); between 0 and 1. What is masked is exactly 0, and blank.
        rows: names of the queries; ``None``: numbers from 1.
        columns: names of the keys.
        ylabel: what a row is.
        xlabel: what a column is.
        numbers: write each weight into its cell; ``None``: where the matrix is small.
        alt: alt text; ``None``: a sentence made from the data.

    Returns:
        The figure, with alt text.

    Raises:
        ValueError: a matrix has another shape than its names, or a weight lies outside 0 … 1.
    """
    panels = {
        title: to_array("weights", array, 2)
        for title, array in as_panels("weights", weights).items()
    }
    for title, array in panels.items():
        if array.min() < -1e-9 or array.max() > 1 + 1e-6:
            raise ValueError(f"weights {title!r}: must be between 0 and 1")
        for name, names, size in (("rows", rows, 0), ("columns", columns, 1)):
            if names is not None and len(names) != array.shape[size]:
                raise ValueError(f"{name}={list(names)!r}: must be {array.shape[size]} names")
    count = len(panels)
    tall = max(array.shape[0] / array.shape[1] for array in panels.values())
    width = PAGE_WIDTH if count > 1 else 4.6
    height = min(max((width - 0.9) / count * tall + 0.9, 2.0), 6.0)
    fig, axes = new_figure(width, height, columns=count)
    image = None
    for ax, (title, array) in zip(axes[0], panels.items(), strict=True):
        ax.grid(False)
        shown = np.ma.masked_where(array == 0, array)
        image = ax.imshow(shown, cmap=_BLUES, vmin=0, vmax=1, aspect="auto")
        small = numbers if numbers is not None else array.size <= 40 and count < 3
        if small:
            for (i, j), value in np.ndenumerate(array):
                if value == 0:
                    continue
                ink = COLOURS["panel"] if value > 0.55 else COLOURS["text"]
                ax.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=7.5, color=ink)
        ax.set_title(title)
        for which, names, size in (("y", rows, array.shape[0]), ("x", columns, array.shape[1])):
            marks = range(size) if names is not None or size <= 12 else range(0, size, 5)
            labels = [names[i] if names is not None else str(i + 1) for i in marks]
            getattr(ax, f"set_{which}ticks")(list(marks), labels)
            if which == "x" and max(map(len, labels)) > 2 and names is not None:
                ax.tick_params(axis="x", rotation=60)  # words side by side would overlap
        ax.set_xlabel(xlabel)
        ax.set_ylabel(ylabel)
    if image is not None:
        bar = fig.colorbar(image, ax=axes.ravel().tolist(), shrink=0.85, pad=0.02)
        bar.set_label("attention weight")
        bar.outline.set_visible(False)
    told = "; ".join(
        f"{title or 'the matrix'} has {array.shape[0]} rows and {array.shape[1]} columns, its "
        f"largest weight is {array.max():.2f}"
        for title, array in panels.items()
    )
    return with_alt(
        fig,
        alt
        or f"Attention weights; rows: {ylabel}; columns: {xlabel}. {told[0].upper()}{told[1:]}.",
    )


@styled
def pattern_grid(
    rows: Mapping[str, Any],
    *,
    side: int = 10,
    columns: Sequence[str] | None = None,
    alt: str | None = None,
) -> Figure:
    """Square binary patterns in rows: what was stored, what was shown, what came back.

    Args:
        rows: name of a row → (K, side²) of -1 and +1; +1 is ink.
        side: pixels a side.
        columns: titles of the columns.
        alt: alt text; ``None``: a sentence made from the data.

    Returns:
        The figure, with alt text.

    Raises:
        ValueError: there is no row, the rows differ in length, or a pattern is not square.
    """
    if not rows:
        raise ValueError(f"rows={rows!r}: must hold at least one")
    arrays = {name: to_array(name, value, 2) for name, value in rows.items()}
    sizes = {array.shape for array in arrays.values()}
    if len(sizes) != 1 or next(iter(sizes))[1] != side * side:
        raise ValueError(f"rows have shapes {sorted(sizes)}: must be one shape (K, {side * side})")
    count = next(iter(sizes))[0]
    if columns is not None and len(columns) != count:
        raise ValueError(f"columns={list(columns)!r}: must be {count} titles")
    cell = min(1.1, (PAGE_WIDTH - 1.0) / count)
    fig, axes = new_figure(
        max(cell * count + 1.2, 3.0), cell * len(arrays) + 0.5, rows=len(arrays), columns=count
    )
    for line, (name, array) in zip(axes, arrays.items(), strict=True):
        for j, (ax, pattern) in enumerate(zip(line, array, strict=True)):
            ax.imshow(pattern.reshape(side, side), cmap=_INK, vmin=-1, vmax=1)
            ax.set_axis_off()
            if j == 0:
                ax.text(-0.15, 0.5, name, transform=ax.transAxes, ha="right", va="center")
    if columns is not None:
        for ax, title in zip(axes[0], columns, strict=True):
            ax.set_title(title)
    return with_alt(
        fig,
        alt
        or f"{count} patterns of {side} by {side} pixels in each of {len(arrays)} rows: "
        f"{', '.join(arrays)}.",
    )


@styled
def pointers(
    weights: Any, items: Sequence[str], *, xlabel: str = "element", alt: str | None = None
) -> Figure:
    """A pointer network's distribution in each output step, its choices joined to the elements.

    Args:
        weights: (S, N), the distribution of each step.
        items: names of the N elements.
        xlabel: what an element is.
        alt: alt text; ``None``: a sentence made from the data.

    Returns:
        The figure, with alt text.

    Raises:
        ValueError: the number of names does not fit.
    """
    array = to_array("weights", weights, 2)
    if len(items) != array.shape[1]:
        raise ValueError(f"items={list(items)!r}: must be {array.shape[1]} names")
    fig, axes = new_figure(PAGE_WIDTH, 3.4, columns=2)
    ax, heat = axes[0]
    steps, count = array.shape
    for m, row in enumerate(array):
        for n, share in enumerate(row):
            if share > 0.01:
                ax.plot([n, m], [0, 1], color=COLOURS["gradient"], lw=3.2 * float(share),
                        alpha=float(0.25 + 0.75 * share), solid_capstyle="round")  # fmt: skip
    ax.plot(range(count), [0] * count, "s", color=COLOURS["memory"], ms=7)
    ax.plot(range(steps), [1] * steps, "o", color=COLOURS["kept"], ms=7)
    ax.set_yticks([0, 1], ["input", "output"])
    ax.set_xticks(range(count), list(items))
    ax.set(
        xlabel=xlabel, ylabel="pointing", xlim=(-0.5, max(count, steps) - 0.5), ylim=(-0.15, 1.15)
    )
    ax.grid(False)
    heat.imshow(array, cmap=_BLUES, vmin=0, vmax=1, aspect="auto")
    heat.grid(False)
    heat.set_xticks(range(count), list(items))
    heat.set_yticks(range(steps), [str(m + 1) for m in range(steps)])
    heat.set(xlabel=xlabel, ylabel="output step")
    told = ", ".join(
        f"step {m + 1} at {items[int(row.argmax())]} ({row.max():.2f})"
        for m, row in enumerate(array)
    )
    return with_alt(fig, alt or f"Pointers from output steps to input elements: {told}.")
