"""Figures of external memories: their parts, where heads are, how an address is made, hops."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sab.figures.attention import _BLUES
from sab.figures.shapes import arrow, box
from sab.figures.style import (
    COLOURS,
    PAGE_WIDTH,
    as_panels,
    new_figure,
    styled,
    to_array,
    with_alt,
)


@styled
def memory_parts(alt: str | None = None) -> Figure:
    """The four parts of a network with an external memory, as boxes and arrows.

    Args:
        alt: alt text; ``None``: a description of the four parts.
    """
    fig, axes = new_figure(PAGE_WIDTH, 2.3)
    ax = axes[0, 0]
    ax.set_axis_off()
    ax.set(xlim=(0, 10), ylim=(0, 3.2))
    tall = {"height": 2.4, "fontsize": 9.5}
    box(ax, 2.6, 1.6, "controller\n(main network)", COLOURS["gradient_fill"], COLOURS["gradient"],
        width=2.2, **tall)  # fmt: skip
    box(ax, 8.7, 1.6, "memory\nN slots of width W", COLOURS["summary_fill"], COLOURS["summary"],
        width=2.2, **tall)  # fmt: skip
    for y, text in ((2.35, "read module"), (0.85, "write module")):
        box(ax, 5.65, y, text, COLOURS["panel"], COLOURS["edge"], width=1.9, height=0.62)
    for start, end in (
        ((0.3, 1.6), (1.5, 1.6)),
        ((3.7, 2.18), (4.7, 2.18)),
        ((7.6, 2.5), (6.6, 2.5)),
        ((4.7, 2.55), (3.7, 2.55)),
        ((3.7, 0.85), (4.7, 0.85)),
        ((6.6, 0.85), (7.6, 0.85)),
    ):
        arrow(ax, start, end)
    small = {"ha": "center", "fontsize": 8, "color": COLOURS["text"]}
    ax.text(0.85, 1.72, "x", **small)
    ax.text(4.2, 2.68, "r", **small)
    ax.text(4.2, 1.88, "query", **small)
    ax.text(4.2, 0.98, "query", **small)
    ax.text(4.2, 0.58, "erase, add", **small)
    return with_alt(
        fig,
        alt
        or "Four boxes: a controller that gets the input, a memory of N slots, and between them a "
        "read module, which gets a query and returns what was read, and a write module, which "
        "gets what to erase and to add.",
    )


@styled
def head_maps(weights: Any, *, mark: int | None = None, alt: str | None = None) -> Figure:
    """Where heads are over time: steps to the right, slots downwards.

    Args:
        weights: (T, N), or title → (T, N); between 0 and 1.
        mark: step (from 1) at which the answer begins: a line before it.
        alt: alt text; ``None``: a sentence made from the data.

    Returns:
        The figure, with alt text.

    Raises:
        ValueError: a weight lies outside 0 … 1, or a panel is no matrix.
    """
    panels = {
        title: to_array("weights", array, 2)
        for title, array in as_panels("weights", weights).items()
    }
    for title, array in panels.items():
        if array.min() < -1e-6 or array.max() > 1 + 1e-5:
            raise ValueError(f"weights {title!r}: must be between 0 and 1")
    fig, axes = new_figure(PAGE_WIDTH, 2.9, columns=len(panels))
    image = None
    for ax, (title, array) in zip(axes[0], panels.items(), strict=True):
        steps, count = array.shape
        ax.grid(False)
        image = ax.imshow(
            array.T,
            cmap=_BLUES,
            vmin=0,
            vmax=1,
            aspect="auto",
            interpolation="nearest",
            extent=(0.5, steps + 0.5, count + 0.5, 0.5),
        )
        if mark is not None:
            ax.axvline(mark - 0.5, color=COLOURS["kept"], lw=1.2, ls="--")
        ax.set_title(title)
        ax.set_xlabel("step")
        ax.set_ylabel("slot")
    if image is not None:
        bar = fig.colorbar(image, ax=axes.ravel().tolist(), shrink=0.85, pad=0.02)
        bar.set_label("weight")
        bar.outline.set_visible(False)
    told = "; ".join(
        f"{title or 'the head'}: over {len(array)} steps its heaviest slot goes from "
        f"{int(array[0].argmax()) + 1} to {int(array[-1].argmax()) + 1}"
        for title, array in panels.items()
    )
    line = "" if mark is None else f" A dashed line stands before step {mark}."
    return with_alt(
        fig, alt or f"Weights of memory slots (down) at each step (right). {told}.{line}"
    )


@styled
def addressing_stages(stages: Mapping[str, Any], *, alt: str | None = None) -> Figure:
    """How an address is made: one row of bars a stage, over the same slots.

    Args:
        stages: name → weights (N,), in order.
        alt: alt text; ``None``: a sentence made from the data.

    Returns:
        The figure, with alt text.

    Raises:
        ValueError: there is no stage, or the stages differ in length.
    """
    if not stages:
        raise ValueError(f"stages={stages!r}: must hold at least one")
    arrays = {name: to_array(name, value, 1) for name, value in stages.items()}
    if len({array.shape for array in arrays.values()}) != 1:
        shapes = [array.shape for array in arrays.values()]
        raise ValueError(f"stages have shapes {shapes}: must be one")
    fig, axes = new_figure(PAGE_WIDTH, 0.72 * len(arrays) + 0.6, rows=len(arrays), sharex=True)
    count = len(next(iter(arrays.values())))
    slots = np.arange(1, count + 1)
    for ax, (name, array) in zip(axes[:, 0], arrays.items(), strict=True):
        ax.bar(slots, array, color=COLOURS["gradient"], width=0.75)
        ax.set(ylim=(0, 1.05), yticks=(0, 1))
        ax.set_ylabel(name, rotation=0, ha="right", va="center")
    axes[-1, 0].set_xlabel("slot")
    axes[-1, 0].set_xticks(slots)
    fig.supylabel("weight", fontsize=axes[-1, 0].xaxis.label.get_size())
    told = "; ".join(
        f"{name}: slot {int(array.argmax()) + 1} has {array.max():.2f}"
        for name, array in arrays.items()
    )
    return with_alt(
        fig,
        alt
        or f"Weights of {count} slots after each stage of addressing, as bars. Heaviest, {told}.",
    )


def _cell(ax: Axes, column: int, row: int, value: float) -> None:
    ink = COLOURS["panel"] if value > 0.55 else COLOURS["text"]
    ax.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=8, color=ink)


@styled
def hop_table(
    sentences: Sequence[str],
    weights: Any,
    *,
    support: Collection[int] = (),
    title: str = "",
    alt: str | None = None,
) -> Figure:
    """A story, a line a sentence, and beside it where each hop looked.

    Args:
        sentences: in the order told.
        weights: (K, S), attention of each hop over the sentences.
        support: places (from 0) of the sentences the answer rests on; they are set in bold.
        title: the question and the answers.
        alt: alt text; ``None``: a sentence made from the data.

    Returns:
        The figure, with alt text.

    Raises:
        ValueError: there are not as many weights as sentences.
    """
    array = to_array("weights", weights, 2)
    hops, count = array.shape
    if count != len(sentences):
        raise ValueError(f"weights has shape {array.shape}: must be (K, {len(sentences)})")
    fig, axes = new_figure(5.6, 0.27 * count + 0.95)
    ax = axes[0, 0]
    ax.grid(False)
    ax.imshow(array.T, cmap=_BLUES, vmin=0, vmax=1, aspect="auto")
    for (hop, row), value in np.ndenumerate(array):
        _cell(ax, hop, row, float(value))
    ax.set_yticks(range(count), list(sentences))
    for place, label in enumerate(ax.get_yticklabels()):
        label.set_fontweight("bold" if place in support else "normal")
    ax.set_xticks(range(hops), [f"hop {k}" for k in range(1, hops + 1)])
    ax.set(xlabel="attention weight", ylabel="sentence")
    ax.set_title(title)
    told = "; ".join(
        f"hop {k} looks most at '{sentences[int(row.argmax())]}' ({row.max():.2f})"
        for k, row in enumerate(array, 1)
    )
    return with_alt(fig, alt or f"A story of {count} sentences. {title} {told}.")
