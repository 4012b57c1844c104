"""Small pictures side by side: what goes in, in which order it is read, what is recalled of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from sab.checks import positive_int
from sab.figures.style import COLOURS, PAGE_WIDTH, new_figure, styled, to_array, with_alt

PICTURE = "picture"
_MAPS = (
    LinearSegmentedColormap.from_list(
        "warm", ["#f7e2cc", "#e2a06a", "#8a3a00", "#2b1200"]
    ),
    LinearSegmentedColormap.from_list("cool", ["#d6e8f5", "#5aa5d6", "#0072b2", "#06304d"]),
)  # fmt: skip


@dataclass(frozen=True)
class Panel:
    """One small picture.

    Attributes:
        title: above it.
        values: (height, width), at least 0.
        kind: ``"picture"``: ink on white, scaled by itself; else a name of ``scales``.
    """

    title: str
    values: Any
    kind: str = PICTURE


@styled
def picture_panels(
    panels: Sequence[Panel],
    *,
    scales: Mapping[str, str] | None = None,
    columns: int = 5,
    alt: str,
) -> Figure:
    """Pictures in rows; those of one kind share a colour scale that starts at 0.

    A number that is exactly 0 is left blank, so that the smallest others can be told from it.

    Args:
        panels: drawn from the left, then below.
        scales: kind → what its numbers are, with their unit; two kinds at most.
        columns: pictures a row.
        alt: alt text.

    Returns:
        The figure, with alt text.

    Raises:
        ValueError: there is no panel, a kind is unknown, or a value is negative or not finite.
    """
    positive_int("columns", columns)
    named = dict(scales or {})
    if not panels or len(named) > len(_MAPS):
        raise ValueError(f"{len(panels)} panels, scales={list(named)}: must be some, two at most")
    arrays = [to_array("values", panel.values, 2).astype(float) for panel in panels]
    for panel, array in zip(panels, arrays, strict=True):
        if panel.kind not in (PICTURE, *named):
            raise ValueError(f"kind={panel.kind!r}: must be one of {', '.join((PICTURE, *named))}")
        if not np.isfinite(array).all() or array.min() < 0:
            raise ValueError(f"{panel.title!r}: must hold finite numbers of at least 0")
    tops = dict.fromkeys(named, 0.0)
    for panel, array in zip(panels, arrays, strict=True):
        if panel.kind in tops:
            tops[panel.kind] = max(tops[panel.kind], float(array.max()))
    norms = {kind: Normalize(0, top or 1.0) for kind, top in tops.items()}
    maps = dict(zip(named, _MAPS, strict=False))
    rows = -(-len(panels) // columns)
    side = (PAGE_WIDTH - 0.4) / columns
    fig, axes = new_figure(
        PAGE_WIDTH, (side + 0.3) * rows + 0.55 * bool(named), rows=rows, columns=columns
    )
    for ax in axes.flat:
        ax.set_axis_off()
    for ax, panel, array in zip(axes.flat, panels, arrays, strict=False):
        if panel.kind == PICTURE:
            ax.imshow(array, cmap="gray_r", vmin=0, vmax=array.max() or 1, interpolation="nearest")
        else:
            ax.imshow(
                np.ma.masked_equal(array, 0), cmap=maps[panel.kind], norm=norms[panel.kind],
                interpolation="nearest",
            )  # fmt: skip
        ax.set_title(panel.title, fontsize=8.5)
        ax.add_patch(_frame(array.shape))
    for kind, label in named.items():
        bar = fig.colorbar(
            ScalarMappable(norms[kind], maps[kind]), ax=axes.ravel().tolist(), fraction=0.04,
            pad=0.02, orientation="horizontal", aspect=40, shrink=0.9 / len(named),
            location="bottom",
        )  # fmt: skip
        bar.set_label(label)
        bar.outline.set_visible(False)
    return with_alt(fig, alt)


def _frame(size: tuple[int, ...]) -> Rectangle:
    height, width = size
    return Rectangle(
        (-0.5, -0.5), width, height, fill=False, edgecolor=COLOURS["edge"], lw=0.8, clip_on=False
    )
