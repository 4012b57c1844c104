"""What the fast forms do for speed alone: wide products, kept buffers, short cuts."""

from __future__ import annotations

import pytest
import torch
from scan_cases import FAST, TIGHT, Case, check_forms, difference, draw_case, options, run
from scan_naive import naive
from torch import Tensor

from sab.ops.sab_scan import Recall, SABState, ScanOptions
from sab.ops.sab_scan.cpp import load_scan
from sab.ops.sab_scan.fused import fused_scan
from sab.ops.sab_scan.torch_rules import MARGIN, Codes, Step, quick_weights, select_best, weigh

CODES = Codes(3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1)  # k_top 3, k_att 1, and nothing unusual


def forward(case: Case, lazy: bool = True) -> tuple[Tensor, Tensor, SABState, Recall, Tensor]:
    engine = load_scan()
    assert engine is not None, "no compiler"
    return fused_scan(case.x, case.weights, case.state, case.options, None, engine, lazy=lazy)


@pytest.mark.parametrize("batch", [1, 7, 8, 19])
@pytest.mark.parametrize("save", ["activations", "recompute"])
def test_sizes_around_the_tiles_of_a_product(batch: int, save: str) -> None:
    """Whole panels and a rest of columns, whole tiles and a rest of rows."""
    o = options(replay="write_step" if save == "recompute" else "full", k_att=2)
    case = draw_case(o, steps=5, batch=batch, hidden=37, score_size=70, spread=0.2)
    expected, found = run(case, "reference"), run(case, "cpp", save=save)
    for name, grad in expected.grads.items():
        scale = max(1.0, float(grad.abs().max()))
        assert difference(grad, found.grads[name]) <= TIGHT * scale, name
    assert difference(expected.h, found.h) <= TIGHT


@pytest.mark.parametrize("scale", [0.3, 3.0, 9.0])
def test_float32_scores_of_many_numbers(scale: float) -> None:
    """128 + 22 numbers a key, small and up to where e^{2k} e^{2q} overflows, against float64."""
    compared = 0
    for seed in range(20):
        o = ScanOptions(k_top=2, k_att=1, score_gradient="scorer")
        case = draw_case(o, seed, steps=7, score_size=150)
        w1, w2, w3 = case.weights.scorer
        large = tuple((w.detach() * scale).requires_grad_() for w in (w1, w2))
        case.weights = case.weights._replace(scorer=(*large, w3))
        if naive(case)[1] < 0.1:
            continue
        compared += 1
        exact = run(case, "reference")
        for form in FAST:
            out = run(case.to(torch.float32), form)
            assert torch.equal(exact.recall.indices, out.recall.indices), form
            assert difference(exact.h, out.h.double()) <= 1e-3, form
    assert compared >= 3


def test_lazy_retrieval_rests_and_starts_again() -> None:
    """Noise, a long blank, noise: nothing to skip, much to skip, nothing; the same bits always."""
    case = draw_case(ScanOptions(k_top=3, k_att=1, k_trunc=5), steps=420, batch=2)
    x = case.x.detach().clone()
    x[150:350] = 0
    case.x = x.requires_grad_()
    with torch.no_grad():
        h, _, _, recall, counts = forward(case)
        all_h, _, _, all_recall, _ = forward(case, lazy=False)
    assert torch.equal(h, all_h)
    assert torch.equal(recall.indices, all_recall.indices)
    computed, held = counts.tolist()
    assert 0.3 * held < computed < 0.95 * held


def test_a_buffer_made_in_inference_mode_serves_in_training() -> None:
    """Buffers past a megabyte are kept; what they carry of modes and graphs is not."""
    case = draw_case(options(), steps=40, batch=24, hidden=64, spread=0.1).to(torch.float32)
    with torch.inference_mode():
        first = forward(case)[0]
        del first
    h, s, *_ = forward(case)
    h.add_(1)  # no view of anything that others hold
    torch.autograd.grad(case.loss(h, s), list(case.leaves.values()))
    kept = forward(case)[0]
    again = forward(case)[0]
    assert torch.equal(kept, again) and kept.data_ptr() != again.data_ptr()


def step(held: int, **changes: object) -> Step:
    settings = {"most": held, "count": None, "writes": True, "write_mask": None, "slots": 0}
    settings |= {"cuts": False, "keep_mask": None, "live": None}
    return Step(**(settings | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("held", [3, 4, 5, 30])
def test_quick_weights_are_the_rules(held: int) -> None:
    scores = torch.randn(6, held, generator=torch.Generator().manual_seed(held)).double()
    alpha, total = torch.zeros(6, 4).double(), torch.zeros(6).double()
    indices = quick_weights(scores, step(held), CODES, (alpha, total))
    best, chosen = select_best(scores, 4)
    expected, divisor, how = weigh(best, held, CODES)
    assert indices is not None and torch.equal(indices, chosen)
    assert (how == MARGIN).all()
    assert difference(alpha[:, : len(chosen[0])], expected) <= 1e-14
    assert difference(total, divisor) <= 1e-14


def test_quick_weights_leave_what_is_not_ordinary() -> None:
    alpha, total = torch.zeros(6, 4), torch.zeros(6)
    scores = torch.randn(6, 9, generator=torch.Generator().manual_seed(0))

    def left(scores: torch.Tensor, codes: Codes = CODES, **changes: object) -> bool:
        made = quick_weights(scores, step(scores.shape[1], **changes), codes, (alpha, total))
        return made is None

    assert not left(scores)
    tied, broken = scores.clone(), scores.clone()
    tied[2] = torch.tensor([9.0, 8, 7, 5, 5, 0, 0, 0, 0])  # the last candidate's tie decides
    broken[3, 4] = torch.nan
    assert left(tied) and left(broken)
    assert left(torch.arange(9.0).expand(6, 9) * 1e-8 + 1)  # a few ulp apart
    assert left(scores[:, :2]), "one weight is always 1 then"
    assert left(scores, CODES._replace(released_threshold=1))
    assert left(scores[:, :3], CODES._replace(short_memory=1))
    assert left(scores, count=torch.full((6,), 9))
    assert left(scores, live=torch.ones(6, 1, dtype=torch.bool))


def test_many_steps_of_the_scorer_at_once() -> None:
    """The torch form's backward gathers steps until a cache is full; the rest is a short one."""
    case = draw_case(options(score_gradient="scorer"), steps=31, batch=48, hidden=24, spread=0.2)
    check_forms(case)
