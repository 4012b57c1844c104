"""Learning curves, with a band over seeds and the level of guessing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from sab.checks import finite_float
from sab.figures.style import (
    COLOURS,
    PAGE_WIDTH,
    chance_line,
    new_figure,
    series_styles,
    styled,
    system_label,
    with_alt,
)

_LOG_METRICS = ("grad_norm", "grad_norm_max", "loss", "ce", "ce10")
_LABELS = {
    "grad_norm": "gradient norm before clipping",
    "grad_norm_max": "largest gradient norm before clipping",
    "loss": "training loss (nats)",
    "ce": "cross-entropy (nats)",
    "ce10": "cross-entropy of the answers (nats)",
    "update": "updates",
    "seconds": "seconds",
}


def _histories(name: str, records: Any) -> list[list[Mapping[str, Any]]]:
    """Histories of one curve, one a seed, from records, histories or a single history."""
    found: list[Any] = list(records) if isinstance(records, list | tuple) else [records]
    found = [vars(item) if hasattr(item, "history") else item for item in found]
    if found and all(isinstance(item, Mapping) and "history" in item for item in found):
        return [list(item["history"]) for item in found]
    if found and all(isinstance(item, Mapping) for item in found):
        return [list(found)]
    if found and all(isinstance(item, list | tuple) for item in found):
        return [list(item) for item in found]
    raise ValueError(f"records of {name!r}: must be records with a history, or one history")


def _series(
    name: str, histories: Iterable[Sequence[Mapping[str, Any]]], metric: str, x: str
) -> list[tuple[np.ndarray, np.ndarray]]:
    curves = []
    for history in histories:
        points = [
            (float(entry[x]), float(entry[metric]))
            for entry in history
            if entry.get(metric) is not None and entry.get(x) is not None
            and math.isfinite(float(entry[metric]))
        ]  # fmt: skip
        if not points:
            raise ValueError(f"history of {name!r} has no {metric!r} against {x!r}: must have some")
        points.sort()
        curves.append((np.array([p[0] for p in points]), np.array([p[1] for p in points])))
    return curves


@styled
def learning_curve(
    records: Any,
    *,
    metric: str = "accuracy",
    chance: float | None = None,
    x: str = "update",
    goal: float | None = None,
    log_y: bool | None = None,
    ylabel: str | None = None,
    alt: str | None = None,
) -> Figure:
    """A metric against training, one line a label, with a band over its seeds.

    The line is the mean over seeds and the band runs from their lowest to their highest. A run that
    ended early (solved) keeps its last value, and a dot marks its end.

    Args:
        records: a list of records (``Record`` or dict, one a seed, each with a ``history``), one
            bare history, or label → either.
        metric: key in the history. One that contains "accuracy" is a fraction, drawn in percent.
        chance: level of guessing in the metric's unit (a fraction for accuracy); must be given for
            an accuracy.
        x: key of the horizontal axis.
        goal: a level to mark, in the metric's unit.
        log_y: logarithmic axis; ``None``: for gradient norms and losses.
        ylabel: ``None``: made from the metric's name.
        alt: alt text; ``None``: a sentence made from the data.

    Returns:
        The figure, with alt text.

    Raises:
        ValueError: an accuracy without ``chance``, or a history without the metric.
    """
    accuracy = "accuracy" in metric
    if accuracy and chance is None:
        raise ValueError(f"chance=None: must be given to draw {metric!r}")
    if isinstance(records, Mapping) and "history" not in records:
        groups = {str(label): _histories(str(label), part) for label, part in records.items()}
    else:
        groups = {"": _histories("records", records)}
    if not groups:
        raise ValueError(f"records={records!r}: must hold at least one curve")
    scale = 100.0 if accuracy else 1.0
    logarithmic = log_y if log_y is not None else metric in _LOG_METRICS
    fig, axes = new_figure(PAGE_WIDTH, 3.1)
    ax = axes[0, 0]
    told = []
    for (label, histories), look in zip(groups.items(), series_styles(list(groups)), strict=True):
        curves = _series(label, histories, metric, x)
        grid = np.unique(np.concatenate([xs for xs, _ in curves]))
        begin = max(xs[0] for xs, _ in curves)
        grid = grid[grid >= begin]
        stacked = np.stack([np.interp(grid, xs, ys) for xs, ys in curves]) * scale
        mean = stacked.mean(0)
        seeds = len(curves)
        suffix = f" ({seeds} seeds, band: min–max)" if seeds > 1 else ""
        ax.plot(
            grid,
            mean,
            color=look["color"],
            ls=look["linestyle"],
            label=f"{system_label(label)}{suffix}".strip(),
            zorder=3,
        )
        if seeds > 1:
            ax.fill_between(
                grid,
                stacked.min(0),
                stacked.max(0),
                color=look["color"],
                alpha=0.17,
                lw=0,
                zorder=2,
            )
        for xs, ys in curves:
            ax.plot(xs[-1], ys[-1] * scale, "o", ms=4, color=look["color"], zorder=4)
        unit = " %" if accuracy else ""
        told.append(
            f"{label or metric} goes from {mean[0]:.3g}{unit} at {x} {grid[0]:g} to "
            f"{mean[-1]:.3g}{unit} at {grid[-1]:g}{f' over {seeds} seeds' if seeds > 1 else ''}"
        )
    if logarithmic:
        ax.set_yscale("log")
    if accuracy:
        ax.set_ylim(0, 103)
        ax.set_yticks(range(0, 101, 20))
    if chance is not None:
        level = finite_float("chance", chance)
        chance_line(ax, level * scale, None if accuracy else f"chance {level:.3g}")
        told.append(f"chance is {level * scale:g}{' %' if accuracy else ''}")
    if goal is not None:
        level = finite_float("goal", goal) * scale
        ax.axhline(level, color=COLOURS["gradient"], lw=1.0, ls=(0, (1, 2)), zorder=1)
        ax.annotate(
            f"goal {level:g}{' %' if accuracy else ''}", (0.005, level), xytext=(0, -2), va="top",
            xycoords=("axes fraction", "data"), textcoords="offset points", fontsize=8,
            color=COLOURS["gradient"],
        )  # fmt: skip
    named = metric.replace("_", " ")
    ax.set_ylabel(ylabel or (f"{named} (%)" if accuracy else _LABELS.get(metric, named)))
    ax.set_xlabel(_LABELS.get(x, x.replace("_", " ")))
    ax.set_xlim(left=0)
    if any(len(histories) > 1 for histories in groups.values()):
        ax.plot([], [], "o", ms=4, color=COLOURS["muted"], label="end of a run")
    if any(groups) or any(len(histories) > 1 for histories in groups.values()):
        fig.legend(loc="outside upper left", ncols=2 if len(groups) > 2 else 3)
    return with_alt(fig, alt or f"Learning curves of {named}. {'; '.join(told)}.")
