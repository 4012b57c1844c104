"""Sentence vectors against the formula of Sukhbaatar et al. 2015."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from sab.ops.word_order import bag_weights, position_weights, sentence_vectors

PRESENT = torch.tensor([[True, True, True, False], [True, False, False, False]])
WORDS = torch.tensor([[1, 2, 1, 0], [2, 0, 0, 0]])
TABLE = torch.randn(3, 10, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_position_weights_are_the_formula() -> None:
    found = position_weights(PRESENT, 5)
    for row, count in enumerate((3, 1)):
        for j in range(1, 5):
            for k in range(1, 6):
                expected = (1 - j / count) - (k / 5) * (1 - 2 * j / count) if j <= count else 0.0
                assert found[row, j - 1, k - 1].item() == pytest.approx(expected, abs=1e-6)


def test_a_sentence_is_the_sum_of_its_words() -> None:
    found = sentence_vectors(WORDS, TABLE, bag_weights(PRESENT, 5).double())
    torch.testing.assert_close(found[0].flatten(), 2 * TABLE[1] + TABLE[2])
    torch.testing.assert_close(found[1].flatten(), TABLE[2])
    ordered = position_weights(PRESENT, 5).double()
    found = sentence_vectors(WORDS, TABLE, ordered)
    for c in range(2):
        part = TABLE[:, 5 * c : 5 * c + 5]
        expected = sum(ordered[0, j] * part[w] for j, w in enumerate((1, 2, 1)))
        torch.testing.assert_close(found[0, c], expected)


def test_order_counts_with_positions_only() -> None:
    swapped = torch.tensor([[2, 1, 1, 0], [2, 0, 0, 0]])
    for weights, same in ((bag_weights, True), (position_weights, False)):
        values = weights(PRESENT, 5).double()
        a, b = (sentence_vectors(words, TABLE, values)[0] for words in (WORDS, swapped))
        assert torch.allclose(a, b) is same


def test_padding_changes_nothing() -> None:
    wide = torch.nn.functional.pad(WORDS, (0, 3))
    for weights in (bag_weights, position_weights):
        a = sentence_vectors(WORDS, TABLE, weights(WORDS > 0, 5).double())
        b = sentence_vectors(wide, TABLE, weights(wide > 0, 5).double())
        torch.testing.assert_close(a, b)


def test_gradcheck() -> None:
    weights = position_weights(PRESENT, 5).double()
    table = TABLE.clone().requires_grad_()
    assert gradcheck(lambda t: sentence_vectors(WORDS, t, weights), (table,))
    (gradient,) = torch.autograd.grad(sentence_vectors(WORDS, table, weights).sum(), table)
    assert not gradient[0].any()  # padding has no gradient


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: position_weights(WORDS, 5), "present has dtype torch.int64"),
        (lambda: position_weights(torch.tensor(True), 5), "present has shape ()"),
        (lambda: bag_weights(torch.tensor(True), 5), "present has shape ()"),
        (lambda: bag_weights(PRESENT.float(), 5), "present has dtype torch.float32"),
        (
            lambda: sentence_vectors(torch.tensor(1), TABLE, torch.zeros(5)),
            "words has shape ()",
        ),
        (
            lambda: sentence_vectors(WORDS, TABLE, torch.zeros(2, 4, 0)),
            "width of the weights=0: must be an integer of at least 1",
        ),
        (
            lambda: sentence_vectors(WORDS.float(), TABLE, torch.zeros(2, 4, 5)),
            "words has dtype torch.float32: must be torch.int64",
        ),
        (
            lambda: sentence_vectors(WORDS, TABLE, torch.zeros(2, 4, 5)),
            "weights has dtype torch.float32: must be torch.float64",
        ),
        (lambda: position_weights(PRESENT, 0), "width=0"),
        (lambda: bag_weights(PRESENT, 0), "width=0"),
        (
            lambda: sentence_vectors(WORDS, TABLE, torch.zeros(2, 3, 5)),
            "weights has shape (2, 3, 5)",
        ),
        (
            lambda: sentence_vectors(WORDS, TABLE, torch.zeros(2, 4, 3)),
            "table has width 10: must be a multiple of 3",
        ),
        (
            lambda: sentence_vectors(WORDS + 1, TABLE, torch.zeros(2, 4, 5)),
            "words: must be between 0 and 2",
        ),
    ],
)
def test_errors(call: Callable[[], Tensor], message: str) -> None:
    with pytest.raises(ValueError) as error:
        call()
    assert str(error.value).startswith(message)
