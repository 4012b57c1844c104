"""Curves against sequence length: accuracy on longer sequences, and cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

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


def _draw_system(
    ax: Axes, points: Sequence[tuple[float, float | None]], **look: Any
) -> float | None:
    """Draw a curve up to its first missing value, and that below chance, where no curve runs.

    Returns the length at which it went missing.
    """
    ordered = sorted(points, key=lambda point: point[0])
    missing = next((length for length, value in ordered if value is None), None)
    drawn = [(length, 100 * float(value)) for length, value in ordered if value is not None]
    ax.plot([point[0] for point in drawn], [point[1] for point in drawn], **look)
    if missing is not None and drawn:
        ax.plot([missing], [3], color=look["color"], marker="x", ms=5, ls="none", zorder=4)
        ax.annotate(
            f"out of memory at {missing:g}", (missing, 3), xytext=(-6, 0),
            textcoords="offset points", ha="right", va="center", fontsize=8, color=look["color"],
        )  # fmt: skip
    return missing


@styled
def transfer_curve(
    points: Mapping[str, Sequence[tuple[float, float | None]]],
    *,
    chance: float,
    paper: Mapping[str, Sequence[tuple[float, float | None]]] | None = None,
    bands: Mapping[str, Sequence[tuple[float, float, float]]] | None = None,
    trained_at: float | None = None,
    xlabel: str = "test delay T (steps, logarithmic)",
    alt: str | None = None,
) -> Figure:
    """Accuracy on longer sequences than those trained on; ours solid, the paper's hollow and thin.

    Args:
        points: system → (length, accuracy as a fraction) pairs; an accuracy of ``None`` means that
            the run did not fit in memory.
        chance: accuracy of guessing, a fraction.
        paper: the paper's points in the same form; a system keeps its colour.
        bands: system → (length, low, high) of an interval, fractions; drawn around its points.
        trained_at: length trained on, marked by a vertical line.
        xlabel: name and unit of the horizontal axis.
        alt: alt text; ``None``: a sentence made from the data.

    Returns:
        The figure, with alt text.

    Raises:
        ValueError: there is no point, an accuracy lies outside 0 … 1, or a band belongs to no
            system or is upside down.

    Source: paper section 4, Table 5.
    """
    quoted = dict(paper or {})
    names = list(points) + [name for name in quoted if name not in points]
    if not names:
        raise ValueError(f"points={points!r}: must hold at least one system")
    for group in (points, quoted):
        for name, pairs in group.items():
            for length, value in pairs:
                if length <= 0 or (value is not None and not 0 <= value <= 1):
                    raise ValueError(
                        f"{name!r} has ({length}, {value}): must be a positive length, a fraction"
                    )
    for name, triples in (bands or {}).items():
        if name not in points or not all(0 <= low <= high <= 1 for _, low, high in triples):
            raise ValueError(f"bands[{name!r}]={list(triples)}: must be (length, low, high)")
    fig, axes = new_figure(PAGE_WIDTH, 3.3)
    ax = axes[0, 0]
    ax.set_xscale("log")
    told = []
    looks = dict(zip(names, series_styles(names), strict=True))
    for name in names:
        look = looks[name]
        if bands and name in bands:
            at, low, high = zip(*sorted(bands[name]), strict=True)
            ax.fill_between(
                at, [100 * v for v in low], [100 * v for v in high], color=look["color"],
                alpha=0.18, lw=0, zorder=2,
            )  # fmt: skip
            told.append(f"{name} lies between {100 * min(low):.1f} and {100 * max(high):.1f} %")
        for source, group in (("ours", points), ("paper", quoted)):
            if name not in group:
                continue
            ours = source == "ours"
            _draw_system(
                ax, group[name], color=look["color"], marker=look["marker"], ms=5.5 if ours else 5,
                ls="-" if ours else (0, (3, 2)), lw=2.0 if ours else 1.1, zorder=4 if ours else 3,
                mfc=look["color"] if ours else COLOURS["panel"],
                label=f"{system_label(name)}, {source}" if quoted else system_label(name),
            )  # fmt: skip
            values = [
                f"{length:g}: {'out of memory' if v is None else f'{100 * v:.0f} %'}"
                for length, v in group[name]
            ]
            told.append(f"{name} ({source}) {', '.join(values)}")
    chance_line(ax, 100 * finite_float("chance", chance, 0, 1))
    if trained_at is not None:
        ax.axvline(trained_at, color=COLOURS["edge"], lw=1.2, ls=(0, (1, 2)), zorder=1)
        ax.annotate(
            "trained here", (trained_at, 2), xytext=(4, 0), textcoords="offset points", fontsize=8,
            color=COLOURS["muted"],
        )  # fmt: skip
    lengths = sorted(
        {length for group in (points, quoted) for pairs in group.values() for length, _ in pairs}
    )
    ax.xaxis.set_major_locator(FixedLocator(_thin(lengths)))
    ax.xaxis.set_major_formatter(FixedFormatter([f"{length:g}" for length in _thin(lengths)]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_ylim(0, 104)
    ax.set_yticks(range(0, 101, 20))
    ax.set_xlabel(xlabel)
    ax.set_ylabel("accuracy (%)")
    fig.legend(loc="outside upper left", ncols=min(3, len(names)))
    return with_alt(
        fig,
        alt
        or f"Accuracy against test length on a logarithmic axis; chance is {100 * chance:g} %. "
        f"{'; '.join(told)}.",
    )


def _thin(lengths: Sequence[float]) -> list[float]:
    """Leave out labels that would touch on a logarithmic axis."""
    span = math.log(lengths[-1] / lengths[0]) or 1.0
    kept = [lengths[0]]
    for length in lengths[1:]:
        if math.log(length / kept[-1]) > 0.06 * span:
            kept.append(length)
    return kept


@styled
def scaling(
    points: Mapping[str, Sequence[tuple[float, float]]],
    *,
    slopes: Mapping[str, float] | None = None,
    ylabel: str = "milliseconds a training step",
    xlabel: str = "sequence length T (steps)",
    symbol: str = "T",
    alt: str | None = None,
) -> Figure:
    """Cost against length on two logarithmic axes, with the exponent of each fit in the legend.

    Args:
        points: label → (length, cost) pairs, both positive.
        slopes: label → fitted exponent (see ``sab.analysis.cost.fit_slope``).
        ylabel: name and unit of the cost.
        xlabel: name and unit of the length.
        symbol: the length's letter, to which the legend puts the exponents.
        alt: alt text; ``None``: a sentence made from the data.

    Returns:
        The figure, with alt text.

    Raises:
        ValueError: there is no point, or one is not positive.

    Source: paper section 8.
    """
    if not points or not all(points.values()):
        raise ValueError(f"points={points!r}: must hold at least one pair a label")
    for label, pairs in points.items():
        if min(min(pair) for pair in pairs) <= 0:
            raise ValueError(f"points[{label!r}]={list(pairs)}: must be positive")
    fitted = dict(slopes or {})
    fig, axes = new_figure(PAGE_WIDTH, 3.3)
    ax = axes[0, 0]
    ax.set_xscale("log")
    ax.set_yscale("log")
    told = []
    for (label, pairs), look in zip(points.items(), series_styles(list(points)), strict=True):
        xs, ys = zip(*sorted(pairs), strict=True)
        slope = f", ${symbol}^{{{fitted[label]:.2f}}}$" if label in fitted else ""
        ax.plot(
            xs, ys, color=look["color"], marker=look["marker"], ls=look["linestyle"], ms=5,
            label=f"{system_label(label)}{slope}",
        )  # fmt: skip
        exponent = f", exponent {fitted[label]:.2f}" if label in fitted else ""
        told.append(
            f"{label} from {ys[0]:.3g} at {xs[0]:g} to {ys[-1]:.3g} at {xs[-1]:g}{exponent}"
        )
    lengths = sorted({length for pairs in points.values() for length, _ in pairs})
    ax.xaxis.set_major_locator(FixedLocator(_thin(lengths)))
    ax.xaxis.set_major_formatter(FixedFormatter([f"{length:g}" for length in _thin(lengths)]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    fig.legend(loc="outside upper left", ncols=min(2, len(points)))
    return with_alt(fig, alt or f"{ylabel} against {xlabel}, both logarithmic. {'; '.join(told)}.")
