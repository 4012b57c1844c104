"""Sinusoidal positions: the equation, both layouts, and what follows from it."""

from __future__ import annotations

import math

import pytest
import torch

from sab.ops.positions import sinusoidal


def test_positions_are_the_equation() -> None:
    found = sinusoidal(50, 8)
    for n in (0, 1, 7, 49):
        for i in range(4):
            angle = n / 10_000 ** (2 * i / 8)
            assert found[n, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert found[n, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)
    # a shift is a rotation: the dot product depends on the distance alone
    products = found @ found.T
    for gap in (1, 5):
        assert products.diagonal(gap).std() < 1e-4


@pytest.mark.parametrize("width", [1, 2, 7, 8, 33])
def test_layouts_hold_the_same_channels(width: int) -> None:
    places = torch.tensor([[0, 3], [7, 500]])
    pairs, halves = (sinusoidal(places, width, layout) for layout in ("pairs", "halves"))
    assert pairs.shape == halves.shape == (2, 2, width) and pairs.dtype == torch.float32
    half = -(-width // 2)
    assert torch.equal(pairs[..., 0::2], halves[..., :half])
    assert torch.equal(pairs[..., 1::2], halves[..., half:])


def test_halves_are_what_records_were_made_with() -> None:
    """Bit for bit: sines and cosines as the first version of REA computed them."""
    for width in (5, 16, 48, 64):
        places, half = torch.arange(300), -(-width // 2)
        rate = torch.exp(-math.log(10_000) * torch.arange(half) / half)
        angle = places[..., None] * rate
        want = torch.cat([angle.sin(), angle.cos()], -1)[..., :width]
        assert torch.equal(sinusoidal(places, width, "halves"), want)


def test_precision_follows_the_places() -> None:
    places = torch.arange(40)
    double = sinusoidal(places.double(), 6)
    assert double.dtype == torch.float64
    torch.testing.assert_close(double.float(), sinusoidal(places, 6), atol=1e-5, rtol=0)
    assert torch.equal(double.float(), sinusoidal(40, 6))
    assert len(double.unique(dim=0)) == 40  # places are told apart


def test_errors() -> None:
    with pytest.raises(ValueError, match="width=0"):
        sinusoidal(3, 0)
    with pytest.raises(ValueError, match="places=0"):
        sinusoidal(0, 4)
    with pytest.raises(ValueError, match="layout='spiral'"):
        sinusoidal(3, 4, "spiral")
