from __future__ import annotations

import pytest

from sab.figures.shares import share_bars
from sab.figures.style import alt_of, require_complete

NAMES = ("early", "late")


def test_bars_and_the_blind_read_are_drawn() -> None:
    fig = require_complete(share_bars(NAMES, {"a": [0.25, 0.75], "b": [1, 0]}, blind=[0.5, 0.5]))
    left = fig.axes[0]
    assert [bar.get_width() for bar in left.patches] == [25, 75]
    assert list(left.lines[0].get_xdata()) == [50, 50]
    assert "a: early 25%, late 75%" in alt_of(fig)


@pytest.mark.parametrize("values", [[0.5], [0.5, 1.5], [-0.1, 1.1]])
def test_what_is_no_share_is_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="must be 2 fractions"):
        share_bars(NAMES, {"a": values}, blind=[0.5, 0.5])


def test_no_panel_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one panel"):
        share_bars(NAMES, {}, blind=[0.5, 0.5])
