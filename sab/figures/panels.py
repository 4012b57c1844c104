"""Learning curves of the same systems on several tasks, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from sab.figures.style import (
    COLOURS,
    PAGE_WIDTH,
    chance_line,
    new_figure,
    series_styles,
    styled,
    with_alt,
)


@styled
def learning_panels(
    panels: Mapping[str, Mapping[str, Any]],
    *,
    chance: Mapping[str, float],
    levels: Mapping[str, tuple[float, str]] | None = None,
    alt: str | None = None,
) -> Figure:
    """Accuracy on held-out data against updates, a panel a task, a line a system.

    Args:
        panels: task → system → record (with a ``history``); a system looks the same in all panels.
        chance: task → accuracy of guessing, a fraction.
        levels: task → another accuracy to mark, a fraction, and what it is.
        alt: alt text; ``None``: a sentence made from the data.

    Returns:
        The figure, with alt text.

    Raises:
        ValueError: there is no curve, a task has no chance, or a history has no accuracy.
    """
    names = list(dict.fromkeys(name for group in panels.values() for name in group))
    if not names:
        raise ValueError(f"panels={dict(panels)!r}: must hold at least one curve")
    looks = dict(zip(names, series_styles(names), strict=True))
    fig, axes = new_figure(PAGE_WIDTH, 3.6, columns=len(panels))
    told = []
    for ax, (task, group) in zip(axes[0], panels.items(), strict=True):
        if task not in chance:
            raise ValueError(f"chance={dict(chance)!r}: must have {task!r}")
        ax.set(ylim=(0, 103), xlabel="updates", ylabel="accuracy (%)", title=task)
        ends = []
        for name, record in group.items():
            points = [(e["update"], e.get("accuracy")) for e in record.history]
            points = [(update, value) for update, value in points if value is not None]
            if not points:
                raise ValueError(f"panels[{task!r}][{name!r}]: its history has no accuracy")
            look = looks[name]
            ax.plot(
                [update for update, _ in points],
                [100 * value for _, value in points],
                color=look["color"],
                ls=look["linestyle"],
                marker=look["marker"],
                markevery=[-1],
                label=name,
            )
            ends.append(f"{name} {100 * points[-1][1]:.0f} %")
        chance_line(ax, 100 * chance[task])
        if levels and task in levels:
            level, label = levels[task]
            ax.axhline(100 * level, color=COLOURS["gradient"], lw=1.0, ls=(0, (1, 2)), zorder=1)
            ax.annotate(label, (0.995, 100 * level), xytext=(0, -2), ha="right", va="top",
                        xycoords=("axes fraction", "data"), textcoords="offset points", fontsize=8,
                        color=COLOURS["gradient"])  # fmt: skip
        told.append(f"{task}: {', '.join(ends)} at the end, guessing {100 * chance[task]:.3g} %")
    shown = {label: line for ax in axes[0] for line, label in zip(*_legend(ax), strict=True)}
    fig.legend(shown.values(), shown.keys(), loc="outside upper center", ncols=3)
    return with_alt(fig, alt or f"Learning curves of accuracy. {'; '.join(told)}.")


def _legend(ax: Any) -> tuple[list[Any], list[str]]:
    lines, labels = ax.get_legend_handles_labels()
    return lines, labels
