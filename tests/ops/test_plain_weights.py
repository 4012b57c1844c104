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
    a = scores([1, 2, 3], [1, 2, 3], [1, 2, 3])
    mask = torch.tensor([[True, True, True], [True, False, True], [False, False, False]])
    weights = softmax_weights(a, mask)
    torch.testing.assert_close(weights[0], torch.softmax(a[0], 0))
    two = torch.softmax(a[1, [0, 2]], 0)
    torch.testing.assert_close(weights[1].tolist(), [two[0].item(), 0.0, two[1].item()])
    assert weights[2].tolist() == [0, 0, 0]
    (found,) = torch.autograd.grad((weights * scores([1, -2, 5])).sum(), a)
    assert found.isfinite().all() and found[1, 1] == 0 and (found[2] == 0).all()
    torch.testing.assert_close(softmax_weights(a), torch.softmax(a, 1))
    assert softmax_weights(torch.zeros(2, 0)).shape == (2, 0)


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
    ],
)
def test_bad_arguments_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:
        sparse_weights(**{"scores": torch.zeros(2, 4), "k_top": 2, **change})
    assert message in str(error.value)


def test_softmax_and_hard_refuse_wrong_shapes() -> None:
    with pytest.raises(ValueError, match=r"mask has shape \(2, 3\): must be \(2, 4\)"):
        softmax_weights(torch.zeros(2, 4), torch.ones(2, 3, dtype=torch.bool))
    for function in (softmax_weights, hard_weights):
        with pytest.raises(ValueError, match=r"scores has shape \(4,\)"):
            function(torch.zeros(4))
