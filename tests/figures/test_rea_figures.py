"""Part III's figures: what they draw, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.patches import Rectangle

from sab.figures import accuracy_dots, curves, rea_channels, window_scores
from sab.figures.style import alt_of


def test_the_layer_s_diagram_names_its_parts() -> None:
    fig = rea_channels()
    words = " ".join(text.get_text() for text in fig.axes[0].texts)
    for part in ("window attention", "running state", "gate", "stream", "×"):
        assert part in words
    assert "gate" in alt_of(fig)


@pytest.mark.parametrize("causal", [False, True])
def test_window_scores_counts_by_the_rule(causal: bool) -> None:
    n, w = 12, 3
    fig = window_scores(n, w, causal=causal)
    drawn = [[p for p in ax.patches if isinstance(p, Rectangle)] for ax in fig.axes]
    i, j = np.indices((n, n))
    counts = (abs(i - j) <= w) & ((j <= i) | (not causal))
    assert len(drawn[0]) == n * n
    blocks = {(a // w, b // w) for a, b in zip(*counts.nonzero(), strict=True)}
    assert len(drawn[1]) == len(blocks) * w * w
    for patches in drawn:
        colours = [patch.get_facecolor() for patch in patches]
        assert min(colours.count(c) for c in set(colours)) in (
            counts.sum(),
            len(patches) - counts.sum(),
        )
    with pytest.raises(ValueError, match="window=0"):
        window_scores(5, 0)


def test_curves() -> None:
    fig = curves(
        {"a": [(2, 20.0), (1, 10.0)], "b": [(1, 5.0)]},
        xlabel="steps", ylabel="share", log_x=True, log_y=True, level=1.0, level_label="one",
    )  # fmt: skip
    ax = fig.axes[0]
    assert ax.lines[0].get_xdata().tolist() == [1, 2]  # type: ignore[union-attr]
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert "a from 10 at 1 to 20 at 2" in alt_of(fig)
    with pytest.raises(ValueError, match="at least one pair"):
        curves({"a": []}, xlabel="x", ylabel="y")


def test_accuracy_dots() -> None:
    fig = accuracy_dots({"last": {"x": [0.5, 0.6], "y": [1.0]}, "mean": {"y": [0.9]}}, chance=0.5)
    first, second = fig.axes
    dots = [line for line in first.lines if line.get_linestyle() == "None"]
    assert [list(map(float, line.get_xdata())) for line in dots] == [[50, 60], [100]]  # type: ignore[arg-type]
    assert [line.get_ydata()[0] for line in second.lines if line.get_linestyle() == "None"] == [0]  # type: ignore[index]
    assert all(any(line.get_gid() == "chance" for line in ax.lines) for ax in fig.axes)
    assert "last, x: 55 %" in alt_of(fig) and alt_of(fig).startswith("Balanced accuracy, a dot")
    assert first.get_xlabel() == "balanced accuracy (%)" and first.get_xlim()[0] == 40
    tenth = accuracy_dots({"digits": {"x": [0.3]}}, chance=0.1, measure="area under the ROC curve")
    assert tenth.axes[0].get_xlim()[0] == 0 and tenth.axes[0].get_xlabel().startswith("area under")
    assert alt_of(tenth).startswith("Area under the ROC curve, a dot")
    for groups, chance in (({}, 0.5), ({"last": {}}, 0.5), ({"last": {"x": [0.5]}}, 1.5)):
        with pytest.raises(ValueError, match="must"):
            accuracy_dots(groups, chance=chance)
