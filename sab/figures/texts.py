"""Characters of a text with a number each, as coloured cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from sab.checks import finite_float, positive_int
from sab.figures.style import COLOURS, PAGE_WIDTH, new_figure, styled, to_array, with_alt

_WARM = LinearSegmentedColormap.from_list("warm", [COLOURS["panel"], "#f3d3b3", "#e2a06a"])
_SHOWN = {"\n": "↵", " ": "·"}
_LINE = 0.21  # inches


@dataclass(frozen=True)
class TextRow:
    """One text with a number a character.

    Attributes:
        title: above it.
        text: the characters; a line end is drawn as ↵ and a space as ·.
        values: (len(text),), at least 0; not a number: left blank.
        mark: index of a character to frame, such as the one that reads; ``None``: none.
    """

    title: str
    text: str
    values: Any
    mark: int | None = None


@styled
def text_cells(
    rows: Sequence[TextRow],
    *,
    label: str,
    top: float | None = None,
    columns: int = 50,
    alt: str | None = None,
) -> Figure:
    """Characters on cells that are darker for a larger number; long texts go on in the next line.

    Args:
        rows: texts, drawn one below the other on one colour scale.
        label: what the numbers are, with their unit.
        top: value of the darkest colour; ``None``: the largest there is.
        columns: characters a line.
        alt: alt text; ``None``: a sentence made from the data.

    Returns:
        The figure, with alt text.

    Raises:
        ValueError: there is no row, a length differs, or a value is negative.
    """
    positive_int("columns", columns)
    if not rows:
        raise ValueError(f"rows={rows!r}: must hold at least one text")
    values = [to_array("values", row.values, 1).astype(float) for row in rows]
    for row, numbers in zip(rows, values, strict=True):
        if len(numbers) != len(row.text) or np.nanmin(numbers, initial=0.0) < 0:
            raise ValueError(f"{row.title!r} needs {len(row.text)} values of at least 0")
    highest = top if top is not None else max(float(np.nanmax(v, initial=0.0)) for v in values)
    scale = Normalize(0, finite_float("top", highest) or 1.0)
    lines = [-(-len(row.text) // columns) for row in rows]
    tall = sum(lines) + 1.25 * len(rows)
    fig, axes = new_figure(PAGE_WIDTH, _LINE * tall + 0.75)
    ax = axes[0, 0]
    ax.set_axis_off()
    ax.set_xlim(0, columns)
    ax.set_ylim(tall, 0)
    y = 0.0
    told = []
    for row, numbers, count in zip(rows, values, lines, strict=True):
        ax.text(0, y + 0.95, row.title, fontsize=9, weight="bold", va="bottom")
        y += 1.1
        for i, (character, value) in enumerate(zip(row.text, numbers, strict=True)):
            left, upper = i % columns, y + i // columns
            face = COLOURS["panel"] if np.isnan(value) else _WARM(scale(value))
            framed = i == row.mark
            ax.add_patch(
                Rectangle(
                    (left + 0.03, upper + 0.04), 0.94, 0.92, facecolor=face, clip_on=False,
                    edgecolor=COLOURS["gradient"] if framed else COLOURS["grid"],
                    lw=2.0 if framed else 0.5, zorder=3 if framed else 2,
                )
            )  # fmt: skip
            shown = _SHOWN.get(character, character)
            ax.text(
                left + 0.5, upper + 0.52, shown, ha="center", va="center", fontsize=8.5, zorder=4,
                family="monospace", parse_math=False,
                color=COLOURS["muted" if character in _SHOWN else "text"],
            )  # fmt: skip
        y += count + 0.15
        best = int(np.nanargmax(numbers)) if np.isfinite(numbers).any() else 0
        around = row.text[max(0, best - 8) : best + 1].replace("\n", " ")
        told.append(f"{row.title}: largest {numbers[best]:.2f}, at the end of '{around}'")
    bar = fig.colorbar(
        ScalarMappable(scale, _WARM), ax=ax, orientation="horizontal", fraction=0.05, pad=0.01,
        aspect=50, shrink=0.6,
    )  # fmt: skip
    bar.set_label(label)
    bar.outline.set_visible(False)
    return with_alt(fig, alt or f"Characters on coloured cells, {label}. {'; '.join(told)}.")
