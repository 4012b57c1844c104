"""The sizes of the paper's language models and pictures: a wide layer, a long sequence."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from scan_cases import FAST, TIGHT, Case, check_same, draw_case, run
from torch import Tensor

from sab.ops.sab_scan import ScanOptions, ScanWeights

LANGUAGE = ScanOptions(k_top=10, k_att=20, k_trunc=20, block_offset=1)
PICTURES = ScanOptions(k_top=10, k_att=16, k_trunc=16, block_offset=1)


def tame(case: Case) -> Case:
    """Weights that keep a layer of this width out of saturation, so that every gradient counts."""
    w = case.weights
    scale = w.w_hh.shape[1] ** -0.5

    def smaller(v: Tensor) -> Tensor:
        return (v.detach() * scale).requires_grad_()

    weights = ScanWeights(w.w_ih, smaller(w.w_hh), w.bias, tuple(map(smaller, w.scorer)))
    return dataclasses.replace(case, weights=weights)


@pytest.mark.parametrize("score_gradient", ["scorer", "states"])
def test_a_thousand_units(score_gradient: str) -> None:
    """Short, so that the reference can be afforded; blocks and writes are shortened with it."""
    options = dataclasses.replace(
        LANGUAGE, k_top=2, k_att=2, k_trunc=3, score_gradient=score_gradient
    )
    case = tame(draw_case(options, steps=9, batch=2, hidden=1000))
    expected = run(case, "reference")
    assert expected.recall.weights.count_nonzero() > 9
    for form in FAST:
        check_same(expected, run(case, form), TIGHT, form)


def test_a_thousand_units_in_single_precision() -> None:
    """As they are trained. k_top is beyond what is held, so no bit decides what is read."""
    options = dataclasses.replace(LANGUAGE, k_att=3, k_trunc=3)
    case = tame(draw_case(options, steps=10, hidden=1000))
    exact = run(case, "reference")
    case = case.to(torch.float32)
    plain = run(case, "reference")
    for form in FAST:
        found = run(case, form)
        check_same(plain, found, 2e-3, form)
        assert torch.allclose(found.h.double(), exact.h, atol=1e-4), form


def test_a_whole_picture() -> None:
    """1,024 steps, as pixel CIFAR-10 has; both fast forms, and every gradient."""
    case = tame(draw_case(PICTURES, steps=1024, batch=2, hidden=6))
    by_torch, by_cpp = (run(case, form) for form in FAST)
    check_same(by_torch, by_cpp, TIGHT)
    assert by_cpp.end.memory.shape[1] == 64
    far = by_cpp.recall.steps[:, -1][by_cpp.recall.weights[:, -1] > 0]
    assert far.min() < 900  # it reads well beyond its own block
    assert by_cpp.grads["x"][: int(far.min())].abs().sum() > 0
