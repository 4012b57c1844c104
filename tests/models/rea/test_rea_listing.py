"""What the listing does as written, and that each fix mends one thing."""

from __future__ import annotations

import pytest
import torch
from rea_cases import alone_and_in_a_batch, features, shaken

from sab.models.rea import REA, REAConfig
from sab.models.rea_layer import LayerConfig, REALayer
from sab.models.rea_listing import FIXES, ListingREA
from sab.ops.window_attention import window_attention


def listing(*fixes: str, dim: int = 8, heads: int = 2, window: int = 2) -> ListingREA:
    layer = shaken(ListingREA(dim, heads, window, fixes=fixes))
    assert isinstance(layer, ListingREA)
    return layer


def padded(real: int = 6, n: int = 12) -> torch.Tensor:
    return (torch.arange(n) < real)[None]


def test_with_every_fix_it_is_the_layer() -> None:
    mended = listing(*FIXES)
    ours = REALayer(LayerConfig(dim=8, heads=2, window=2)).double()
    parts = (mended.q_proj, mended.k_proj, mended.v_proj)
    with torch.no_grad():
        ours.qkv.weight.copy_(torch.cat([part.weight for part in parts]))
        ours.qkv.bias.copy_(torch.cat([part.bias for part in parts]))
    for mine, theirs in ((ours.out, mended.out_proj), (ours.gate, mended.gate)):
        mine.load_state_dict(theirs.state_dict())
    ours.norm.load_state_dict(mended.norm.state_dict())
    ours.rate.data.copy_(mended.rate)
    x = features(12, 8)
    for keep in (None, padded()):
        torch.testing.assert_close(mended(x, keep), ours(x, keep), atol=1e-12, rtol=0)


def test_alpha_and_gate_start_where_the_text_does_not_say() -> None:
    layer = ListingREA(8, 2)
    assert layer.alpha[0].item() == pytest.approx(0.525, abs=5e-4)
    assert layer.opening(torch.zeros(1, 16)).item() == 0.5
    mended = ListingREA(8, 2, fixes=("alpha", "gate"))
    assert mended.alpha[0].item() == pytest.approx(0.1)
    assert mended.opening(torch.zeros(1, 16)).item() == pytest.approx(0.02)
    # "Remembers nothing after 16 steps": what is left of an input by then.
    left = [(1 - each.alpha[0].item()) ** 16 for each in (layer, mended)]
    assert left[0] == pytest.approx(6.7e-6, rel=0.02) and left[1] == pytest.approx(0.185, rel=0.01)


def test_padding_gets_into_the_state() -> None:
    every = [fix for fix in FIXES if fix != "padding"]
    # Padding on the left stands before the sequence, so a forward state has read it.
    alone, batched = alone_and_in_a_batch(listing(*every), 8, "left")
    assert (alone - batched).abs().max() > 0.01
    alone, batched = alone_and_in_a_batch(listing(*FIXES), 8, "left")
    torch.testing.assert_close(batched, alone, atol=1e-10, rtol=0)


def test_a_padding_mask_makes_it_causal() -> None:
    x, whole = features(12, 8), torch.ones(1, 12, dtype=torch.bool)
    as_written, mended = listing(), listing("causal")
    assert not torch.allclose(as_written(x), as_written(x, whole))
    torch.testing.assert_close(mended(x), mended(x, whole))
    changed = x.clone()
    changed[:, 6] += 1
    assert torch.equal(as_written(x, whole)[:, :6], as_written(changed, whole)[:, :6])


def test_padding_longer_than_the_window_is_nan_and_a_second_layer_spreads_it() -> None:
    x, keep = features(12, 8), padded()
    first = listing()(x, keep)
    assert torch.isfinite(first[0, :8]).all()  # the window still reaches a real position
    assert torch.isnan(first[0, 8:]).all()
    second = listing()(first, keep)
    assert torch.isnan(second).all()
    assert torch.isfinite(listing()(x, padded(10))).all()  # shorter padding does no such harm
    mended = listing("rows", "padding")
    assert torch.isfinite(mended(mended(x, keep), keep)).all()


def test_one_layer_is_enough_to_ruin_training() -> None:
    """The real outputs are finite; the gradient is a weight of NaN times 0."""
    layer = listing()
    x = features(12, 8)
    layer(x, padded())[:, :6].sum().backward()
    gradient = layer.v_proj.weight.grad
    assert gradient is not None and torch.isnan(gradient).any()


def test_the_mask_saves_no_memory() -> None:
    def kept(layer: ListingREA, n: int) -> int:
        total = 0

        def pack(x: torch.Tensor) -> torch.Tensor:
            nonlocal total
            total += x.numel() * x.element_size()
            return x

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
            layer.attend(features(n, 8))
        return total

    written, mended = ([kept(each, n) for n in (128, 256)] for each in (listing(), listing(*FIXES)))
    assert written[1] > 3 * written[0]
    assert mended[1] < 2.2 * mended[0]


def test_without_padding_the_two_ways_to_attend_agree() -> None:
    x = features(20, 8)
    torch.testing.assert_close(listing().attend(x), listing("memory").attend(x), atol=1e-12, rtol=0)
    q = features(20, 8)[:, None]
    assert torch.isfinite(window_attention(q, q, q, 2)).all()


def test_as_a_model() -> None:
    config = REAConfig(5, 8, 2, heads=2, layer="listing", norm=False, fixes=("alpha",))
    model = REA(config)
    logits, _ = model(torch.randn(2, 7, 5))
    assert logits.shape == (2, 7, 2)
    assert config.fixes == ("alpha",)


def test_heads_that_do_not_divide_the_width_fail_at_the_first_batch() -> None:
    layer = ListingREA(8, 3)
    with pytest.raises(RuntimeError):
        layer(torch.randn(1, 5, 8))
    with pytest.raises(ValueError, match="heads=3: must divide dim=8"):
        ListingREA(8, 3, fixes=("heads",))
    with pytest.raises(ValueError, match="heads=3: must divide dim=8"):
        REAConfig(5, 8, 2, heads=3, layer="listing")  # a run never starts with it


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="fixes='luck': must be one of"):
        ListingREA(8, 2, fixes=("luck",))
    with pytest.raises(ValueError, match="x has shape"):
        listing()(torch.zeros(1, 4, 7))
