"""Accuracy by place in the string, over training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from sab.figures.style import COLOURS, PAGE_WIDTH, new_figure, styled, with_alt

_GROUND = LinearSegmentedColormap.from_list("right", [COLOURS["panel"], "#5aa5d6", "#06304d"])


@styled
def position_course(
    runs: Mapping[str, tuple[np.ndarray, np.ndarray]],
    *,
    borders: Mapping[str, Sequence[int]] | None = None,
    alt: str | None = None,
) -> Figure:
    """A panel a run: updates from left to right, places in the string from top to bottom.

    Args:
        runs: title → updates (U,) and accuracies (U, P), fractions; see
            ``sab.analysis.pauses.course``.
        borders: title → answers behind which a block begins; drawn as lines.
        alt: alt text; ``None``: a sentence made from the data.

    Returns:
        The figure, with alt text.

    Raises:
        ValueError: there is no run, shapes do not fit, or an accuracy lies outside 0 … 1.
    """
    if not runs:
        raise ValueError(f"runs={runs!r}: must hold at least one")
    for title, (updates, values) in runs.items():
        if values.ndim != 2 or len(updates) != len(values) or len(updates) < 2:
            raise ValueError(f"run {title!r} has shapes {updates.shape}, {values.shape}")
        if not np.isfinite(values).all() or values.min() < 0 or values.max() > 1:
            raise ValueError(f"run {title!r}: accuracies must lie between 0 and 1")
    fig, axes = new_figure(PAGE_WIDTH, 1.35 * len(runs) + 0.6, rows=len(runs), sharex=True)
    image, told = None, []
    for ax, (title, (updates, values)) in zip(axes[:, 0], runs.items(), strict=True):
        places = values.shape[1]
        edges = np.concatenate([[0], (updates[1:] + updates[:-1]) / 2, [updates[-1]]])
        image = ax.pcolormesh(
            edges, np.arange(places + 1) + 0.5, values.T * 100, cmap=_GROUND, vmin=0, vmax=100
        )
        for border in (borders or {}).get(title, ()):
            ax.axhline(border + 0.5, color=COLOURS["kept"], lw=1.4, ls=(0, (4, 2)))
        ax.set_ylim(places + 0.5, 0.5)
        ax.set_yticks(sorted({1, places // 2, places}))
        ax.set_ylabel("symbol")
        ax.set_title(title, loc="left", pad=3)
        ax.grid(False)
        reached = [
            int(updates[np.argmax(values[:, i] >= 0.9)]) if (values[:, i] >= 0.9).any() else None
            for i in (0, places - 1)
        ]
        words = ["never" if update is None else f"at {update:,}" for update in reached]
        told.append(f"{title}: 90 % of the first symbol {words[0]}, of the last {words[1]}")
    axes[-1, 0].set_xlabel("updates")
    assert image is not None
    bar = fig.colorbar(image, ax=axes[:, 0].tolist(), pad=0.015, aspect=18)
    bar.set_label("right (%)")
    bar.outline.set_visible(False)
    lines = "; dashed lines: a block of truncation begins" if borders else ""
    return with_alt(
        fig,
        alt
        or f"Accuracy by place in the string over training, darker for more right{lines}. "
        f"{'; '.join(told)}.",
    )
