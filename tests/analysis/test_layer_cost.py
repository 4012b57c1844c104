"""Counted multiplications against the formulas, and how far each layer sees."""

from __future__ import annotations

import pytest

from sab.analysis.layer_cost import (
    convolution_layer,
    multiplications,
    recurrent_layer,
    sees,
    self_attention_layer,
)


@pytest.mark.parametrize(("n", "d"), [(5, 8), (32, 16), (16, 32)])
def test_counts_are_the_formulas(n: int, d: int) -> None:
    assert multiplications(self_attention_layer(d, False), n, d) == 2 * n * n * d
    assert multiplications(self_attention_layer(d), n, d) == 2 * n * n * d + 4 * n * d * d
    for gates in (1, 4):
        assert multiplications(recurrent_layer(d, gates), n, d) == 2 * gates * n * d * d
    # the padding before the first position is multiplied too, or not: kernel N width² at most
    for kernel in (1, 3):
        assert multiplications(convolution_layer(d, kernel), n, d) == kernel * n * d * d


def test_how_far_each_layer_sees() -> None:
    assert sees([self_attention_layer(4)], 40, 4) == 40
    assert sees([recurrent_layer(4)], 40, 4) == 40
    for depth in (1, 2, 4):
        assert sees([convolution_layer(4, 3)] * depth, 40, 4) == 1 + 2 * depth
        dilated = [convolution_layer(4, 3, 3**i) for i in range(depth)]
        assert sees(dilated, 100, 4) == min(3**depth, 100)


def test_errors() -> None:
    for call in (self_attention_layer, recurrent_layer, convolution_layer):
        with pytest.raises(ValueError, match="width=0"):
            call(0)
    with pytest.raises(ValueError, match="gates=0"):
        recurrent_layer(4, 0)
    with pytest.raises(ValueError, match="kernel=0"):
        convolution_layer(4, 0)
    with pytest.raises(ValueError, match="steps=0"):
        multiplications(recurrent_layer(4), 0, 4)
    with pytest.raises(ValueError, match="steps=0"):
        sees([recurrent_layer(4)], 0, 4)
