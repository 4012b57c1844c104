"""The marks the diagrams are made of: boxes, arrows, arcs, brackets and crosses.

Positions are (steps, rows) in an axes' own units; line widths and sizes are in points.
"""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from matplotlib.path import Path

from sab.checks import positive_int
from sab.figures.style import COLOURS

MOST_STEPS = 24
"""More steps than this would make a diagram's labels smaller than can be read."""

FULL_LABELS = 16
"""Up to so many steps a box has room for a symbol beside its step."""

BOX = 0.62
"""Width of a state's box, in steps."""


def check_steps(steps: int) -> None:
    """Refuse a timeline that is too short to show a read or too long to be read.

    Raises:
        ValueError: ``steps`` is not an integer from 2 to 24.
    """
    positive_int("steps", steps, minimum=2)
    if steps > MOST_STEPS:
        raise ValueError(f"steps={steps!r}: must be at most {MOST_STEPS} to stay readable")


def step_label(symbol: str, step: int, steps: int) -> str:
    """Return ``symbol`` with its step as an index, or the bare step where boxes are too narrow."""
    return f"${symbol}_{{{step}}}$" if steps <= FULL_LABELS else f"{step}"


def box(
    ax: Axes,
    x: float,
    y: float,
    text: str,
    fill: str,
    edge: str,
    *,
    width: float = BOX,
    height: float = 0.52,
    lw: float = 1.1,
    **text_options: Any,
) -> None:
    """Draw a rounded box around its text, centred at (x, y)."""
    patch = FancyBboxPatch(
        (x - width / 2, y - height / 2),
        width,
        height,
        boxstyle="round,pad=0,rounding_size=0.09",
        facecolor=fill,
        edgecolor=edge,
        linewidth=lw,
        zorder=4,
    )
    ax.add_patch(patch)
    ax.text(x, y, text, ha="center", va="center", zorder=5, **text_options)


def arrow(
    ax: Axes,
    start: tuple[float, float],
    end: tuple[float, float],
    *,
    style: str = "-|>",
    head: float = 9,
    **options: Any,
) -> None:
    """Draw a straight arrow (``style="-"``: a plain line) from ``start`` to ``end``."""
    look: dict[str, Any] = {"lw": 1.1, "color": COLOURS["muted"], "zorder": 2} | options
    ax.add_patch(
        FancyArrowPatch(
            start, end, arrowstyle=style, mutation_scale=head, shrinkA=0, shrinkB=0, **look
        )
    )


def arc(
    ax: Axes,
    start: tuple[float, float],
    end: tuple[float, float],
    height: float,
    *,
    style: str = "-|>",
    head: float = 10,
    **options: Any,
) -> None:
    """Draw a curve that leaves ``start`` upwards and enters ``end`` from above."""
    (x0, y0), (x1, y1) = start, end
    top = max(y0, y1) + height
    path = Path(
        [(x0, y0), (x0, top), (x1, top), (x1, y1)],
        [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4],
    )
    look: dict[str, Any] = {"lw": 1.8, "zorder": 3} | options
    ax.add_patch(FancyArrowPatch(path=path, arrowstyle=style, mutation_scale=head, **look))


def bracket(ax: Axes, left: float, right: float, y: float, text: str, colour: str) -> None:
    """Draw a flat bracket under the span ``left … right`` with its text below."""
    ax.plot(
        [left, left, right, right],
        [y + 0.12, y, y, y + 0.12],
        color=colour,
        lw=1.2,
        solid_capstyle="round",
        zorder=2,
    )
    middle = (left + right) / 2
    ax.text(middle, y - 0.09, text, ha="center", va="top", fontsize=8.3, color=colour)


def cross(ax: Axes, x: float, y: float, size: float = 8.0) -> None:
    """Draw the mark of a cut."""
    edge = COLOURS["panel"]
    ax.plot([x], [y], marker="X", ms=size, color=COLOURS["cut"], mec=edge, mew=0.7, zorder=7)
