"""A sequence of a task, drawn step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from sab.figures.style import COLOURS, PAGE_WIDTH, new_figure, styled, to_array, with_alt


@styled
def adding_sequence(x: Any, *, alt: str | None = None) -> Figure:
    """One sequence of the adding task: its values as bars, the two marked ones in another colour.

    Args:
        x: (T, 2), value in 0 … 1 and mark (0 or 1).
        alt: alt text; ``None``: a sentence made from the data.

    Returns:
        The figure, with alt text.

    Raises:
        ValueError: ``x`` is not (T, 2).

    Source: paper section 4 and 7.1, the adding task.
    """
    data = to_array("x", x, 2).astype(float)
    if data.shape[1] != 2:
        raise ValueError(f"x has shape {data.shape}: must be (T, 2)")
    values, marked = data[:, 0], data[:, 1] == 1
    steps = np.arange(1, len(data) + 1)
    fig, axes = new_figure(PAGE_WIDTH, 2.2)
    ax = axes[0, 0]
    ax.bar(steps[~marked], values[~marked], width=0.7, color=COLOURS["scored"], label="not marked")
    ax.bar(steps[marked], values[marked], width=0.7, color=COLOURS["kept"], label="marked")
    for step in steps[marked]:
        ax.annotate(
            f"{values[step - 1]:.2f}", (step, values[step - 1]), xytext=(0, 2), ha="center",
            textcoords="offset points", fontsize=8.2,
        )  # fmt: skip
    ax.axvline(len(data) // 2 + 0.5, color=COLOURS["edge"], lw=1.0, ls=(0, (1, 2)))
    ax.set_ylim(0, 1.12)
    ax.set_xlim(0.3, len(data) + 0.7)
    ax.set_xlabel("step")
    ax.set_ylabel("value")
    ax.grid(axis="x", visible=False)
    fig.legend(loc="outside upper left", ncols=2)
    named = " and ".join(f"{values[s - 1]:.2f} at step {s}" for s in steps[marked])
    return with_alt(
        fig,
        alt
        or f"Bars of {len(data)} values from 0 to 1, one a step. Marked are {named}, one on each "
        f"side of the middle; their sum is {values[marked].sum():.2f}.",
    )
