"""Bits lost at each place: what is drawn, what is told, what is refused."""

from typing import Any

import numpy as np
import pytest

from sab.analysis.places import Places
from sab.figures import place_losses
from sab.figures.style import alt_of


def places(bits: list[float]) -> Places:
    nothing = np.zeros(len(bits))
    return Places(
        "e",
        "r",
        "cpu",
        0,
        "0",
        1,
        np.array(bits),
        nothing,
        nothing,
        nothing,
        nothing,
        np.zeros((len(bits), 0)),
    )


def test_the_difference_is_drawn_and_told() -> None:
    fig = place_losses(
        {"LSTM": places([2, 1, 1, 1]), "SAB": places([2, 3.5, 1, 1])}, against="LSTM", k_att=2
    )
    (ax,) = fig.axes
    assert np.allclose(ax.lines[0].get_ydata(), [0, 2.5, 0, 0])
    written: list[Any] = [line.get_xdata() for line in ax.lines[2:]]
    assert [list(steps) for steps in written] == [[2, 2], [4, 4]]
    assert "SAB loses 0.625 bits on the average, most (2.5) at character 2" in alt_of(fig)
    assert ax.get_ylabel() == "bits more than LSTM"


def test_what_is_refused() -> None:
    one, other = places([1, 1]), places([1, 1, 1])
    for found in ({"a": one}, {"b": one, "c": one}):
        with pytest.raises(ValueError, match="against='a'"):
            place_losses(found, against="a", k_att=1)
    with pytest.raises(ValueError, match="differ in length"):
        place_losses({"a": one, "b": other}, against="a", k_att=1)
