"""The figure of accuracy by place: a panel a run, borders as lines, nonsense refused."""

from typing import Any

import numpy as np
import pytest

from sab.figures import position_course
from sab.figures.style import alt_of

UPDATES = np.array([0, 100, 200])
VALUES = np.array([[0.1, 0.1], [0.95, 0.3], [1.0, 0.5]])


def test_draws_what_it_is_given() -> None:
    fig = position_course({"a": (UPDATES, VALUES), "b": (UPDATES, VALUES)}, borders={"a": [1]})
    first, second = fig.axes[:2]
    mesh: Any = first.collections[0]
    assert mesh.get_array().ravel().tolist() == [10, 95, 100, 10, 30, 50]
    assert first.get_ylim()[0] > first.get_ylim()[1], "the first symbol is on top"
    assert len(first.lines) == 1 and not second.lines
    assert "a: 90 % of the first symbol at 100, of the last never" in alt_of(fig)


def test_nonsense_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        position_course({})
    with pytest.raises(ValueError, match="shapes"):
        position_course({"a": (UPDATES[:2], VALUES)})
    with pytest.raises(ValueError, match="between 0 and 1"):
        position_course({"a": (UPDATES, 2 * VALUES)})
