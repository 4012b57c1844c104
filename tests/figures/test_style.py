"""The house style: what it refuses, and what a reader can see."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from PIL import Image

from sab.figures import style

ALT = "A line that rises from left to right, drawn for a test of the house style."


def luminance(colour: str) -> float:
    channels = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return 0.2126 * channels[0] + 0.7152 * channels[1] + 0.0722 * channels[2]


def contrast(first: str, second: str) -> float:
    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("role", ["text", "muted", "kept", "gradient", "summary", "chance", "cut"])
def test_text_colours_are_readable_on_the_panel(role: str) -> None:
    assert contrast(style.COLOURS[role], style.COLOURS["panel"]) >= 4.5


def test_line_colours_are_visible_and_distinct() -> None:
    looks = style.series_styles([f"row {i}" for i in range(7)])
    colours = [look["color"] for look in looks]
    assert len(set(colours)) == 7
    assert all(contrast(colour, style.COLOURS["panel"]) >= 3 for colour in colours)
    assert len({(look["marker"], str(look["linestyle"])) for look in looks}) == 7


def plain(xlabel: str = "step", ylabel: str = "norm") -> Figure:
    with style.style():
        fig, axes = style.new_figure()
        axes[0, 0].plot([1, 2], [1, 2])
        axes[0, 0].set_xlabel(xlabel)
        axes[0, 0].set_ylabel(ylabel)
    return fig


def test_complete_figure_passes() -> None:
    fig = style.with_alt(plain(), ALT)
    assert style.require_complete(fig) is fig
    assert style.alt_of(fig) == ALT


@pytest.mark.parametrize("alt", ["", "short", " " * 80, "1" * 80])
def test_alt_text_must_say_something(alt: str) -> None:
    with pytest.raises(ValueError, match="alt="):
        style.with_alt(plain(), alt)


def no_chance() -> Figure:
    return style.with_alt(plain(ylabel="accuracy (%)"), ALT)


def no_bar_label() -> Figure:
    fig = style.with_alt(plain(), ALT)
    fig.colorbar(fig.axes[0].imshow(np.eye(2)), ax=fig.axes[0])
    return fig


@pytest.mark.parametrize(
    ("make", "missing"),
    [
        (plain, "alt text"),
        (lambda: style.with_alt(plain(xlabel=""), ALT), "no x label"),
        (lambda: style.with_alt(plain(ylabel=" "), ALT), "no y label"),
        (no_chance, "chance line"),
        (no_bar_label, "colour bar"),
        (lambda: style.with_alt(Figure(), ALT), "no axes"),
    ],
)
def test_incomplete_figures_are_refused(
    make: Callable[[], Figure], missing: str, tmp_path: Path
) -> None:
    fig = make()
    with pytest.raises(ValueError, match=missing):
        style.require_complete(fig)
    with pytest.raises(ValueError, match=missing):
        style.save(fig, tmp_path / "figure.png")
    assert not list(tmp_path.iterdir())


def test_chance_line_completes_an_accuracy_figure() -> None:
    fig = no_chance()
    style.chance_line(fig.axes[0], 12.5)
    style.require_complete(fig)
    (line,) = [line for line in fig.axes[0].lines if line.get_gid() == "chance"]
    assert np.asarray(line.get_ydata()).tolist() == [12.5, 12.5]
    with pytest.raises(ValueError, match="value"):
        style.chance_line(fig.axes[0], float("nan"))


def test_styled_refuses_an_incomplete_figure() -> None:
    @style.styled
    def draw() -> Figure:
        return plain()

    with pytest.raises(ValueError, match="alt text"):
        draw()


def test_png_is_opaque_and_carries_its_alt_text(tmp_path: Path) -> None:
    path = style.save(style.with_alt(plain(), ALT), tmp_path / "deep" / "figure.png")
    with Image.open(path) as image:
        assert image.text["Description"] == ALT  # type: ignore[attr-defined]
        pixels = np.asarray(image.convert("RGBA"))
    assert (pixels[..., 3] == 255).all(), "a dark page would shine through"
    assert pixels[0, 0, :3].tolist() == [round(255 * c) for c in to_rgb(style.COLOURS["panel"])]


def test_inline_display_keeps_the_panel() -> None:
    """What a notebook does: savefig outside the style block, with its own defaults."""
    buffer = io.BytesIO()
    style.with_alt(plain(), ALT).savefig(buffer, format="png", facecolor="auto")
    with Image.open(buffer) as image:
        pixels = np.asarray(image.convert("RGBA"))
    assert (pixels[..., 3] == 255).all()


def test_style_leaves_no_trace() -> None:
    before = dict(mpl.rcParams)
    open_before = plt.get_fignums()
    plain()
    assert dict(mpl.rcParams) == before
    assert plt.get_fignums() == open_before


def test_a_system_always_looks_the_same() -> None:
    assert style.system_style("sab") == style.system_style("SAB (5,5)", order=3)
    assert style.system_style("sab") != style.system_style("lstm")
    assert style.system_style("attentive_lstm") != style.system_style("lstm")
    assert style.system_label("attentive_lstm, T=100") == "LSTM + self-attention, T=100"
    assert style.system_label("sable") == "sable"
    looks = style.series_styles(["lstm", "lstm TBPTT-5", "sab"])
    assert len({look["color"] for look in looks}) == 3


def test_the_chance_label_never_stands_on_the_axis() -> None:
    for level, place in ((50.0, "top"), (0.003, "bottom")):
        _, axes = style.new_figure(4.0, 3.0)
        axes[0, 0].set_ylim(0, 100)
        style.chance_line(axes[0, 0], level)
        (label,) = axes[0, 0].texts
        assert label.get_va() == place and label.get_text() == f"chance {level:g} %"
