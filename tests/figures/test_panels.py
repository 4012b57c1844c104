"""Learning curves side by side."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sab.figures.panels import learning_panels
from sab.figures.style import alt_of, require_complete


def record(*values: float | None) -> Any:
    return SimpleNamespace(
        history=[{"update": 10 * i, "accuracy": v} for i, v in enumerate(values)]
    )


PANELS = {
    "copy": {"LSTM": record(0.1, 0.3), "SAB": record(0.1, 0.9)},
    "recall": {"SAB": record(0.1, None, 0.5)},
}
CHANCE = {"copy": 0.125, "recall": 0.25}


def test_lines_are_the_histories_and_look_the_same_everywhere() -> None:
    fig = learning_panels(PANELS, chance=CHANCE, levels={"recall": (0.4, "values alone")})
    require_complete(fig)
    left, right = fig.axes
    lines = {line.get_label(): line for line in left.lines}
    np.testing.assert_allclose(np.asarray(lines["SAB"].get_ydata()), [10, 90])
    other = next(line for line in right.lines if line.get_label() == "SAB")
    np.testing.assert_allclose(np.asarray(other.get_xdata()), [0, 20])
    assert other.get_color() == lines["SAB"].get_color() != lines["LSTM"].get_color()
    for ax, level in ((left, 12.5), (right, 25.0)):
        chance = next(line for line in ax.lines if line.get_gid() == "chance")
        assert np.asarray(chance.get_ydata())[0] == pytest.approx(level)
    assert [text.get_text() for text in fig.legends[0].get_texts()] == ["LSTM", "SAB"]
    assert "values alone" in {text.get_text() for text in right.texts}
    assert "SAB 90 %" in alt_of(fig) and "guessing 25 %" in alt_of(fig)


def test_refused() -> None:
    with pytest.raises(ValueError, match="at least one curve"):
        learning_panels({"copy": {}}, chance=CHANCE)
    with pytest.raises(ValueError, match="must have 'recall'"):
        learning_panels(PANELS, chance={"copy": 0.1})
    with pytest.raises(ValueError, match="has no accuracy"):
        learning_panels({"copy": {"SAB": record(None)}}, chance=CHANCE)
