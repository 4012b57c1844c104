"""Figures of Part III: the layer's channels, which scores a window computes, curves, a dot plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle
from matplotlib.ticker import MaxNLocator

from sab.checks import finite_float, positive_int
from sab.figures.style import (
    COLOURS,
    PAGE_WIDTH,
    chance_line,
    new_figure,
    series_styles,
    styled,
    with_alt,
)


def _box(ax: Axes, x: float, y: float, text: str, fill: str, edge: str, width: float = 1.9) -> None:
    patch = FancyBboxPatch(
        (x - width / 2, y - 0.27), width, 0.54, boxstyle="round,pad=0.04,rounding_size=0.1",
        fc=COLOURS[fill], ec=COLOURS[edge], lw=1.2,
    )  # fmt: skip
    ax.add_patch(patch)
    ax.text(x, y, text, ha="center", va="center", fontsize=8.5)


def _arrow(ax: Axes, start: tuple[float, float], end: tuple[float, float], **look: Any) -> None:
    style = {"arrowstyle": "-|>", "color": COLOURS["text"], "lw": 1.2, "shrinkA": 0, "shrinkB": 0}
    ax.annotate("", end, start, arrowprops={**style, **look})


@styled
def rea_channels(alt: str | None = None) -> Figure:
    """The layer as a diagram: stream, window attention, running state, and the gate.

    Returns:
        The figure, with alt text.

    Source: the article on REA, sections 2.1 to 2.3.
    """
    fig, axes = new_figure(PAGE_WIDTH, 2.7)
    ax = axes[0, 0]
    ax.set_axis_off()
    ax.set_xlim(0, 10)
    ax.set_ylim(0, 3.7)
    _box(ax, 0.8, 1.8, "$x_i$", "cell", "edge", 0.8)
    _box(ax, 3.3, 3.2, "window attention\n(details nearby)", "gradient_fill", "gradient", 2.5)
    _box(ax, 3.3, 0.4, "running state $s_i$\n(summary of the past)", "memory_fill", "memory", 2.5)
    _box(ax, 6.2, 1.15, "gate $g_i$, 0 to 1", "summary_fill", "summary", 1.7)
    _box(ax, 9.2, 1.8, "+", "cell", "edge", 0.5)
    for y in (3.2, 0.4):
        _arrow(ax, (1.25, 1.95 if y > 1.8 else 1.65), (1.98, y))
    for start, end in (((4.6, 3.1), (5.7, 1.5)), ((4.6, 0.5), (5.28, 0.95))):
        _arrow(ax, start, end, ls=(0, (3, 2)), lw=1.0)
    _arrow(ax, (4.6, 3.2), (9.05, 2.15), color=COLOURS["gradient"])
    ax.plot([4.6, 7.8], [0.4, 0.4], color=COLOURS["memory"], lw=1.4)
    ax.text(7.9, 0.4, "×", ha="center", va="center", fontsize=15, color=COLOURS["summary"])
    _arrow(ax, (7.1, 1.05), (7.82, 0.58), color=COLOURS["summary"])
    _arrow(ax, (8.05, 0.45), (9.05, 1.45), color=COLOURS["memory"])
    _arrow(ax, (1.25, 1.8), (8.9, 1.8), color=COLOURS["muted"])
    ax.text(7.9, 1.9, "stream", fontsize=8, color=COLOURS["muted"], ha="center")
    ax.text(9.6, 1.8, "out", fontsize=8.5, va="center")
    return with_alt(
        fig,
        alt
        or "Diagram of the layer. The input goes three ways: unchanged along the stream, through "
        "attention in a window, and into a running state. A gate reads attention and state and "
        "multiplies the state; the three are added.",
    )


@styled
def window_scores(
    length: int = 16, window: int = 4, *, causal: bool = False, alt: str | None = None
) -> Figure:
    """Which scores the masked and the blocked form compute, and which of them count.

    Args:
        length: positions N.
        window: greatest distance, and length of a block.
        causal: whether nobody looks ahead.
        alt: alt text; ``None``: a sentence made from the data.

    Returns:
        The figure, with alt text.

    Raises:
        ValueError: a size is not a positive integer.
    """
    positive_int("length", length)
    positive_int("window", window)
    i, j = np.indices((length, length))
    counts = (abs(i - j) <= window) & ((j <= i) | (not causal))
    blocks = i // window - j // window
    blocked = (blocks <= 1) & (blocks >= (0 if causal else -1))
    fig, axes = new_figure(PAGE_WIDTH, 3.3, columns=2, sharey=True)
    titles = ("masked: all pairs", f"blocked: blocks of {window}")
    for ax, title, computed in zip(axes[0], titles, (counts | True, blocked), strict=True):
        for row in range(length):
            for column in range(length):
                fill = "memory" if counts[row, column] else "cell"
                if computed[row, column]:
                    ax.add_patch(
                        Rectangle((column + 0.55, row + 0.55), 0.9, 0.9, fc=COLOURS[fill], lw=0)
                    )
        ax.set_xlim(0.5, length + 0.5)
        ax.set_ylim(length + 0.5, 0.5)
        ax.set_aspect("equal")
        ax.grid(False)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.set_title(f"{title}, {int(computed.sum())} scores")
        ax.set_xlabel("looked at (position)")
    axes[0, 0].set_ylabel("looking (position)")
    return with_alt(
        fig,
        alt
        or f"Two grids of {length} by {length} positions. Left, all {length**2} scores are "
        f"computed; right, the {int(blocked.sum())} of neighbouring blocks. In both, the "
        f"{int(counts.sum())} scores within {window} steps count.",
    )


@styled
def curves(
    points: Mapping[str, Sequence[tuple[float, float]]],
    *,
    xlabel: str,
    ylabel: str,
    log_x: bool = False,
    log_y: bool = False,
    level: float | None = None,
    level_label: str = "",
    markers: bool = True,
    alt: str | None = None,
) -> Figure:
    """Lines through points, one a label.

    Args:
        points: label → (x, y) pairs.
        xlabel: name and unit of the horizontal axis.
        ylabel: name and unit of the vertical axis.
        log_x: logarithmic horizontal axis.
        log_y: the same of the vertical one.
        level: height of a dashed line (guessing, or no change).
        level_label: text on it.
        markers: mark the points.
        alt: alt text; ``None``: a sentence made from the data.

    Returns:
        The figure, with alt text.

    Raises:
        ValueError: there is no point.
    """
    if not points or not all(points.values()):
        raise ValueError(f"points={points!r}: must hold at least one pair a label")
    fig, axes = new_figure(PAGE_WIDTH, 3.2)
    ax = axes[0, 0]
    told = []
    for (label, pairs), look in zip(points.items(), series_styles(list(points)), strict=True):
        xs, ys = zip(*sorted(pairs), strict=True)
        if not markers:
            look = {**look, "marker": ""}
        ax.plot(xs, ys, ms=5, label=label, **look)
        told.append(f"{label} from {ys[0]:.3g} at {xs[0]:g} to {ys[-1]:.3g} at {xs[-1]:g}")
    if log_x:
        ax.set_xscale("log")
    if log_y:
        ax.set_yscale("log")
    if level is not None:
        chance_line(ax, level, level_label or None)
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    fig.legend(loc="outside upper left", ncols=min(3, len(points)))
    return with_alt(fig, alt or f"{ylabel} against {xlabel}. {'; '.join(told)}.")


@styled
def accuracy_dots(
    groups: Mapping[str, Mapping[str, Sequence[float]]],
    *,
    chance: float,
    measure: str = "balanced accuracy",
    alt: str | None = None,
) -> Figure:
    """Balanced accuracy, or another measure, of systems, a dot a seed, one panel a group.

    Args:
        groups: panel title → system → fractions, one a seed.
        chance: what guessing reaches, a fraction.
        measure: what the fractions are.
        alt: alt text; ``None``: a sentence made from the data.

    Returns:
        The figure, with alt text.

    Raises:
        ValueError: there is nothing to draw, or ``chance`` is no fraction.
    """
    if not groups or not all(groups.values()):
        raise ValueError(f"groups={groups!r}: must hold at least one system a group")
    level = 100 * finite_float("chance", chance, 0, 1)
    names = list(dict.fromkeys(name for group in groups.values() for name in group))
    height = 1.2 + 0.3 * len(names)
    fig, axes = new_figure(PAGE_WIDTH, height, columns=len(groups), sharey=True)
    told = []
    for ax, (title, group) in zip(axes[0], groups.items(), strict=True):
        for name, values in group.items():
            at = len(names) - 1 - names.index(name)
            percent = [100 * value for value in values]
            spread = np.linspace(-0.12, 0.12, len(percent)) if len(percent) > 1 else [0.0]
            ax.plot(
                percent, at + np.asarray(spread), "o", color=COLOURS["gradient"], ms=5, alpha=0.8
            )
            told.append(f"{title}, {name}: {np.mean(percent):.0f} %")
        ax.axvline(level, color=COLOURS["chance"], lw=1.2, ls=(0, (4, 3)), gid="chance")
        ax.set_xlim(min(40, level - 10), 103)
        ax.set_yticks(range(len(names)), names[::-1])
        ax.set_ylim(-0.6, len(names) - 0.4)
        ax.set_title(title)
        ax.set_xlabel(f"{measure} (%)")
        ax.annotate(
            "guessing", (level, len(names) - 0.45), xytext=(3, 0), textcoords="offset points",
            fontsize=8, color=COLOURS["chance"], va="top",
        )  # fmt: skip
    axes[0, 0].set_ylabel("system")
    return with_alt(
        fig,
        alt
        or f"{measure[:1].upper()}{measure[1:]}, a dot a seed; "
        f"guessing has {level:g} %. {'; '.join(told)}.",
    )
