"""Masks of real steps: compaction and its way back, pooling, and empty sequences."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from sab.ops.padding import POOLS, check_keep, compact, pool, real_rows, spread

KEEP = torch.tensor([[False, True, False, True, True], [True, True, False, False, False]])
X = torch.arange(10.0).view(2, 5, 1).requires_grad_()


def test_compact_and_spread() -> None:
    front = compact(X, KEEP)
    assert front[..., 0].tolist() == [[1, 3, 4, 0, 0], [5, 6, 0, 0, 0]]
    back = spread(front, KEEP)
    assert back[..., 0].tolist() == [[0, 1, 1, 3, 4], [5, 6, 6, 6, 6]]
    (grad,) = torch.autograd.grad(back.sum(), X)
    assert grad[..., 0].tolist() == [[0, 2, 0, 1, 1], [1, 4, 0, 0, 0]]


def test_pool() -> None:
    with torch.no_grad():
        assert pool(X, KEEP, "mean")[:, 0].tolist() == pytest.approx([8 / 3, 5.5])
        assert pool(X, KEEP, "max")[:, 0].tolist() == [4, 6]
        assert pool(X, KEEP, "last")[:, 0].tolist() == [4, 6]
        assert pool(X, None, "mean")[:, 0].tolist() == [2, 7]
        assert pool(X, None, "last")[:, 0].tolist() == [4, 9]
    with pytest.raises(ValueError, match="kind='sum'"):
        pool(X, None, "sum")


@pytest.mark.parametrize(
    "call",
    [
        lambda x: compact(x, KEEP),
        lambda x: spread(x, KEEP),
        *(lambda x, kind=kind: pool(x, KEEP, kind) for kind in POOLS),
        *(lambda x, kind=kind: pool(x, None, kind) for kind in POOLS),
    ],
)
def test_gradcheck(call: Callable[[Tensor], Tensor]) -> None:
    source = torch.Generator().manual_seed(0)
    x = torch.randn(2, 5, 3, generator=source, dtype=torch.float64).requires_grad_()
    assert gradcheck(call, (x,))


def test_masks() -> None:
    assert real_rows(torch.tensor([[[0.0, 0], [0, 1], [-1, 1]]])).tolist() == [[False, True, True]]
    assert check_keep(KEEP, X) is KEEP
    for keep, message in (
        (KEEP[:, :4], "keep has shape"),
        (KEEP.float(), "keep has dtype"),
        (KEEP & torch.tensor([[True], [False]]), "sequence 1 of the batch has no real step"),
    ):
        with pytest.raises(ValueError, match=message):
            check_keep(keep, X)
