"""Softmax and hard weights, and what every rule refuses."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from sab.ops.sparse_weights import (
    hard_weights,
    softmax_weights,
    sparse_weights,
)


def scores(*rows: list[float]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64).requires_grad_()


def test_softmax_weights() -> None:
    a = scores([1, 2, 3], [1, 2, 3])
    mask = torch.tensor([[True, True, True], [True, False, True]])
    weights = softmax_weights(a, mask)
    torch.testing.assert_close(weights[0], torch.softmax(a[0], 0))
    two = torch.softmax(a[1, [0, 2]], 0)
    torch.testing.assert_close(weights[1].tolist(), [two[0].item(), 0.0, two[1].item()])
    (found,) = torch.autograd.grad((weights * scores([1, -2, 5])).sum(), a)
    assert found.isfinite().all() and found[1, 1] == 0
    assert torch.autograd.gradcheck(lambda s: softmax_weights(s, mask), (a,))
    torch.testing.assert_close(softmax_weights(a), torch.softmax(a, 1))
    assert softmax_weights(torch.zeros(2, 0)).shape == (2, 0)


def test_softmax_weights_of_a_row_with_nothing_allowed_are_zeros() -> None:
    a = scores([1, 2, 3], [1, 2, 3])
    weights = softmax_weights(a, torch.tensor([[False] * 3, [True] * 3]))
    assert weights[0].tolist() == [0, 0, 0]
    (found,) = torch.autograd.grad((weights * scores([1, -2, 5])).sum(), a)
    assert (found[0] == 0).all() and found[1].isfinite().all()


def test_k_top_may_be_larger_than_the_memory() -> None:
    """A memory that grows begins short: then all are candidates, and the weakest is not read."""
    a = scores([3, 1, 2], [0, 5, 1])
    read = sparse_weights(a, k_top=9)
    assert read.indices.shape == (2, 10)
    assert read.indices[:, 3:].eq(-1).all() and not read.weights[:, 3:].any()
    expected = [[2 / 3, 0, 1 / 3], [0, 5 / 6, 1 / 6]]
    assert read.dense(3).tolist() == [pytest.approx(row) for row in expected]


def test_hard_weights() -> None:
    a = scores([1, 3, 3], [0, 0, 0], [-5, -6, -4])
    weights = hard_weights(a)
    assert weights.tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1]]
    assert weights.dtype == a.dtype and not weights.requires_grad
    with pytest.raises(ValueError, match="number of memories=0"):
        hard_weights(torch.zeros(2, 0))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k_top": 0}, "k_top=0: must be an integer of at least 1"),
        ({"k_top": 2.0}, "k_top=2.0: must be an integer"),
        ({"threshold": "k"}, "threshold='k': must be one of 'k_top+1', 'k_top'"),
        (
            {"short_memory": "none"},
            "short_memory='none': must be one of 'margin', 'softmax', 'raw'",
        ),
        ({"scores": torch.zeros(3)}, "scores has shape (3,): must be (any, any)"),
        ({"count": torch.ones(3, dtype=torch.int64)}, "count has shape (3,): must be (2)"),
        ({"count": torch.tensor([9, 9])}, "count: must be between 0 and 4, got 9"),
        ({"count": torch.tensor([-1, 1])}, "count: must be between 0 and 4, got -1"),
        ({"count": torch.tensor([1.0, 2.0])}, "count has dtype torch.float32: must be torch.int64"),
    ],
)
def test_bad_arguments_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:
        sparse_weights(**{"scores": torch.zeros(2, 4), "k_top": 2, **change})
    assert message in str(error.value)


def test_softmax_and_hard_refuse_wrong_shapes() -> None:
    with pytest.raises(ValueError, match=r"mask has shape \(2, 3\): must be \(2, 4\)"):
        softmax_weights(torch.zeros(2, 4), torch.ones(2, 3, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"mask has dtype torch\.float32: must be torch\.bool"):
        softmax_weights(torch.zeros(2, 4), torch.ones(2, 4))
    for function in (softmax_weights, hard_weights):
        with pytest.raises(ValueError, match=r"scores has shape \(4,\)"):
            function(torch.zeros(4))
