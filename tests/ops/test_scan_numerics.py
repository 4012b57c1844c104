"""The fast forms where numbers are difficult: skipped scores, unwritten buffers, NaN, float32."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest
import torch
from scan_cases import (
    FAST,
    FORMS,
    Case,
    check_forms,
    check_same,
    difference,
    draw_case,
    options,
    random_case,
    run,
)
from scan_naive import naive

from sab.ops.sab_scan import ScanOptions
from sab.ops.sab_scan.cpp import load_scan
from sab.ops.sab_scan.fused import fused_scan

# -- lazy retrieval --------------------------------------------------------------------------------


def quiet_case(steps: int, dtype: torch.dtype = torch.float64) -> Case:
    """Long blank stretches: the query hardly moves, so most scores need not be computed again."""
    o = ScanOptions(k_top=3, k_att=1, k_trunc=5)
    case = draw_case(o, steps=steps, batch=2)
    x = torch.zeros_like(case.x)
    x[:10], x[steps // 2] = case.x.detach()[:10], 1.0
    case.x = x.requires_grad_()
    return case.to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_lazy_retrieval_selects_the_same_and_skips(dtype: torch.dtype) -> None:
    """Identical in every bit, and not because nothing was skipped."""
    case = quiet_case(160, dtype)
    engine = load_scan()
    assert engine is not None, "no compiler"
    arguments = (case.x, case.weights, case.state, case.options, None, engine)
    with torch.no_grad():
        h, s, _, recall, counts = fused_scan(*arguments, lazy=True)
        h_all, s_all, _, recall_all, counts_all = fused_scan(*arguments, lazy=False)
    assert torch.equal(recall.indices, recall_all.indices)
    assert torch.equal(recall.weights, recall_all.weights)
    assert torch.equal(h, h_all) and torch.equal(s, s_all)
    computed, held = counts.tolist()
    assert counts_all.tolist() == [held, held] and held == 2 * sum(range(160))
    assert computed < 0.7 * held, f"{computed} of {held} scores were computed"


def test_lazy_retrieval_on_random_inputs() -> None:
    for seed in range(8):
        case = draw_case(ScanOptions(k_top=2, k_att=1 + seed % 2), seed, steps=60, batch=2)
        a, b = run(case, "cpp", lazy=True), run(case, "cpp", lazy=False)
        check_same(a, b, 0.0)


# -- uninitialised memory, NaN ---------------------------------------------------------------------


@pytest.fixture
def poisoned(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every buffer that is not written starts as NaN (or a huge integer), in C++ as in torch."""
    torch.use_deterministic_algorithms(True)
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", True)
    try:
        assert torch.empty(3).isnan().all()
        assert torch.zeros(2).new_empty(3).isnan().all()
        yield
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("chunk", range(3))
@pytest.mark.usefixtures("poisoned")
def test_no_buffer_is_read_before_it_is_written(chunk: int) -> None:
    for seed in range(500 + 12 * chunk, 512 + 12 * chunk):
        check_forms(random_case(seed), seed)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nan_shows(form: str, dtype: torch.dtype) -> None:
    """A NaN input makes its own sample NaN from then on and all weights' gradients NaN, and nothing
    else.
    """
    case = draw_case(options(k_top=2), steps=7, batch=3).to(dtype)
    clean = run(case, form)
    x = case.x.detach().clone()
    x[3, 1, 0] = torch.nan
    out = run(dataclasses.replace(case, x=x.requires_grad_()), form)
    assert out.h[3:, 1].isnan().all()
    for b in (0, 2):
        assert difference(clean.h[:, b], out.h[:, b]) <= 1e-6
        assert difference(clean.grads["x"][:, b], out.grads["x"][:, b]) <= 1e-4
    assert torch.equal(clean.h[:3], out.h[:3])
    for name in ("w_ih", "w_hh", "bias"):
        assert out.grads[name].isnan().any(), name
    assert out.end.h[1].isnan().all() and out.end.h[[0, 2]].isfinite().all()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("leaf", ["w_ih", "w_hh", "bias"])
def test_a_nan_weight_shows(form: str, leaf: str) -> None:
    case = draw_case(options(k_top=2), steps=4)
    with torch.no_grad():
        case.leaves[leaf].view(-1)[0] = torch.nan
    assert run(case, form).h[-1].isnan().all()


# -- float32 ---------------------------------------------------------------------------------------


def clear_cases(number: int, margin: float = 1e-2) -> list[Case]:
    """Cases in which no two scores that matter are nearer than ``margin``."""
    found = []
    for seed in range(400):
        o = ScanOptions(k_top=1 + seed % 3, k_att=2, k_trunc=4, score_gradient="scorer")
        case = draw_case(o, seed, steps=9, batch=2)
        if naive(case)[1] > margin:
            found.append(case)
        if len(found) == number:
            return found
    raise AssertionError(f"only {len(found)} cases with clear margins")


def test_float32_on_clear_margins() -> None:
    """Selections are equal; values agree to float32's rounding through nine steps.

    A score is off by about 1e-6 (three times the ulp of tanh, summed over the scorer), a weight by
    that over a margin of 1e-2 at the least: 1e-4. The gradients of the weights sum such terms.
    """
    for case in clear_cases(8):
        exact = run(case, "reference")
        small = case.to(torch.float32)
        for form in FORMS:
            out = run(small, form)
            assert torch.equal(exact.recall.indices, out.recall.indices), form
            assert torch.equal(exact.recall.tied, out.recall.tied), form
            assert out.h.dtype == torch.float32 and out.end.memory.dtype == torch.float32
            for name, a, b in (
                ("h", exact.h, out.h),
                ("s", exact.s, out.s),
                ("weights", exact.recall.weights, out.recall.weights),
                ("memory", exact.end.memory, out.end.memory),
            ):
                assert difference(a, b.double()) <= 1e-4, (form, name)
            for name in exact.grads:
                assert difference(exact.grads[name], out.grads[name].double()) <= 1e-3, (form, name)


@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_float32_scores_with_large_keys(scale: float) -> None:
    """Same selections on both sides of the bound where exponentials are given up."""
    for case in clear_cases(3):
        w1, w2, w3 = case.weights.scorer
        case.weights = case.weights._replace(
            scorer=((w1.detach() * scale).requires_grad_(), w2, w3)
        )
        if naive(case)[1] < 1e-2:
            continue
        exact = run(case, "reference")
        for form in FAST:
            out = run(case.to(torch.float32), form)
            assert torch.equal(exact.recall.indices, out.recall.indices), form
            assert difference(exact.h, out.h.double()) <= 1e-4, form
