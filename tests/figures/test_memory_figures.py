"""Figures of external memories: what they show, what their alt text says, what they refuse."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from matplotlib.figure import Figure

from sab.figures.memory import addressing_stages, head_maps, hop_table, memory_parts


def shown(fig: Figure) -> str:
    return str(fig.sab_alt)  # type: ignore[attr-defined]


def test_memory_parts_names_all_four() -> None:
    fig = memory_parts()
    words = " ".join(text.get_text() for text in fig.axes[0].texts)
    for part in ("controller", "memory", "read module", "write module"):
        assert part in words


def test_head_maps_draws_slots_over_steps() -> None:
    walk = np.eye(7)[:, :5].copy()
    walk[5:, 4] = 1
    fig = head_maps({"write": walk, "read": walk[::-1]}, mark=4)
    first = fig.axes[0].images[0].get_array()
    assert first is not None
    np.testing.assert_array_equal(np.asarray(first), walk.T)
    assert fig.axes[0].lines[0].get_xdata()[0] == 3.5  # type: ignore[index]
    assert "write: over 7 steps its heaviest slot goes from 1 to 5" in shown(fig)
    assert "before step 4" in shown(fig)


def test_addressing_stages_has_a_row_a_stage() -> None:
    fig = addressing_stages({"content": [0.1, 0.9], "sharpened": [0.0, 1.0]})
    heights = [[bar.get_height() for bar in ax.patches] for ax in fig.axes]  # type: ignore[attr-defined]
    assert heights == [[0.1, 0.9], [0.0, 1.0]]
    assert "content: slot 2 has 0.90" in shown(fig)
    assert fig.get_supylabel() == "weight" and fig.axes[-1].get_xlabel() == "slot"


def test_hop_table_writes_every_weight_and_marks_the_support() -> None:
    weights = np.array([[0.2, 0.8], [1.0, 0.0]])
    fig = hop_table(["ann went home", "ben left"], weights, support=(1,), title="where is ben?")
    ax = fig.axes[0]
    assert sorted(text.get_text() for text in ax.texts) == ["0.00", "0.20", "0.80", "1.00"]
    bold = [label.get_fontweight() for label in ax.get_yticklabels()]
    assert bold == ["normal", "bold"]
    assert "hop 1 looks most at 'ben left' (0.80)" in shown(fig)


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: head_maps(np.full((2, 2), 1.5)), "weights '': must be between 0 and 1"),
        (lambda: head_maps(np.zeros(3)), r"weights has shape \(3,\): must have 2 dimensions"),
        (lambda: addressing_stages({}), "stages={}: must hold at least one"),
        (lambda: addressing_stages({"a": [1.0], "b": [0.5, 0.5]}), "stages have shapes"),
        (lambda: hop_table(["a"], np.zeros((2, 3))), r"weights has shape \(2, 3\)"),
    ],
)
def test_errors(draw: Callable[[], Figure], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw()
