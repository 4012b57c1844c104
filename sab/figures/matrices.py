"""Figures of matrices: credit from step to step, and attention over the memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, ListedColormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from sab.figures.style import (
    COLOURS,
    PAGE_WIDTH,
    as_panels,
    new_figure,
    styled,
    to_array,
    with_alt,
)

_BLUES = LinearSegmentedColormap.from_list("credit", ["#d6e8f5", "#5aa5d6", "#0072b2", "#06304d"])
_INK = LinearSegmentedColormap.from_list(
    "attention", [COLOURS["panel"], "#e2a06a", "#8a3a00", "#2b1200"]
)
_FUTURE = "#efede7"
_MOST_COLUMNS = 3


def _ticks(ax: Axes, which: str, count: int) -> None:
    """Whole-number ticks that begin at step 1 and stay few."""
    stride = next(
        step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, count) if count / step <= 8
    )
    marks = [1, *range(stride, count + 1, stride)] if stride > 1 else list(range(1, count + 1))
    if stride > 2 and len(marks) > 1 and marks[1] - 1 < stride / 2:
        marks = marks[1:]
    getattr(ax, f"set_{which}ticks")(marks)


@styled
def credit_matrix(
    matrix: Any,
    *,
    memory_steps: Sequence[int] | None = None,
    output_steps: tuple[int, int] | None = None,
    ylabel: str = "loss at output step",
    alt: str | None = None,
) -> Figure:
    """Which loss (row) reaches which input (column), as a matrix or several side by side.

    Args:
        matrix: (T, T), or title → (T, T). Booleans are drawn as reached or not; numbers (gradient
            norms, any unit) on a logarithmic colour scale shared by the panels, with exact zeros
            left blank.
        memory_steps: 1-based steps at which a state was written, marked on the upper edge.
        output_steps: 1-based (first, last) output steps to mark on the right edge.
        ylabel: what a row stands for, where it is not a loss.
        alt: alt text; ``None``: a sentence made from the data.

    Returns:
        The figure, with alt text.

    Raises:
        ValueError: a matrix is not square, is negative or not finite, or the panels mix kinds.

    Source: paper section 3.2; the data come from ``credit_graph`` or ``credit_autograd``.
    """
    panels = {
        title: to_array("matrix", array, 2) for title, array in as_panels("matrix", matrix).items()
    }
    kinds = {array.dtype == bool for array in panels.values()}
    if len(kinds) > 1:
        raise ValueError("matrix mixes booleans and numbers: must be one kind in all panels")
    graph = kinds.pop()
    for title, array in panels.items():
        if array.shape[0] != array.shape[1]:
            raise ValueError(f"matrix {title!r} has shape {array.shape}: must be square")
        if not graph and (not np.isfinite(array).all() or array.min() < 0):
            raise ValueError(f"matrix {title!r}: must hold finite numbers of at least 0")
    columns = min(len(panels), _MOST_COLUMNS)
    share: Any = "row" if len({array.shape for array in panels.values()}) == 1 else False
    rows = -(-len(panels) // columns)
    width = 5.4 if columns == 1 else PAGE_WIDTH
    side = (width - 1.0) / columns
    fig, axes = new_figure(
        width,
        (side + 0.55) * rows + (0.75 if any(panels) else 0.45),
        rows=rows,
        columns=columns,
        sharey=share,
    )
    positive = np.concatenate([array[array > 0].ravel() for array in panels.values()])
    if not positive.size:
        raise ValueError("matrix holds no reached input: must hold at least one")
    norm = None if graph else LogNorm(*_decades(positive))
    image = None
    for ax, (title, array) in zip(axes.flat, panels.items(), strict=False):
        steps = array.shape[0]
        extent = (0.5, steps + 0.5, steps + 0.5, 0.5)
        ax.grid(False)
        future = np.where(np.triu(np.ones((steps, steps)), 1) > 0, 1.0, np.nan)
        ax.imshow(future, extent=extent, cmap=ListedColormap([_FUTURE]), interpolation="nearest")
        shown = np.ma.masked_where(array == 0, array.astype(float))
        if graph:
            ax.imshow(
                shown,
                extent=extent,
                cmap=ListedColormap([COLOURS["gradient"]]),
                interpolation="nearest",
            )
        else:
            image = ax.imshow(shown, extent=extent, cmap=_BLUES, norm=norm, interpolation="nearest")
        if memory_steps is not None:
            ax.scatter(
                list(memory_steps), [0.5] * len(memory_steps), marker="v", s=20,
                color=COLOURS["memory"], edgecolors=COLOURS["kept"], linewidths=0.5, clip_on=False,
                zorder=5,
            )  # fmt: skip
        if output_steps is not None:
            first, last = output_steps
            ax.plot(
                [steps + 0.5] * 2, [first - 0.5, last + 0.5], color=COLOURS["kept"], lw=4,
                clip_on=False, solid_capstyle="butt", zorder=5,
            )  # fmt: skip
        ax.set_title(title, pad=9 if memory_steps is not None else 4)
        ax.set_xlabel("input step")
        _ticks(ax, "x", steps)
        _ticks(ax, "y", steps)
    for ax in list(axes.flat)[len(panels) :]:
        ax.set_visible(False)
    for row in axes:
        for ax in row[:1] if share else row:
            ax.set_ylabel(ylabel)
    if image is not None:
        bar = fig.colorbar(image, ax=axes.ravel().tolist(), shrink=0.8, pad=0.02)
        bar.set_label("gradient norm")
        bar.outline.set_visible(False)
    _matrix_key(fig, graph, memory_steps is not None, output_steps is not None)
    told = "; ".join(
        f"{title or 'the matrix'}: {int((array > 0).sum())} of "
        f"{array.shape[0] * (array.shape[0] + 1) // 2} past and present pairs reached"
        for title, array in panels.items()
    )
    what = "reached inputs filled" if graph else "gradient norms on a logarithmic colour scale"
    return with_alt(
        fig,
        alt
        or f"Credit matrix, output steps from top to bottom against input steps from left to "
        f"right, {what}. {told}.",
    )


def _decades(positive: np.ndarray) -> tuple[float, float]:
    low, high = float(positive.min()), float(positive.max())
    return low, high if high > low else low * 10


def _matrix_key(fig: Figure, graph: bool, memory: bool, outputs: bool) -> None:
    fill = "reached" if graph else "gradient above 0"
    handles: list[Any] = [Patch(facecolor=COLOURS["gradient"], label=fill)]
    handles.append(Patch(facecolor=COLOURS["panel"], edgecolor=COLOURS["edge"], label="exactly 0"))
    handles.append(Patch(facecolor=_FUTURE, edgecolor=COLOURS["edge"], label="future"))
    if memory:
        handles.append(Patch(facecolor=COLOURS["memory"], label="memory written"))
    if outputs:
        handles.append(Patch(facecolor=COLOURS["kept"], label="answers"))
    fig.legend(
        handles=handles, loc="outside lower center", ncols=len(handles), handlelength=1.0,
        handleheight=1.0, columnspacing=1.4,
    )  # fmt: skip


@styled
def attention_map(
    weights: Any,
    *,
    output_steps: Sequence[int] | None = None,
    relevant: tuple[int, int] | None = None,
    columns: Sequence[int] | None = None,
    alt: str | None = None,
) -> Figure:
    """How much each output step reads of each memory; several moments of training are stacked.

    Args:
        weights: (R, C) read weights between 0 and 1, a row an output step and a column a memory
            position; or title → (R, C).
        output_steps: R labels of the rows; ``None``: 1 … R.
        relevant: 1-based (first, last) positions that hold what is to be recalled, marked on top.
        columns: C labels of the columns (the steps at which they were written); ``None``: 1 … C.
        alt: alt text; ``None``: a sentence made from the data.

    Returns:
        The figure, with alt text.

    Raises:
        ValueError: panels differ in shape, a weight lies outside 0 … 1, or labels don't fit.

    Source: paper section 4, the figure beside Table 3; the data come from ``Recall.matrix``.
    """
    panels = {
        title: to_array("weights", array, 2)
        for title, array in as_panels("weights", weights).items()
    }
    shapes = {array.shape for array in panels.values()}
    if len(shapes) > 1:
        raise ValueError(f"weights has panels of shapes {sorted(shapes)}: must be equal")
    rows, width = shapes.pop()
    labels = list(range(1, rows + 1)) if output_steps is None else list(output_steps)
    positions = np.arange(1, width + 1) if columns is None else np.asarray(list(columns))
    if len(labels) != rows or len(positions) != width:
        raise ValueError(
            f"output_steps and columns have {len(labels)} and {len(positions)} labels: "
            f"must be {rows} and {width}"
        )
    for title, array in panels.items():
        if not np.isfinite(array).all() or array.min() < 0 or array.max() > 1 + 1e-6:
            raise ValueError(f"weights {title!r}: must lie between 0 and 1")
    stride = float(positions[1] - positions[0]) if width > 1 else 1.0
    left, right = float(positions[0]) - stride / 2, float(positions[-1]) + stride / 2
    height = min(2.0, max(1.2, 0.13 * rows + 0.5))
    fig, axes = new_figure(PAGE_WIDTH, height * len(panels) + 0.6, rows=len(panels), sharex=True)
    image = None
    for ax, (title, array) in zip(axes[:, 0], panels.items(), strict=True):
        ax.grid(False)
        image = ax.imshow(
            array, cmap=_INK, vmin=0, vmax=1, aspect="auto", interpolation="nearest",
            extent=(left, right, rows + 0.5, 0.5),
        )  # fmt: skip
        if relevant is not None:
            first, last = relevant
            ax.plot(
                [max(first - 0.5, left), min(last + 0.5, right)], [0.5, 0.5], lw=4, clip_on=False,
                color=COLOURS["gradient"], solid_capstyle="butt", zorder=5,
            )  # fmt: skip
        marks = sorted({0, rows // 2, rows - 1})
        ax.set_yticks([mark + 1 for mark in marks], [str(labels[mark]) for mark in marks])
        ax.set_ylabel("output step")
        ax.set_title(title, loc="left", pad=5)
        for side in ("top", "right"):
            ax.spines[side].set_visible(True)
    axes[-1, 0].set_xlabel("step at which the memory was written")
    assert image is not None
    bar = fig.colorbar(
        image,
        ax=axes[:, 0].tolist(),
        pad=0.015,
        shrink=min(1.0, 0.5 + 0.25 * len(panels)),
        aspect=16,
    )
    bar.set_label("read weight")
    bar.outline.set_visible(False)
    if relevant is not None:
        fig.legend(
            handles=[Patch(facecolor=COLOURS["gradient"], label="positions to be recalled")],
            loc="outside upper right", handlelength=1.2, handleheight=0.5,
        )  # fmt: skip
    return with_alt(fig, alt or _tell_attention(panels, positions, labels, relevant))


def _tell_attention(
    panels: Mapping[str, np.ndarray],
    positions: np.ndarray,
    labels: Sequence[int],
    relevant: tuple[int, int] | None,
) -> str:
    parts = []
    for title, array in panels.items():
        mass = array.sum(1).clip(min=1e-12)
        mean = (array * positions).sum(1) / mass
        text = (
            f"{title or 'the map'}: mean position read goes from {mean[0]:.1f} at output step "
            f"{labels[0]} to {mean[-1]:.1f} at step {labels[-1]}"
        )
        if relevant is not None:
            inside = (positions >= relevant[0]) & (positions <= relevant[1])
            share = array[:, inside].sum() / max(array.sum(), 1e-12)
            text += (
                f", {100 * share:.0f} % of the weight on positions {relevant[0]} to {relevant[1]}"
            )
        parts.append(text)
    return (
        "Attention map, output steps from top to bottom against memory positions from left to "
        "right, "
        f"darker for a higher read weight. {'; '.join(parts)}."
    )
