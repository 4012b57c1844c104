"""House style of every figure: colours, sizes, alt text, and the refusal of an incomplete figure.

A figure sits on its own opaque off-white panel, so that it reads the same on a light and on a dark
page. It is made as a bare ``matplotlib.figure.Figure`` (never registered with pyplot), so that a
notebook shows it once and long runs leave no open figures behind. Seven inches at 100 dots an inch
are the 700 pixels of a page's text column: at that size no text is smaller than 10 pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec

import matplotlib as mpl
import numpy as np
import seaborn as sns
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from sab.checks import finite_float

PAGE_WIDTH = 7.0
"""Width of a full-width figure in inches."""

MINIMUM_ALT = 40
"""Fewest characters an alt text may have: less can't say what a figure shows."""

COLOURS: dict[str, str] = {
    "panel": "#fbfaf7",
    "text": "#26282b",
    "muted": "#6a6e73",
    "grid": "#e3e1db",
    "edge": "#b9b6ae",
    "cell": "#eceae4",
    "scored": "#b3b0a9",
    "memory": "#e69f00",
    "memory_fill": "#fbe7bd",
    "kept": "#b34a00",
    "gradient": "#0072b2",
    "gradient_fill": "#cfe6f5",
    "cut": "#c1272d",
    "summary": "#7a4fa3",
    "summary_fill": "#e9dff3",
    "chance": "#6a6e73",
    "paper": "#8b8f94",
}
"""Colours by role. Hues come from the Okabe-Ito set, darkened until a line on the panel has a
contrast of 3 and a text one of 4.5; no meaning rests on hue alone."""

_CYCLE = ["#b34a00", "#0072b2", "#007f5a", "#b0558a", "#a67500", "#3a93c9", "#26282b"]
_MARKERS = ["o", "s", "^", "D", "v", "P", "X"]
_DASHES: list[Any] = ["-", (0, (5, 1.6)), (0, (1.2, 1.2)), (0, (5, 1.4, 1.2, 1.4)), "-", "-", "-"]
_SYSTEMS = {
    "sab": 0,
    "lstm": 1,
    "attentive_lstm": 2,
    "transformer": 3,
    "tbptt": 5,
}

_SHOWN = (
    ("attentive_lstm", "LSTM + self-attention"),
    ("lstm", "LSTM"),
    ("sab", "SAB"),
    ("transformer", "Transformer"),
)

P = ParamSpec("P")


def _rc() -> Any:
    return {
        "figure.facecolor": COLOURS["panel"],
        "figure.edgecolor": COLOURS["panel"],
        "savefig.facecolor": "auto",
        "savefig.dpi": 160,
        "figure.dpi": 100,
        "axes.facecolor": COLOURS["panel"],
        "axes.edgecolor": COLOURS["edge"],
        "axes.labelcolor": COLOURS["text"],
        "axes.titlesize": 9.5,
        "axes.titleweight": "bold",
        "axes.titlecolor": COLOURS["text"],
        "axes.labelsize": 9.0,
        "axes.linewidth": 0.8,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.prop_cycle": cycler(color=_CYCLE),
        "axes.axisbelow": True,
        "grid.color": COLOURS["grid"],
        "grid.linewidth": 0.7,
        "text.color": COLOURS["text"],
        "xtick.color": COLOURS["text"],
        "ytick.color": COLOURS["text"],
        "xtick.labelsize": 8.5,
        "ytick.labelsize": 8.5,
        "legend.fontsize": 8.5,
        "legend.frameon": False,
        "lines.linewidth": 1.8,
        "font.size": 9.0,
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans"],
        "mathtext.fontset": "dejavusans",
        "svg.fonttype": "none",
    }


@contextmanager
def style() -> Iterator[None]:
    """Apply the house style inside a ``with`` block and restore the old one after it."""
    with sns.axes_style("whitegrid", rc=_rc()), mpl.rc_context(_rc()):
        yield


def use_style() -> None:
    """Apply the house style for the rest of the session, for figures made with pyplot by hand."""
    sns.set_theme(context="paper", style="whitegrid", rc=_rc())


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Run a figure function under the house style and refuse its figure if it is incomplete."""

    @wraps(draw)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with style():
            return require_complete(draw(*args, **kwargs))

    return wrapper


def new_figure(
    width: float = PAGE_WIDTH, height: float = 3.0, rows: int = 1, columns: int = 1, **options: Any
) -> tuple[Figure, np.ndarray]:
    """Return a figure outside pyplot and its axes as an array of shape ``(rows, columns)``.

    Args:
        width: inches.
        height: inches.
        rows: rows of axes.
        columns: columns of axes.
        **options: passed on to ``Figure.subplots``.
    """
    fig = Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.07, h_pad=0.07))
    FigureCanvasAgg(fig)
    axes = fig.subplots(rows, columns, squeeze=False, **options)
    return fig, axes


def system_style(name: str, order: int = 0) -> dict[str, Any]:
    """Return colour, marker and line style of a system; the same name always looks the same.

    Args:
        name: a registered system's name, with or without a setting after a space or bracket
            (``"sab (5,5)"`` looks like ``"sab"``); case is ignored.
        order: position used for a name that has no fixed look.
    """
    key = name.lower().replace("-", "_").replace(" ", "_")
    known = [known for known in _SYSTEMS if key == known or key.startswith(known)]
    index = _SYSTEMS[max(known, key=len)] if known else order % len(_CYCLE)
    return {"color": _CYCLE[index], "marker": _MARKERS[index], "linestyle": _DASHES[index]}


def system_label(name: str) -> str:
    """Return how a system is called in a legend; anything after its name is kept.

    Args:
        name: a label that may begin with a registered system's name.
    """
    for key, shown in _SHOWN:
        if name.lower() == key or name.lower().startswith((key + " ", key + ",", key + " (")):
            return shown + name[len(key) :]
    return name


def series_styles(names: list[str]) -> list[dict[str, Any]]:
    """Return one look a name; names that would share a look get the next free one.

    Args:
        names: labels of one figure, in drawing order.
    """
    looks: list[dict[str, Any]] = []
    taken: set[str] = set()
    for order, name in enumerate(names):
        look = system_style(name, order)
        step = 0
        while look["color"] in taken and step < len(_CYCLE):
            index = (order + step) % len(_CYCLE)
            look = {"color": _CYCLE[index], "marker": _MARKERS[index], "linestyle": _DASHES[index]}
            step += 1
        taken.add(look["color"])
        looks.append(look)
    return looks


def with_alt(fig: Figure, alt: str) -> Figure:
    """Give a figure its alt text, kept in ``fig.sab_alt``.

    Raises:
        ValueError: ``alt`` is shorter than 40 characters or has no letter.
    """
    text = " ".join(str(alt).split())
    if len(text) < MINIMUM_ALT or not any(char.isalpha() for char in text):
        raise ValueError(
            f"alt={alt!r}: must be a sentence of at least {MINIMUM_ALT} characters "
            "that says what the figure shows"
        )
    fig.sab_alt = text  # type: ignore[attr-defined]
    return fig


def alt_of(fig: Figure) -> str:
    """Return a figure's alt text, or an empty string."""
    return getattr(fig, "sab_alt", "")


def chance_line(ax: Axes, value: float, label: str | None = None) -> None:
    """Draw the level reached by guessing across an accuracy plot (in the axis' own unit).

    Args:
        ax: axes of the plot.
        value: height of the line in the unit of the y axis.
        label: text on the line; ``None`` writes "chance" and the value in percent.

    Raises:
        ValueError: ``value`` is not a finite number.
    """
    level = finite_float("value", value)
    ax.axhline(level, color=COLOURS["chance"], lw=1.2, ls=(0, (4, 3)), zorder=1.5, gid="chance")
    low, high = ax.get_ylim()
    room = level - low > 0.08 * (high - low)  # else the label would stand on the axis
    ax.annotate(
        label if label is not None else f"chance {level:.3g} %",
        (0.995, level),
        xycoords=("axes fraction", "data"),
        xytext=(0, -2 if room else 2),
        textcoords="offset points",
        ha="right",
        va="top" if room else "bottom",
        fontsize=8,
        color=COLOURS["chance"],
    )


def _shared_label(ax: Axes, which: str) -> str:
    group = ax.get_shared_x_axes() if which == "x" else ax.get_shared_y_axes()
    labels = [getattr(peer, f"get_{which}label")() for peer in group.get_siblings(ax)]
    return next((label for label in labels if label.strip()), "")


def require_complete(fig: Figure) -> Figure:
    """Return ``fig`` if a reader can make sense of it without the text around it.

    Asked for: alt text; an x and a y label for every axes that shows its axis (a shared or
    figure-wide label counts); a chance line in every axes whose y label speaks of accuracy.

    Raises:
        ValueError: something of that is missing; the message says what.
    """
    if not alt_of(fig):
        raise ValueError("fig has no alt text: must be given with with_alt(fig, alt)")
    if not fig.axes:
        raise ValueError("fig has no axes: must show something")
    for number, ax in enumerate(fig.axes):
        if not (ax.axison and ax.get_visible()):
            continue
        wide = {"x": fig.get_supxlabel(), "y": fig.get_supylabel()}
        is_colourbar = ax.get_label() == "<colorbar>"
        labels = {which: _shared_label(ax, which) or wide[which] for which in "xy"}
        if is_colourbar:
            if not any(labels.values()):
                raise ValueError(f"colour bar {number} has no label: must say what it measures")
            continue
        for which, label in labels.items():
            if not label:
                raise ValueError(f"axes {number} has no {which} label: must name it and its unit")
        has_chance = any(line.get_gid() == "chance" for line in ax.lines)
        if "accuracy" in labels["y"].lower() and not has_chance:
            raise ValueError(
                f"axes {number} shows an accuracy without a chance line: must call chance_line"
            )
    return fig


def save(fig: Figure, path: str | Path, dpi: int = 160) -> Path:
    """Write a complete figure as a PNG whose ``Description`` field holds the alt text.

    Args:
        fig: a figure with alt text, labels and, for accuracy, a chance line.
        path: file to write; its folder is made when missing.
        dpi: dots an inch.

    Raises:
        ValueError: the figure is incomplete (see ``require_complete``).
    """
    require_complete(fig)
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(target, format="png", dpi=dpi, metadata={"Description": alt_of(fig)})
    return target


def as_panels(name: str, value: Any) -> dict[str, Any]:
    """Return ``value`` as title → array; a bare array becomes one panel with an empty title.

    Raises:
        ValueError: a mapping without entries.
    """
    if isinstance(value, Mapping):
        if not value:
            raise ValueError(f"{name}={value!r}: must hold at least one panel")
        return {str(title): array for title, array in value.items()}
    return {"": value}


def to_array(name: str, value: Any, dimensions: int) -> np.ndarray:
    """Return a tensor, array or nested list as a NumPy array with so many dimensions.

    Raises:
        ValueError: the number of dimensions differs or the array is empty.
    """
    source = value.detach().cpu().numpy() if hasattr(value, "detach") else value
    array = np.asarray(source)
    if array.ndim != dimensions or array.size == 0:
        raise ValueError(
            f"{name} has shape {array.shape}: must have {dimensions} dimensions and not be empty"
        )
    return array
