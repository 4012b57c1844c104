"""The capacity of an associative memory."""

from __future__ import annotations

import pytest
import torch

from sab.analysis.capacity import DenseRule, ModernRule, hopfield_rule, recall_at


def source() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_hopfield_s_memory_breaks_down_beyond_0_138() -> None:
    few, many = recall_at(hopfield_rule, 200, (14, 50), source())
    assert (few.load, many.load) == (0.07, 0.25)
    assert few.overlap > 0.99
    # A field can be exactly zero, and rounding then decides: a pattern in fifty may come back.
    assert many.overlap < 0.6 and many.exact < 0.1 < 0.9 < few.exact


def test_a_softmax_holds_far_more_than_neurons() -> None:
    (found,) = recall_at(ModernRule(1.0), 60, (600,), source(), noise=0.1, cues=50)
    (dense,) = recall_at(DenseRule(torch.exp), 60, (600,), source(), noise=0.1, cues=50)
    assert found.load == dense.load == 10
    assert found.exact > 0.95 and dense.exact > 0.95


def test_errors() -> None:
    with pytest.raises(ValueError, match="trials=0"):
        recall_at(hopfield_rule, 10, (1,), source(), trials=0)
    with pytest.raises(ValueError, match="noise=2"):
        recall_at(hopfield_rule, 10, (1,), source(), noise=2)
    with pytest.raises(ValueError, match="rule=3"):
        recall_at(3, 10, (1,), source())
