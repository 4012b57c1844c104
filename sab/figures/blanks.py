"""What happens to the memory of a waiting network: settling states, crowded reads, overtaking."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from sab.figures.style import (
    COLOURS,
    PAGE_WIDTH,
    new_figure,
    series_styles,
    styled,
    system_label,
    to_array,
    with_alt,
)

_SERIES = ("kept", "gradient", "memory", "summary")


@styled
def settling_curve(
    curves: Mapping[str, tuple[Any, Any]], *, trained: float | None = None, alt: str | None = None
) -> Figure:
    """How far the state moves in a step while it waits; a line a sequence, a panel a model.

    Args:
        curves: title → (steps (L,), distances (B, L)); zeros are drawn at the lowest positive one.
        trained: last waiting step seen in training, marked in every panel.
        alt: alt text; ``None``: a sentence made from the data.

    Returns:
        The figure, with alt text.

    Raises:
        ValueError: there is no panel, a shape does not fit, or all distances are 0.
    """
    if not curves:
        raise ValueError(f"curves={curves!r}: must hold at least one panel")
    fig, axes = new_figure(PAGE_WIDTH, 2.7, columns=len(curves), sharey=True)
    told = []
    for ax, (title, (steps, distances)) in zip(axes[0], curves.items(), strict=True):
        xs, ys = to_array("steps", steps, 1), to_array("distances", distances, 2).astype(float)
        if ys.shape[1] != len(xs) or not (ys > 0).any():
            raise ValueError(
                f"{title!r} has distances of shape {ys.shape}: must be positive, {len(xs)} a line"
            )
        ys = np.maximum(ys, ys[ys > 0].min())
        ax.plot(xs, ys.T, color=COLOURS["scored"], lw=0.7, alpha=0.8)
        middle = np.median(ys, 0)
        ax.plot(xs, middle, color=COLOURS["gradient"], lw=2.0, label="median")
        ax.set(xscale="log", yscale="log", xlabel="step", title=title)
        if trained is not None:
            ax.axvline(trained, color=COLOURS["edge"], lw=1.2, ls=(0, (1, 2)))
        told.append(
            f"{title}: the median falls from {middle[0]:.2g} at step {xs[0]:g} to {middle[-1]:.2g} "
            f"at {xs[-1]:g}, the largest of {len(ys)} ends at {ys[:, -1].max():.2g}"
        )
    axes[0, 0].set_ylabel("distance to the state before")
    axes[0, 0].legend(loc="lower left")
    return with_alt(fig, alt or f"Movement of the state against the step. {'; '.join(told)}.")


@styled
def score_margins(panels: Mapping[str, Mapping[str, Any]], *, alt: str | None = None) -> Figure:
    """Scores above the threshold, answer by answer: median and middle 90 % over sequences.

    Args:
        panels: title → series → (B, A) scores less the threshold of the same read; the panels
            share their series.
        alt: alt text; ``None``: a sentence made from the data.

    Returns:
        The figure, with alt text.

    Raises:
        ValueError: there is no panel or more than four series.
    """
    if not panels or not all(0 < len(series) <= len(_SERIES) for series in panels.values()):
        raise ValueError(f"panels={list(panels)}: must hold panels of one to four series")
    fig, axes = new_figure(PAGE_WIDTH, 2.9, columns=len(panels), sharey=True)
    told = []
    for ax, (title, series) in zip(axes[0], panels.items(), strict=True):
        ax.axhline(0, color=COLOURS["text"], lw=1.0, ls=(0, (4, 3)))
        for place, (name, values) in enumerate(series.items()):
            data = to_array(name, values, 2)
            low, middle, high = np.quantile(data, (0.05, 0.5, 0.95), axis=0)
            at = np.arange(1, data.shape[1] + 1) + 0.2 * (place - (len(series) - 1) / 2)
            ax.errorbar(
                at, middle, [middle - low, high - middle], fmt="osDv"[place], ms=4, lw=1.1,
                color=COLOURS[_SERIES[place]], label=name,
            )  # fmt: skip
            told.append(
                f"{title}, {name}: medians {middle.min():.1f} to {middle.max():.1f} over answers"
            )
        ax.set(xlabel="answer", title=title)
        ax.set_xticks(range(1, data.shape[1] + 1))
    axes[0, 0].set_ylabel("score − threshold")
    handles, names = axes[0, 0].get_legend_handles_labels()
    fig.legend(handles, names, loc="outside upper left", ncols=len(names))
    return with_alt(fig, alt or f"Scores against the threshold of their read. {'; '.join(told)}.")


@styled
def share_against(
    curves: Mapping[str, tuple[Any, Any]],
    *,
    xlabel: str,
    ylabel: str,
    alt: str | None = None,
) -> Figure:
    """Shares between 0 and 1 against a count on a logarithmic axis, as percent.

    Args:
        curves: label → (counts (L,), shares (L,)); a look is chosen by the label as elsewhere.
        xlabel: name of the count.
        ylabel: what the share is of.
        alt: alt text; ``None``: a sentence made from the data.

    Returns:
        The figure, with alt text.

    Raises:
        ValueError: there is no curve, a count is not positive or a share lies outside 0 … 1.
    """
    if not curves:
        raise ValueError(f"curves={curves!r}: must hold at least one curve")
    fig, axes = new_figure(PAGE_WIDTH, 2.8)
    ax = axes[0, 0]
    told = []
    looks = series_styles(list(curves))
    for (label, (counts, shares)), look in zip(curves.items(), looks, strict=True):
        xs, ys = to_array("counts", counts, 1), to_array("shares", shares, 1).astype(float)
        if xs.shape != ys.shape or xs.min() <= 0 or ys.min() < -1e-6 or ys.max() > 1 + 1e-6:
            raise ValueError(f"{label!r}: must be positive counts and as many shares in 0 … 1")
        ax.plot(xs, 100 * ys, color=look["color"], ls=look["linestyle"], label=system_label(label))
        told.append(
            f"{label} goes from {100 * ys[0]:.1f} % at {xs[0]:g} to {100 * ys[-1]:.1f} % at "
            f"{xs[-1]:g}"
        )
    ax.set(xscale="log", xlabel=xlabel, ylabel=ylabel, ylim=(-2, 104))
    fig.legend(loc="outside upper left", ncols=min(3, len(curves)))
    return with_alt(fig, alt or f"{ylabel} against {xlabel}. {'; '.join(told)}.")
