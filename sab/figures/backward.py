"""The way back of one loss, drawn from ``credit_paths`` (our own drawing, after Figure 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sab.analysis.credit import CreditPaths, credit_paths, first_step
from sab.figures.shapes import BOX, arc, arrow, box, bracket, check_steps, cross, step_label
from sab.figures.style import COLOURS, PAGE_WIDTH, new_figure, styled, with_alt
from sab.ops.sab_scan import ScanOptions


def default_reads(k_top: int, k_att: int, steps: int, recent: int) -> dict[int, list[int]]:
    """An example in which only the last step reads: ``k_top`` memories spread over the past.

    Args:
        k_top: memories read at most.
        k_att: a state is written every ``k_att`` steps.
        steps: T, the reading step.
        recent: first recent step; memories before it are preferred, as they show the skip.
    """
    written = list(range(k_att, steps, k_att))
    old = [u for u in written if u < recent] or written
    if not old:
        return {}
    count = min(k_top, len(old))
    picks = [old[int((i + 0.5) * len(old) / count)] for i in range(count)]
    return {steps: sorted(set(picks))}


def _pieces(paths: CreditPaths) -> list[tuple[int, int]]:
    """Runs of cells joined by gradient, as (first, last)."""
    runs: list[tuple[int, int]] = []
    for cell in sorted(paths.cells):
        if runs and (cell, runs[-1][1]) in paths.carries:
            runs[-1] = (runs[-1][0], cell)
        else:
            runs.append((cell, cell))
    return runs


def _draw_backward(ax: Axes, paths: CreditPaths, options: ScanOptions, steps: int) -> None:
    ax.set_axis_off()
    y, top = 0.0, 0.3
    small = 8.0 if steps > 14 else 9.0
    blue = COLOURS["gradient"]
    if options.k_trunc is not None and options.truncation == "block":
        for t in range(2, steps + 1):
            if (t - options.block_offset) % options.k_trunc == 0:
                ax.plot(
                    [t - 0.5, t - 0.5], [-0.62, 0.85], color=COLOURS["edge"], lw=1.0,
                    ls=(0, (2, 2)), zorder=0,
                )  # fmt: skip
    for t in range(1, steps + 1):
        hit = t in paths.cells
        box(
            ax,
            t,
            y,
            step_label("h", t, steps),
            COLOURS["gradient_fill"] if hit else COLOURS["cell"],
            blue if hit else COLOURS["edge"],
            fontsize=small,
            lw=1.6 if hit else 0.9,
            color=COLOURS["text"] if hit else COLOURS["muted"],
        )
        if t % options.k_att == 0 and t < steps:
            ax.plot(
                [t], [top + 0.06], marker="s", ms=6, color=COLOURS["memory"],
                mec=COLOURS["kept"], mew=0.6, zorder=5,
            )  # fmt: skip
        if t == 1:
            continue
        right, left = (t - BOX / 2, y), (t - 1 + BOX / 2, y)
        if (t, t - 1) in paths.carries:
            arrow(ax, right, left, color=blue, lw=2.0, head=9, zorder=3)
        else:
            arrow(ax, right, left, style="-", color=COLOURS["scored"], lw=0.9)
        if t in paths.cuts:
            cross(ax, t - 0.5, y)
    for reader, written in sorted(paths.skips | paths.closed):
        shut = (reader, written) in paths.closed
        arc(
            ax, (reader - 0.12, top + 0.02), (written + 0.04, top + (0.24 if shut else 0.16)),
            0.45 + 1.55 * (reader - written) / steps,
            color=COLOURS["scored"] if shut else blue, lw=1.2 if shut else 2.0,
            ls=(0, (4, 2)) if shut else "-", style="-" if shut else "-|>",
        )  # fmt: skip
        if shut:
            cross(ax, written + 0.04, top + 0.3)
    x = paths.source
    ax.text(
        x + 0.72, top + 0.88, f"$L_{{{x}}}$", ha="center", va="center", fontsize=10.5,
        weight="bold", color=blue,
    )  # fmt: skip
    arrow(ax, (x + 0.6, top + 0.68), (x + 0.16, top - 0.02), color=blue, lw=2.0, head=10, zorder=5)
    for first, last in _pieces(paths):
        count = last - first + 1
        text = f"{count} cell{'s' if count > 1 else ''}"
        bracket(ax, first - 0.3, last + 0.3, -0.5, text, blue)
    ax.set_xlim(0.45, steps + 1.1)
    ax.set_ylim(-0.95, 2.05)


def _key(fig: Figure, drawn: Sequence[tuple[str, CreditPaths, ScanOptions]]) -> None:
    """One line under the panels that names the marks in use."""
    options = [option for _, _, option in drawn]

    def line(**look: Any) -> Line2D:
        return Line2D([], [], **look)

    handles = [
        (line(color=COLOURS["gradient"], lw=2.0), "gradient"),
        (line(color=COLOURS["memory"], marker="s", ms=6, ls="", mec=COLOURS["kept"]), "written"),
    ]
    if any(paths.cuts or paths.closed for _, paths, _ in drawn):
        mark = line(color=COLOURS["cut"], marker="X", ms=8, ls="", mec=COLOURS["panel"])
        handles.insert(1, (mark, "cut"))
    if any(option.k_trunc is not None and option.truncation == "block" for option in options):
        handles.append((line(color=COLOURS["edge"], lw=1.2, ls=(0, (2, 2))), "block border"))
    if any(option.replay == "none" for option in options):
        handles.append((line(color=COLOURS["scored"], lw=1.2, ls=(0, (4, 2))), "read, no gradient"))
    fig.legend(
        [handle for handle, _ in handles], [label for _, label in handles],
        loc="outside lower center", ncols=len(handles), handlelength=1.6, columnspacing=1.6,
    )  # fmt: skip


def describe_setting(options: ScanOptions) -> str:
    """Name truncation and replay in a few words, as a panel's title."""
    if options.k_trunc is None:
        chain = "full BPTT"
    elif options.truncation == "sliding":
        chain = f"sliding truncation, k_trunc = {options.k_trunc}"
    else:
        chain = f"blocks of {options.k_trunc}, offset {options.block_offset}"
    replay = {
        "full": "mental updates on",
        "write_step": "replay stops at the writing step",
        "none": "memories read without gradient",
    }[options.replay]
    return f"{chain}; {replay}"


def _describe(paths: CreditPaths, options: ScanOptions, steps: int) -> str:
    pieces = ", ".join(f"{a} to {b}" if a < b else str(a) for a, b in _pieces(paths))
    jumps = ", ".join(f"from {t} to {u}" for t, u in sorted(paths.skips, reverse=True))
    cuts = ", ".join(str(t) for t in sorted(paths.cuts))
    parts = [f"{describe_setting(options)}: the loss at step {paths.source} of {steps}"]
    parts.append(f"reaches cells {pieces}")
    parts.append(f"by skips {jumps}" if jumps else "by no skip")
    parts.append(f"and is cut before steps {cuts}" if cuts else "and is nowhere cut")
    return " ".join(parts)


@styled
def backward_panels(
    panels: Mapping[str, Mapping[str, Any]],
    steps: int = 12,
    *,
    k_top: int = 2,
    alt: str | None = None,
) -> Figure:
    """The credit of one loss under several settings, stacked on one timeline.

    Args:
        panels: title → settings. A setting takes ``k_att`` (2), ``k_trunc`` (3; ``None``: full
        BPTT),
            ``truncation`` (``"block"``), ``block_offset`` (0), ``replay`` (``"full"``) and
            ``reads``, step → steps at which the memories it reads were written (``None``: only the
            last step reads, ``k_top`` memories spread over the past). An empty title is made from
            the setting.
        steps: T, between 2 and 24; the loss is at T.
        k_top: memories a step reads at most.
        alt: alt text; ``None``: sentences made from the data.

    Returns:
        The figure, with alt text.

    Raises:
        ValueError: a setting is unknown or out of range, a read is impossible, or a step reads more
            than ``k_top`` memories.

    Source: paper section 3.2 and Figure 2; our own drawing, from ``credit_paths``.
    """
    check_steps(steps)
    if not panels:
        raise ValueError(f"panels={panels!r}: must hold at least one setting")
    drawn: list[tuple[str, CreditPaths, ScanOptions]] = []
    for title, setting in panels.items():
        chosen = {"k_att": 2, "k_trunc": 3} | dict(setting)
        reads = chosen.pop("reads", None)
        try:
            options = ScanOptions(k_top=k_top, **chosen)
        except TypeError as error:
            raise ValueError(
                f"panels[{title!r}]={setting!r}: must name k_att, k_trunc, truncation, "
                "block_offset, replay or reads"
            ) from error
        if reads is None:
            reads = default_reads(k_top, options.k_att, steps, first_step(steps, options))
        for step, written in reads.items():
            if len(written) > k_top:
                raise ValueError(f"reads[{step}]={list(written)}: must be at most k_top={k_top}")
        paths = credit_paths(reads, options, steps)
        drawn.append((title or describe_setting(options), paths, options))

    rows = len(drawn)
    fig, axes = new_figure(PAGE_WIDTH, 0.45 + 1.75 * rows, rows=rows)
    for ax, (title, paths, options) in zip(axes[:, 0], drawn, strict=True):
        _draw_backward(ax, paths, options, steps)
        ax.set_title(title, loc="left", pad=2)
    _key(fig, drawn)
    told = ". ".join(
        f"Panel {title!r}, {_describe(paths, options, steps)}" if rows > 1
        else f"Setting {_describe(paths, options, steps)}"
        for title, paths, options in drawn
    )  # fmt: skip
    return with_alt(
        fig,
        alt
        or f"Diagram of backward credit on a timeline of {steps} cells, gradient in blue, "
        f"cuts as red crosses. {told}.",
    )


def backward_diagram(
    k_top: int = 2,
    k_att: int = 2,
    k_trunc: int | None = 3,
    steps: int = 12,
    *,
    truncation: str = "block",
    block_offset: int = 0,
    replay: str = "full",
    reads: Mapping[int, Sequence[int]] | None = None,
    title: str | None = None,
    alt: str | None = None,
) -> Figure:
    """Where the gradient of the last step's loss goes: recurrence, skips, local replay, cuts.

    Args:
        k_top: memories a step reads at most.
        k_att: a state is written every ``k_att`` steps.
        k_trunc: local steps of backpropagation; ``None``: full BPTT.
        steps: T, between 2 and 24; the loss is at T.
        truncation: ``"block"`` or ``"sliding"``.
        block_offset: 0 or 1.
        replay: ``"full"``, ``"write_step"`` or ``"none"``.
        reads: step → steps at which the memories it reads were written; ``None``: only the last
        step
            reads, ``k_top`` memories spread over the past.
        title: ``None``: made from the setting.
        alt: alt text; ``None``: a sentence made from the data.

    Returns:
        The figure, with alt text.

    Raises:
        ValueError: as ``backward_panels``.

    Source: paper section 3.2 and Figure 2; our own drawing, from ``credit_paths``.
    """
    setting = {
        "k_att": k_att,
        "k_trunc": k_trunc,
        "truncation": truncation,
        "block_offset": block_offset,
        "replay": replay,
        "reads": reads,
    }
    return backward_panels({title or "": setting}, steps, k_top=k_top, alt=alt)
