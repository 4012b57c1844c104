"""The figure of switches: a line each, the base's values as guides, no silence about gaps."""

from typing import Any

import pytest

from sab.analysis.effects import Effect
from sab.figures import switch_effects
from sab.figures.style import alt_of

BASE = Effect("base", "as it learns", 2, 0.9, 0.85, 0.95, 0.95, 0.1, 30.0, 3000)
WORSE = Effect("d1", "D1", 1, 0.2, 0.2, 0.2, 0.3, 5.0, 1e9, 3000)
ABSENT = Effect("d2", "D2")


def test_draws_every_row_and_says_what_was_not_run() -> None:
    fig = switch_effects([BASE, WORSE, ABSENT], chance=0.125, base="base")
    left, right = fig.axes
    assert [tick.get_text() for tick in left.get_yticklabels()] == ["as it learns", "D1", "D2"]
    points: Any = [line.get_xdata() for line in left.lines]
    assert [85.0, 95.0] in [list(x) for x in points] and [20.0] in [list(x) for x in points]
    assert any(text.get_text() == "not run" for text in left.texts)
    assert right.get_xscale() == "log"
    alt = alt_of(fig)
    assert "D1: 20 %, largest norm 1e+09" in alt and "D2: not run" in alt and "12.5 %" in alt


def test_labels_of_ones_own() -> None:
    fig = switch_effects({"first": BASE}, chance=0.125)
    assert fig.axes[0].get_yticklabels()[0].get_text() == "first"


def test_nothing_to_draw_is_refused() -> None:
    with pytest.raises(ValueError, match="with records"):
        switch_effects([ABSENT], chance=0.125)


def test_the_range_of_equal_runs_is_shaded_and_told() -> None:
    fig = switch_effects([BASE, WORSE], chance=0.125, base="base", noise=(0.9, 0.95))
    (band,) = [p for p in fig.axes[0].patches if p.get_gid() == "noise"]
    assert band.get_extents().width > 0
    assert "runs of one setting lie between 90 and 95 % (shaded)" in alt_of(fig)
    for bad in ((0.95, 0.9), (0.9, 1.5)):
        with pytest.raises(ValueError, match="noise"):
            switch_effects([BASE], chance=0.125, noise=bad)
