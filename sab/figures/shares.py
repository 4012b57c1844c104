"""How a read's weight is shared out over parts of the sequence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from sab.figures.style import COLOURS, PAGE_WIDTH, new_figure, styled, to_array, with_alt


@styled
def share_bars(
    names: Sequence[str],
    shares: Mapping[str, Any],
    *,
    blind: Any,
    xlabel: str = "share of the weight (%)",
    ylabel: str = "part of the sequence",
    alt: str | None = None,
) -> Figure:
    """Horizontal bars of shares, a panel each, beside the shares of a read that picks blindly.

    Args:
        names: (S,) parts, drawn from the top.
        shares: title → (S,) fractions.
        blind: (S,) fractions of a read that weighs all memories alike.
        xlabel: name and unit of the shares.
        ylabel: name of the parts.
        alt: alt text; ``None``: a sentence made from the data.

    Returns:
        The figure, with alt text.

    Raises:
        ValueError: there is no panel, a length differs, or a share is no fraction.
    """
    if not shares:
        raise ValueError(f"shares={shares!r}: must hold at least one panel")
    panels = {title: to_array("shares", values, 1) for title, values in shares.items()}
    level = to_array("blind", blind, 1)
    for title, values in {**panels, "blind": level}.items():
        if values.shape != (len(names),) or (values < 0).any() or (values > 1 + 1e-6).any():
            raise ValueError(f"{title!r} has {values.tolist()}: must be {len(names)} fractions")
    fig, axes = new_figure(
        PAGE_WIDTH, 0.34 * len(names) + 1.1, columns=len(panels), sharey=True, sharex=True
    )
    places = np.arange(len(names))
    for ax, (title, values) in zip(axes[0], panels.items(), strict=True):
        ax.barh(places, 100 * values, height=0.62, color=COLOURS["kept"], zorder=2)
        ax.plot(
            100 * level, places, "|", ms=15, mew=2, color=COLOURS["chance"], zorder=3,
            label="read blindly",
        )  # fmt: skip
        ax.set_title(title)
        ax.set_xlabel(xlabel)
        ax.set_xlim(0, 103)
        ax.grid(axis="y", visible=False)
    axes[0, 0].set_yticks(places, list(names))
    axes[0, 0].set_ylim(len(names) - 0.4, -0.6)
    axes[0, 0].set_ylabel(ylabel)
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper left")
    told = "; ".join(
        f"{title}: {', '.join(f'{n} {v:.0%}' for n, v in zip(names, values, strict=True))}"
        for title, values in {**panels, "read blindly": level}.items()
    )
    return with_alt(fig, alt or f"Bars of shares of the weight. {told}.")
