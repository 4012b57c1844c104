"""Figures of the waiting network: they draw their data and refuse what makes no sense."""

from typing import Any

import numpy as np
import pytest

from sab.figures import score_margins, settling_curve, share_against, transfer_curve
from sab.figures.style import alt_of


def test_settling_curve_draws_every_sequence_and_the_median() -> None:
    steps = np.arange(11, 61)
    moves = np.stack([0.8**steps, 0.9**steps, 0.5 + 0 * steps])
    moves[0, -1] = 0.0
    fig = settling_curve({"seed 0": (steps, moves), "seed 1": (steps, moves)}, trained=40)
    ax: Any = fig.axes[0]
    assert len(ax.lines) == 5 and ax.get_yscale() == "log"
    assert ax.lines[3].get_ydata()[0] == pytest.approx(0.9**11)
    assert min(ax.lines[0].get_ydata()) > 0
    assert "0.31 at step 11" in alt_of(fig) and "ends at 0.5" in alt_of(fig)


def test_score_margins_shows_medians() -> None:
    values = np.arange(30.0).reshape(3, 10)
    fig = score_margins({"T = 100": {"best symbol": values, "best blank": values - 40}})
    texts = [text.get_text() for text in fig.legends[0].get_texts()]
    assert texts == ["best symbol", "best blank"]
    assert "best blank: medians -30.0 to -21.0" in alt_of(fig)


def test_share_against_is_in_percent() -> None:
    fig = share_against({"a": ([1, 10], [1.0, 0.25])}, xlabel="copies", ylabel="weight (%)")
    drawn: Any = fig.axes[0].lines[0].get_ydata()
    assert drawn.tolist() == [100.0, 25.0]
    assert "25.0 % at 10" in alt_of(fig)


def test_transfer_curve_draws_bands() -> None:
    points = {"sab": [(100, 0.9), (200, 0.8)]}
    fig = transfer_curve(points, chance=0.125, bands={"sab": [(100, 0.8, 1.0), (200, 0.7, 0.9)]})
    (band,) = fig.axes[0].collections
    corners: Any = band.get_paths()[0].vertices
    assert corners[:, 1].min() == 70 and corners[:, 1].max() == 100
    assert "between 70.0 and 100.0 %" in alt_of(fig)
    for bands in ({"lstm": [(100, 0.1, 0.2)]}, {"sab": [(100, 0.9, 0.2)]}):
        with pytest.raises(ValueError, match="bands"):
            transfer_curve(points, chance=0.125, bands=bands)


def test_nonsense_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one panel"):
        settling_curve({})
    with pytest.raises(ValueError, match="3 a line"):
        settling_curve({"a": ([1, 2, 3], np.ones((2, 4)))})
    with pytest.raises(ValueError, match="one to four series"):
        score_margins({"a": {}})
    with pytest.raises(ValueError, match="0 … 1"):
        share_against({"a": ([1], [1.5])}, xlabel="x", ylabel="y")
