"""The released algorithm that is timed is the reference form with the released switches."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from benchmarks.released import Released, released_weights
from sab.models.sab import SAB, SABConfig


def pair(copies: bool, k_top: int, k_att: int, k_trunc: int) -> tuple[Released, SAB]:
    torch.manual_seed(0)
    theirs = Released(3, 6, 4, k_top=k_top, k_att=k_att, k_trunc=k_trunc, copies=copies).double()
    config = SABConfig.released(
        input_size=3, hidden_size=6, output_size=4, k_top=k_top, k_att=k_att, k_trunc=k_trunc,
        form="reference",
    )  # fmt: skip
    ours = SAB(config).double()
    n = 6
    with torch.no_grad():
        theirs.w.normal_()  # scores far from zero, so that reads are not all raw
        ours.layer.weight_ih.copy_(theirs.cell.weight_ih)
        ours.layer.weight_hh.copy_(theirs.cell.weight_hh)
        ours.layer.bias.copy_(theirs.cell.bias_ih + theirs.cell.bias_hh)
        ours.layer.w_query.copy_(theirs.w[:n, 0])
        ours.layer.w_memory.copy_(theirs.w[n:, 0])
        ours.v1.weight.copy_(theirs.readout.weight[:, :n])
        ours.v2.weight.copy_(theirs.readout.weight[:, n:])
        ours.v1.bias.copy_(theirs.readout.bias)
    return theirs, ours


def gradients(loss: Tensor, *parameters: Tensor) -> list[Tensor]:
    return [g.flatten() for g in torch.autograd.grad(loss, parameters)]


@pytest.mark.parametrize("copies", [True, False])
@pytest.mark.parametrize(("k_top", "k_att", "k_trunc"), [(3, 2, 5), (2, 1, 3), (4, 3, 20)])
def test_values_and_gradients_are_the_reference_s(
    copies: bool, k_top: int, k_att: int, k_trunc: int
) -> None:
    theirs, ours = pair(copies, k_top, k_att, k_trunc)
    x = torch.randn(4, 17, 3, dtype=torch.float64)
    found, wanted = theirs(x), ours(x)[0]
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-10)
    probe = torch.randn_like(wanted)
    cell, layer = theirs.cell, ours.layer
    got = gradients(
        (found * probe).sum(), cell.weight_ih, cell.weight_hh, cell.bias_ih, theirs.w
    )  # fmt: skip
    want = gradients(
        (wanted * probe).sum(), layer.weight_ih, layer.weight_hh, layer.bias, layer.w_query,
        layer.w_memory,
    )  # fmt: skip
    for a, b in zip([*got[:3], got[3][:6], got[3][6:]], want, strict=True):
        assert b.abs().max() > 0
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-10)


def test_fewer_memories_than_k_top_are_weighted_by_their_scores() -> None:
    scores = torch.tensor([[0.5, -2.0]])
    assert torch.equal(released_weights(scores, 2), scores)


def test_one_memory_fewer_than_k_top_is_read() -> None:
    weights = released_weights(torch.tensor([[4.0, 3.0, 1.0, 0.0]]), 3)
    assert (weights > 0).sum() == 2
    assert weights.sum() == pytest.approx(1, abs=1e-5)
    assert torch.equal(weights, released_weights(torch.tensor([[4.0, 3.0, 1.0, 0.0]]), 3, False))


def test_sizes_are_checked() -> None:
    with pytest.raises(ValueError, match="hidden_size=0"):
        Released(3, 0, 4)
    with pytest.raises(ValueError, match="x has shape"):
        Released(3, 4, 4)(torch.zeros(2, 5, 7))
