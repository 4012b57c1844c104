"""Multi-head attention against PyTorch's own with the same weights."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from sab.models.multi_head import MultiHead
from sab.ops.attention import causal_mask, padding_mask


def pair(width: int = 12, heads: int = 3) -> tuple[MultiHead, nn.MultiheadAttention]:
    """Ours, and PyTorch's with our weights; float64."""
    torch.manual_seed(0)
    ours = MultiHead(width, heads).double()
    theirs = nn.MultiheadAttention(width, heads, batch_first=True).double()
    parts = (ours.query, ours.key, ours.value)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
        theirs.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
        theirs.out_proj.weight.copy_(ours.output.weight)
        theirs.out_proj.bias.copy_(ours.output.bias)
    return ours, theirs


def draw(*size: int) -> Tensor:
    source = torch.Generator().manual_seed(sum(size))
    return torch.randn(*size, generator=source, dtype=torch.float64)


@pytest.mark.parametrize("heads", [1, 3, 12])
@pytest.mark.parametrize("kind", ["self", "causal", "cross", "padded"])
def test_equal_to_torch_forward_and_every_gradient(heads: int, kind: str) -> None:
    ours, theirs = pair(heads=heads)
    x = draw(2, 5, 12).requires_grad_()
    y = x.detach().clone().requires_grad_()
    lengths = torch.tensor([5, 2])
    memories = draw(2, 5, 12) if kind in ("cross", "padded") else None
    mask: Tensor | None = None
    options: dict[str, Tensor] = {}
    if kind == "causal":
        mask = causal_mask(5)
        options["attn_mask"] = ~mask
    if kind == "padded":
        mask = padding_mask(lengths, 5)[:, None, None]
        options["key_padding_mask"] = ~padding_mask(lengths, 5)
    output, weights = ours.read(x, memories, mask)
    other = y if memories is None else memories
    expected, spread = theirs(y, other, other, average_attn_weights=False, **options)
    torch.testing.assert_close(output, expected, atol=1e-12, rtol=0)
    torch.testing.assert_close(weights, spread, atol=1e-12, rtol=0)
    torch.testing.assert_close(ours(x, memories, mask), output, atol=1e-12, rtol=0)
    output.square().sum().backward()
    expected.square().sum().backward()
    torch.testing.assert_close(x.grad, y.grad, atol=1e-12, rtol=0)
    parts = (ours.query, ours.key, ours.value)
    found = torch.cat([part.weight.grad for part in parts if part.weight.grad is not None])
    torch.testing.assert_close(found, theirs.in_proj_weight.grad, atol=1e-11, rtol=0)
    torch.testing.assert_close(
        ours.output.weight.grad, theirs.out_proj.weight.grad, atol=1e-11, rtol=0
    )


@pytest.mark.parametrize("rubbish", [1e6, math.nan])
@pytest.mark.parametrize("way", ["forward", "read"])
def test_padding_changes_nothing(rubbish: float, way: str) -> None:
    ours, _ = pair()
    x = draw(2, 6, 12)
    mask = padding_mask(torch.tensor([4, 4]), 6)[:, None, None]
    poisoned = x.clone()
    poisoned[:, 4:] = rubbish
    poisoned.requires_grad_()
    clean = x.clone().requires_grad_()

    def call(memories: Tensor) -> Tensor:
        found = ours.read(x, memories, mask)
        return found.output if way == "read" else ours(x, memories, mask)

    assert torch.equal(call(clean), call(poisoned))
    parameters = (*ours.parameters(),)
    wanted = torch.autograd.grad(call(clean).square().sum(), (clean, *parameters))
    found = torch.autograd.grad(call(poisoned).square().sum(), (poisoned, *parameters))
    for one, other in zip(found, wanted, strict=True):
        assert torch.equal(one, other)
    assert (found[0][:, 4:] == 0).all()
    torch.testing.assert_close(ours(x, x, mask)[:, :4], ours(x[:, :4]), atol=1e-13, rtol=0)


def test_self_attention_is_permutation_equivariant() -> None:
    ours, _ = pair()
    x, turn = draw(2, 6, 12), torch.tensor([3, 0, 5, 1, 4, 2])
    torch.testing.assert_close(ours(x[:, turn]), ours(x)[:, turn], atol=1e-13, rtol=0)
    future = x.clone()
    future[:, 4:] += 1
    masked = causal_mask(6)
    assert torch.equal(ours(x, mask=masked)[:, :4], ours(future, mask=masked)[:, :4])


def test_errors() -> None:
    with pytest.raises(ValueError, match="heads=5: must divide width=12"):
        MultiHead(12, 5)
    with pytest.raises(ValueError, match="width=0"):
        MultiHead(0)
    layer = MultiHead(4, 2)
    with pytest.raises(ValueError, match="queries has shape"):
        layer(torch.zeros(2, 3, 5))
    with pytest.raises(ValueError, match="memories has shape"):
        layer(torch.zeros(2, 3, 4), torch.zeros(1, 3, 4))
    with pytest.raises(ValueError, match="all False"):
        layer(torch.zeros(2, 3, 4), mask=torch.zeros(3, 3, dtype=torch.bool))
    with pytest.raises(ValueError, match="memories has dtype"):
        layer(torch.zeros(2, 3, 4), torch.zeros(2, 3, 4).double())
    with pytest.raises(ValueError, match="mask has dtype"):
        layer.read(torch.zeros(2, 3, 4), mask=torch.ones(3, 3))
    with pytest.raises(ValueError, match="mask has shape"):
        layer.read(torch.zeros(2, 3, 4), mask=torch.ones(4, 4, dtype=torch.bool))
