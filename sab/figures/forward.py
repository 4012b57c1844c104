"""The forward read, drawn from the rule that computes it (our own drawing, after Figure 1)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from matplotlib.figure import Figure

from sab.analysis.credit import first_step
from sab.figures.shapes import BOX, FULL_LABELS, arrow, box, bracket, check_steps, step_label
from sab.figures.style import COLOURS, PAGE_WIDTH, new_figure, styled, with_alt
from sab.ops.sab_scan import ScanOptions
from sab.ops.sparse_weights import sparse_weights


def _example_scores(count: int) -> list[float]:
    """Fixed scores with no ties and no order in time, one a memory."""
    return [round(float(4.0 * ((0.37 + 0.618034 * i) % 1.0)), 1) for i in range(count)]


@styled
def forward_diagram(
    k_top: int = 3,
    k_att: int = 2,
    k_trunc: int = 2,
    steps: int = 10,
    *,
    scores: Sequence[float] | None = None,
    alt: str | None = None,
) -> Figure:
    """One read, at the last step: every memory is scored, few are kept, their summary is added.

    Args:
        k_top: memories kept at most.
        k_att: a state is written every ``k_att`` steps.
        k_trunc: local steps of backpropagation, shown as a bracket.
        steps: T, between 2 and 24; the read is drawn at T.
        scores: one a memory held at step T, (T − 1) // k_att of them; ``None``: fixed examples.
        alt: alt text; ``None``: a sentence made from the data.

    Returns:
        The figure, with alt text.

    Raises:
        ValueError: a number is out of range, no memory is held yet, or the scores don't fit.

    Source: paper section 3.1, Figure 1 and Algorithm 1; our own drawing.
    """
    check_steps(steps)
    options = ScanOptions(k_top=k_top, k_att=k_att, k_trunc=k_trunc, truncation="sliding")
    held = (steps - 1) // k_att
    if held < 1:
        raise ValueError(f"steps={steps!r}: must exceed k_att={k_att}, or no memory is held yet")
    values = _example_scores(held) if scores is None else [float(score) for score in scores]
    if len(values) != held:
        raise ValueError(f"scores has {len(values)} entries: must be {held}, one a memory held")
    read = sparse_weights(torch.tensor([values], dtype=torch.float64), k_top)
    weights = read.dense(held)[0].tolist()
    candidates = [slot for slot in read.indices[0].tolist() if slot >= 0]
    threshold = candidates[-1] if len(candidates) > 1 and not bool(read.tied[0]) else None

    kept_slots = [slot for slot in range(held) if weights[slot] > 0]

    fig, axes = new_figure(PAGE_WIDTH, 4.1)
    ax = axes[0, 0]
    ax.set_axis_off()
    small = 8.2 if steps > 14 else 9.0
    y_x, y_h, y_m, y_a, y_w, y_s = 0.0, 1.0, 2.75, 3.3, 3.72, 4.75
    last = float(steps)
    x_plus, x_h = last + 0.95, last + 1.95

    for y, label in (
        (y_x, "input $x$"),
        (y_h, "state $h$"),
        ((y_h + y_m) / 2, "every one\nis scored"),
        (y_m, "memory $m$"),
        (y_a, "score $a$"),
        (y_w, "weight $\\alpha$"),
    ):
        ax.text(-0.15, y, label, ha="right", va="center", color=COLOURS["muted"], fontsize=8.6)

    for t in range(1, steps + 1):
        now = t == steps
        name = step_label(r"\hat h" if now else "h", t, steps)
        edge = COLOURS["summary"] if now else COLOURS["edge"]
        box(ax, t, y_h, name, COLOURS["cell"], edge, fontsize=small)
        ax.text(t, y_x, step_label("x", t, steps), ha="center", va="center", fontsize=small)
        arrow(ax, (t, y_x + 0.2), (t, y_h - 0.28), head=7)
        if t < steps:
            arrow(ax, (t + BOX / 2, y_h), (t + 1 - BOX / 2, y_h), head=7)

    for slot in range(held):
        t = (slot + 1) * k_att
        kept = weights[slot] > 0
        arrow(ax, (t, y_h + 0.27), (t, y_m - 0.28), color=COLOURS["memory"], ls=":", head=8)
        box(
            ax,
            t,
            y_m,
            step_label("h", t, steps),
            COLOURS["memory_fill"] if kept else COLOURS["panel"],
            COLOURS["memory"] if kept else COLOURS["scored"],
            fontsize=small,
            lw=1.8 if kept else 1.0,
        )
        # the grey fan: every memory is scored against the query
        arrow(
            ax,
            (last - 0.1, y_h + 0.28),
            (t + 0.18, y_m - 0.28),
            style="-",
            color=COLOURS["scored"],
            lw=1.0,
            zorder=1,
        )
        mark = rf"{values[slot]:.1f} = $\tau$" if slot == threshold else f"{values[slot]:.1f}"
        ax.text(t, y_a, mark, ha="center", va="center", fontsize=8.4, color=COLOURS["muted"])
        ax.text(
            t, y_w, f"{weights[slot]:.2f}" if kept else "0", ha="center", va="center",
            fontsize=9.2 if kept else 8.4, weight="bold" if kept else "normal",
            color=COLOURS["kept"] if kept else COLOURS["muted"],
        )  # fmt: skip
        if kept:
            rank = kept_slots.index(slot)
            level = y_s + 0.17 * ((len(kept_slots) - 1) / 2 - rank) * min(1.0, 3 / len(kept_slots))
            ax.plot(
                [t, t, x_plus - 0.35], [y_w + 0.2, level, level], color=COLOURS["kept"],
                lw=1.0 + 4.0 * weights[slot], solid_joinstyle="round", zorder=2,
            )  # fmt: skip

    box(
        ax, x_plus, y_s, f"$s_{{{steps}}}$", COLOURS["summary_fill"], COLOURS["summary"],
        fontsize=small + 0.6, width=0.7 if steps <= FULL_LABELS else 1.1,
    )  # fmt: skip
    ax.text(
        x_plus + (0.5 if steps <= FULL_LABELS else 0.7), y_s, "$=\\sum_i\\alpha_i\\,m_i$",
        ha="left", va="center", fontsize=8.6, color=COLOURS["summary"],
    )  # fmt: skip
    arrow(ax, (x_plus, y_s - 0.28), (x_plus, y_h + 0.2), color=COLOURS["summary"], lw=1.8)
    arrow(ax, (last + BOX / 2, y_h), (x_plus - 0.2, y_h))
    ax.text(
        x_plus, y_h, "+", ha="center", va="center", fontsize=11, zorder=5, color=COLOURS["summary"],
        bbox={"boxstyle": "circle,pad=0.12", "fc": COLOURS["panel"], "ec": COLOURS["summary"]},
    )  # fmt: skip
    arrow(ax, (x_plus + 0.2, y_h), (x_h - BOX / 2, y_h))
    box(
        ax, x_h, y_h, step_label("h", steps, steps), COLOURS["cell"], COLOURS["summary"],
        fontsize=small,
    )  # fmt: skip
    wide = BOX if steps <= FULL_LABELS else 1.1
    box(
        ax, x_h, y_m, f"$y_{{{steps}}}$", COLOURS["panel"], COLOURS["edge"], fontsize=small,
        width=wide,
    )  # fmt: skip
    arrow(ax, (x_h, y_h + 0.27), (x_h, y_m - 0.28))
    arrow(ax, (x_plus + 0.2, y_s - 0.28), (x_h - 0.12, y_m + 0.28), color=COLOURS["summary"])

    first = first_step(steps, options)
    bracket(
        ax,
        first - 0.3,
        last + 0.3,
        -0.42,
        f"$k_{{\\mathrm{{trunc}}}}={k_trunc}$ local cell{'s' if k_trunc > 1 else ''}",
        COLOURS["gradient"],
    )
    if held > 1:
        bracket(
            ax, k_att, 2 * k_att, -0.42, f"written every $k_{{\\mathrm{{att}}}}={k_att}$ steps",
            COLOURS["kept"],
        )  # fmt: skip
    kept_count = len(kept_slots)
    ax.text(
        0.7, y_s + 0.55, f"$k_{{\\mathrm{{top}}}}={k_top}$: {held} scored, {kept_count} read",
        ha="left", va="center", fontsize=9, weight="bold", color=COLOURS["kept"],
    )  # fmt: skip
    ax.set_xlim(-1.6, x_h + 0.75)
    ax.set_ylim(-0.95, y_s + 0.8)

    named = ", ".join(
        f"h{(slot + 1) * k_att} with weight {weights[slot]:.2f}"
        for slot in range(held) if weights[slot] > 0
    )  # fmt: skip
    return with_alt(
        fig,
        alt
        or f"Diagram of one SAB read at step {steps}. A row of {steps} recurrent states runs from "
        f"left to right; every {k_att} steps one is copied up into the memory, which holds {held}. "
        f"Grey lines join the query, the provisional state at step {steps}, to all {held} "
        f"memories; coloured lines lead from the {kept_count} that are kept ({named}) to the "
        "summary s, which is added to the provisional state. A bracket marks the last "
        f"{steps - first + 1} cells, the local reach of the gradient for k_trunc = {k_trunc}.",
    )
