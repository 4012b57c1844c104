"""What switches do to learning: accuracy and gradient norm, a line a switch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from sab.analysis.effects import Effect
from sab.checks import finite_float
from sab.figures.style import COLOURS, PAGE_WIDTH, new_figure, styled, with_alt


@styled
def switch_effects(
    rows: Sequence[Effect] | Mapping[str, Effect],
    *,
    chance: float,
    base: str | None = None,
    noise: tuple[float, float] | None = None,
    alt: str | None = None,
) -> Figure:
    """A line a switch: its accuracy on the left, its largest gradient norm on the right.

    Args:
        rows: effects in drawing order from the top, or label → effect. One without records is
            drawn as the words "not run".
        chance: accuracy of guessing, a fraction.
        base: the ``row`` that the others differ from in one switch; its values become guide lines.
        noise: lowest and highest accuracy of runs of one setting, fractions; shaded.
        alt: alt text; ``None``: a sentence made from the data.

    Returns:
        The figure, with alt text.

    Raises:
        ValueError: there is no row, no row has a record, or ``noise`` is no range of fractions.

    Source: records of the experiment ``learns``.
    """
    named = dict(rows) if isinstance(rows, Mapping) else {row.title: row for row in rows}
    if not any(row.n for row in named.values()):
        raise ValueError(f"rows={list(named)!r}: must hold at least one with records")
    places = range(len(named))
    fig, axes = new_figure(PAGE_WIDTH, 0.27 * len(named) + 1.0, columns=2, sharey=True)
    left, right = axes[0]
    level = 100 * finite_float("chance", chance, 0, 1)
    told = []
    shaded = ""
    if noise is not None:
        low, high = (100 * finite_float("noise", value, 0, 1) for value in noise)
        if low > high:
            raise ValueError(f"noise={noise!r}: must be the lowest, then the highest")
        left.axvspan(low, high, color=COLOURS["muted"], alpha=0.15, lw=0, gid="noise")
        shaded = f"; runs of one setting lie between {low:.0f} and {high:.0f} % (shaded)"
    for place, (label, row) in zip(places, named.items(), strict=True):
        if row.accuracy is None or row.lowest is None or row.highest is None:
            at = (level + 2, place)
            left.annotate("not run", at, va="center", fontsize=8, color=COLOURS["muted"])
            told.append(f"{label}: not run")
            continue
        mine = row.row == base
        look = {"color": COLOURS["gradient" if mine else "kept"], "ms": 5.5}
        left.plot([100 * row.lowest, 100 * row.highest], [place] * 2, lw=2, color=look["color"])
        left.plot(100 * row.accuracy, place, "D" if mine else "o", **look)
        text = f"{label}: {100 * row.accuracy:.0f} %"
        if row.norm_max is not None and row.norm_max > 0:
            right.plot(row.norm_max, place, "D" if mine else "o", **look)
            text += f", largest norm {row.norm_max:.0e}"
        told.append(text)
        if mine:
            for ax, value in ((left, 100 * row.accuracy), (right, row.norm_max)):
                ax.axvline(value, color=COLOURS["gradient"], lw=1.0, ls=(0, (1, 2)), zorder=1)
    left.axvline(level, color=COLOURS["chance"], lw=1.2, ls=(0, (4, 3)), zorder=1.5, gid="chance")
    left.annotate(
        f"chance {level:g} %", (level, -0.75), xytext=(2, 0), textcoords="offset points",
        fontsize=8, color=COLOURS["chance"], va="bottom",
    )  # fmt: skip
    left.set_yticks(list(places), list(named))
    left.set_ylim(len(named) - 0.4, -0.9)
    left.set_xlim(0, 103)
    left.set_xlabel("accuracy (%)")
    left.set_ylabel("switch")
    right.set_xscale("log")
    right.set_xlabel("largest gradient norm (logarithmic)")
    for ax in (left, right):
        ax.grid(axis="y", visible=False)
    return with_alt(
        fig,
        alt
        or f"Accuracy and largest gradient norm before clipping, a line a switch; chance is "
        f"{level:g} %{shaded}. {'; '.join(told)}.",
    )
