"""Where in a sequence a language model loses bits."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from sab.analysis.places import Places
from sab.figures.style import (
    COLOURS,
    PAGE_WIDTH,
    new_figure,
    series_styles,
    styled,
    system_label,
    with_alt,
)


@styled
def place_losses(
    found: Mapping[str, Places], *, against: str, k_att: int, alt: str | None = None
) -> Figure:
    """Bits that each model loses to ``against`` at each place of a sequence.

    Args:
        found: label → means by place, all of one length.
        against: the label that the others are compared with.
        k_att: a dotted line stands where a memory is written, every ``k_att`` characters.
        alt: alt text; ``None``: a sentence made from the data.

    Returns:
        The figure, with alt text.

    Raises:
        ValueError: ``against`` is not in ``found``, nothing else is, or lengths differ.
    """
    if against not in found or len(found) < 2:
        raise ValueError(f"against={against!r}: must be one of at least two in {list(found)}")
    base = found[against].bits
    if any(one.bits.shape != base.shape for one in found.values()):
        raise ValueError("found: sequences differ in length")
    fig, axes = new_figure(PAGE_WIDTH, 2.8)
    ax = axes[0, 0]
    at = np.arange(1, len(base) + 1)
    others = [label for label in found if label != against]
    told = []
    for label, look in zip(others, series_styles(others), strict=True):
        lost = found[label].bits - base
        ax.plot(at, lost, color=look["color"], ls=look["linestyle"], lw=1.5,
                label=system_label(label))  # fmt: skip
        worst = int(np.nanargmax(lost))
        told.append(
            f"{label} loses {np.nanmean(lost):.3f} bits on the average, "
            f"most ({lost[worst]:.1f}) at character {at[worst]}"
        )
    ax.axhline(0, color=COLOURS["chance"], lw=1.2, ls=(0, (4, 3)), label=system_label(against))
    for step in range(k_att, len(base) + 1, k_att):
        ax.axvline(step, color=COLOURS["muted"], lw=0.8, ls=(0, (1, 2)), zorder=1)
    ax.set_xlabel("character of the sequence (dotted: a memory is written)")
    ax.set_ylabel(f"bits more than {system_label(against)}")
    ax.set_xlim(0, len(base) + 1)
    ax.legend(loc="upper right")
    return with_alt(
        fig,
        alt
        or f"Bits lost to {against} at each of {len(base)} characters of a sequence, "
        f"a memory every {k_att}. {'; '.join(told)}.",
    )
