"""Figures of attention: complete, and they refuse what they cannot show."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from matplotlib.figure import Figure

from sab.figures import attention
from sab.figures.style import alt_of
from sab.tasks.patterns import letters

W = np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])
AC = letters("AC")
CASES: dict[str, tuple[Callable[[], Figure], str]] = {
    "plane": (
        lambda: attention.attention_plane([1, 0], [[2, 0], [0, 2]], [0.9, 0.1], [1.8, 0.2]),
        "x1 0.900, x2 0.100",
    ),
    "matrix": (lambda: attention.weight_matrices(W, rows="abc", columns="xyz"), "3 rows"),
    "matrices": (lambda: attention.weight_matrices({"one": W, "two": W}), "two has 3 rows"),
    "letters": (
        lambda: attention.pattern_grid({"stored": AC, "back": AC}, columns="AC"),
        "2 patterns of 10 by 10 pixels in each of 2 rows: stored, back",
    ),
    "pointers": (lambda: attention.pointers(W, ["0.3", "0.1", "0.9"]), "step 3 at 0.9 (0.50)"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_it_says_what_it_shows(name: str) -> None:
    draw, words = CASES[name]
    assert words in alt_of(draw())


def test_the_numbers_are_in_the_cells() -> None:
    texts = [text.get_text() for text in attention.weight_matrices(W).axes[0].texts]
    assert texts == [f"{value:.2f}" for value in W.ravel() if value]


def test_words_under_a_matrix_are_turned_and_letters_are_not() -> None:
    def turned(columns: list[str] | None) -> set[float]:
        fig = attention.weight_matrices(W, columns=columns)
        return {label.get_rotation() for label in fig.axes[0].get_xticklabels()}

    assert turned(["zwei", "Hunde", "im"]) == {60.0}
    assert turned(["a", "bc", "d"]) == turned(None) == {0.0}


def test_the_alt_text_names_rows_and_columns() -> None:
    fig = attention.weight_matrices(W, ylabel="German word", xlabel="English word")
    assert alt_of(fig) == (
        "Attention weights; rows: German word; columns: English word. The matrix has 3 rows and 3 "
        "columns, its largest weight is 1.00."
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: attention.attention_plane([1, 0, 0], [[1, 0]], [1.0], [1, 0]), "have shapes"),
        (lambda: attention.attention_plane([1, 0], [[1, 0]], [0.5, 0.5], [1, 0]), "weights has"),
        (lambda: attention.weight_matrices(2 * W), "between 0 and 1"),
        (lambda: attention.weight_matrices(W, rows=["a"]), "must be 3 names"),
        (lambda: attention.pattern_grid({}), "at least one"),
        (lambda: attention.pattern_grid({"a": letters("A")}, side=9), "one shape"),
        (lambda: attention.pattern_grid({"a": letters("A")}, columns="AB"), "must be 1 titles"),
        (lambda: attention.pointers(W, ["a"]), "must be 3 names"),
    ],
)
def test_what_it_refuses(call: Callable[[], Figure], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
