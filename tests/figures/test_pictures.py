"""Characters on cells and small pictures: what is drawn, told and refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.patches import Rectangle

from sab.figures import Panel, TextRow, picture_panels, text_cells
from sab.figures.style import COLOURS, alt_of


def cells(fig: Any) -> list[Rectangle]:
    return [patch for patch in fig.axes[0].patches if isinstance(patch, Rectangle)]


def shade(box: Rectangle) -> float:
    """Less is darker."""
    return sum(to_rgb(box.get_facecolor()))


def test_every_character_has_its_cell() -> None:
    values = np.array([0.0, 0.5, 1.0, np.nan, 0.1])
    fig = text_cells([TextRow("a row", "ab \nc", values, mark=2)], label="weight", columns=3)
    boxes = cells(fig)
    assert len(boxes) == 5
    assert [round(box.get_x()) for box in boxes] == [0, 1, 2, 0, 1]  # it goes on below
    assert boxes[3].get_y() > boxes[0].get_y()
    light = [shade(box) for box in boxes]
    assert light[2] < light[1] < light[4] < light[0] == light[3]
    assert boxes[2].get_linewidth() > boxes[1].get_linewidth()
    texts = [text.get_text() for text in fig.axes[0].texts]
    assert texts == ["a row", "a", "b", "·", "↵", "c"]
    assert "largest 1.00" in alt_of(fig) and "weight" in alt_of(fig)


def test_rows_share_one_scale() -> None:
    rows = [TextRow(name, "xy", [0.0, top]) for name, top in (("low", 1.0), ("high", 2.0))]
    boxes = cells(text_cells(rows, label="bits"))
    assert shade(boxes[3]) < shade(boxes[1])
    assert cells(text_cells(rows[:1], label="bits"))[1].get_facecolor() == boxes[3].get_facecolor()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "at least one text"),
        ([TextRow("t", "abc", [1.0, 2.0])], "'t' needs 3 values"),
        ([TextRow("t", "ab", [1.0, -2.0])], "of at least 0"),
    ],
)
def test_texts_that_are_refused(rows: list[TextRow], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        text_cells(rows, label="bits")


ALT = "Two small pictures and beside them the weights of a read on the pixels."


def test_pictures_of_a_kind_share_a_scale_and_a_bar() -> None:
    panels = [
        Panel("p", np.eye(2)),
        Panel("w", np.eye(2), "read"),
        Panel("v", 2 * np.eye(2), "read"),
        Panel("s", np.ones((2, 2)), "step"),
    ]
    fig = picture_panels(panels, scales={"read": "weight", "step": "step"}, columns=2, alt=ALT)
    shown = [ax for ax in fig.axes if ax.images]
    assert [ax.get_title() for ax in shown] == ["p", "w", "v", "s"]
    assert [ax.images[0].norm.vmax for ax in shown] == [1, 2, 2, 1]
    bars = {ax.get_xlabel() for ax in fig.axes if ax.get_label() == "<colorbar>"}
    assert bars == {"weight", "step"}
    drawn: Any = shown[1].images[0].get_array()
    assert drawn.mask.tolist() == [[False, True], [True, False]]
    assert alt_of(fig) == ALT
    assert to_rgb(shown[0].patches[0].get_edgecolor()) == to_rgb(COLOURS["edge"])


@pytest.mark.parametrize(
    ("panels", "message"),
    [
        ([], "must be some"),
        ([Panel("p", np.eye(2), "depth")], "kind='depth'"),
        ([Panel("p", -np.eye(2))], "'p': must hold finite"),
        ([Panel("p", np.ones(3))], "2 dimensions"),
    ],
)
def test_pictures_that_are_refused(panels: list[Panel], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        picture_panels(panels, alt=ALT)
