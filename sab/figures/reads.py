"""One sparse read: scores, threshold and weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from sab.figures.style import COLOURS, PAGE_WIDTH, as_panels, new_figure, styled, to_array, with_alt


@styled
def read_weights(
    scores: Any, weights: Any, threshold: float | None = None, *, alt: str | None = None
) -> Figure:
    """One sparse read: the scores with their threshold on the left, the weights on the right.

    Args:
        scores: (M,), unitless.
        weights: (M,), or title → (M,) to compare several rules.
        threshold: τ, drawn across the scores; ``None``: not drawn.
        alt: alt text; ``None``: a sentence made from the data.

    Returns:
        The figure, with alt text.

    Raises:
        ValueError: lengths differ.

    Source: paper section 3.1, Algorithm 1 (threshold, ReLU, normalisation).
    """
    values = to_array("scores", scores, 1).astype(float)
    rules = {
        title: to_array("weights", array, 1)
        for title, array in as_panels("weights", weights).items()
    }
    for title, array in rules.items():
        if array.shape != values.shape:
            raise ValueError(f"weights {title!r} has {array.size} entries: must be {values.size}")
    count = 1 + len(rules)
    fig, axes = new_figure(min(PAGE_WIDTH, 1.2 + 2.1 * count), 2.5, columns=count)
    memories = np.arange(1, values.size + 1)
    kept = np.any([array > 0 for array in rules.values()], axis=0)
    ax = axes[0, 0]
    ax.bar(
        memories,
        values,
        width=0.62,
        color=[COLOURS["kept"] if k else COLOURS["scored"] for k in kept],
    )
    ax.axhline(0, color=COLOURS["edge"], lw=0.8)
    if threshold is not None:
        ax.axhline(float(threshold), color=COLOURS["gradient"], lw=1.4, ls=(0, (4, 3)))
        ax.annotate(
            rf"$\tau={float(threshold):g}$", (memories[-1] + 0.45, float(threshold)), xytext=(0, 2),
            textcoords="offset points", ha="right", va="bottom", color=COLOURS["gradient"],
        )  # fmt: skip
    ax.set_ylabel("score $a$")
    ax.set_title("scores")
    for ax, (title, array) in zip(axes[0, 1:], rules.items(), strict=True):
        ax.bar(memories, array, width=0.62, color=COLOURS["kept"])
        for x, weight in zip(memories, array, strict=True):
            ax.annotate(
                f"{weight:.2f}" if weight else "0", (x, max(weight, 0)), xytext=(0, 2), ha="center",
                textcoords="offset points", fontsize=8.2,
                color=COLOURS["text"] if weight else COLOURS["muted"],
            )  # fmt: skip
        ax.set_ylim(min(0.0, 1.1 * float(array.min())), 1.12 * max(1.0, float(array.max())))
        ax.set_ylabel("weight $\\alpha$")
        ax.set_title(title or "weights")
    for ax in axes.flat:
        ax.set_xlabel("memory")
        ax.set_xticks(memories if values.size <= 12 else memories[:: values.size // 6])
        ax.grid(axis="x", visible=False)
    told = "; ".join(
        f"{title or 'weights'} {', '.join(f'{weight:.2f}' for weight in array)}"
        for title, array in rules.items()
    )
    tau = "" if threshold is None else f" with the threshold {float(threshold):g}"
    return with_alt(
        fig,
        alt
        or f"Bar charts of one sparse read over {values.size} memories. Scores "
        f"{', '.join(f'{value:g}' for value in values)}{tau}; {told}.",
    )
