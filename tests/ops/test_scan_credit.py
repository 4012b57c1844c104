"""Truncation and replay: what a gradient reaches, and its value, against graphs built by hand.

Whole credit graphs, reads included, are compared with autograd in tests/analysis/test_credit.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from scan_cases import FORMS, Case, difference, draw_case
from torch import Tensor

from sab.ops.sab_scan import ScanOptions, sab_scan
from sab.ops.sab_scan.reference import lstm_cell


def reach(case: Case, form: str) -> list[list[int]]:
    """For each output step, the 1-based input steps its gradient reaches."""
    h, *_ = sab_scan(case.x, case.weights, case.state, case.options, form=form)
    found = []
    for t in range(len(h)):
        (dx,) = torch.autograd.grad(h[t].sum(), case.x, retain_graph=True)
        lags = dx.flatten(1).any(1).nonzero()[:, 0] + 1
        found.append(lags.tolist())
    return found


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("k_trunc", "offset", "firsts"),
    [
        (3, 0, [1, 1, 3, 3, 3, 6, 6, 6]),
        (3, 1, [1, 1, 1, 4, 4, 4, 7, 7]),
        (1, 0, [1, 2, 3, 4, 5, 6, 7, 8]),
        (1, 1, [1, 2, 3, 4, 5, 6, 7, 8]),
        (5, 0, [1, 1, 1, 1, 5, 5, 5, 5]),
        (5, 1, [1, 1, 1, 1, 1, 6, 6, 6]),
        (9, 0, [1] * 8),
        (None, 0, [1] * 8),
    ],
)
def test_blocks(form: str, k_trunc: int | None, offset: int, firsts: Sequence[int]) -> None:
    """h and c are cut before step t where (t − block_offset) mod k_trunc = 0."""
    options = ScanOptions(k_att=100, k_trunc=k_trunc, block_offset=offset)
    expected = [list(range(first, t + 1)) for t, first in enumerate(firsts, 1)]
    assert reach(draw_case(options, steps=8), form) == expected


@pytest.mark.parametrize("k_trunc", [1, 2, 3, 5, 8, 20])
def test_sliding_reaches_exactly_k_trunc_steps(k_trunc: int) -> None:
    options = ScanOptions(k_att=100, k_trunc=k_trunc, truncation="sliding")
    expected = [list(range(max(1, t - k_trunc + 1), t + 1)) for t in range(1, 10)]
    assert reach(draw_case(options, steps=9), "reference") == expected


def test_sliding_s_gradient_is_that_of_a_fresh_start() -> None:
    """With reads off, ∂h_t/∂x is that of an LSTM started at step t − k + 1 from the (detached)
    state there.
    """
    k = 3
    options = ScanOptions(k_att=100, k_trunc=k, truncation="sliding")
    case = draw_case(options, steps=7, batch=1)
    h, *_ = sab_scan(case.x, case.weights, case.state, options, form="reference")
    states = [(case.state.h, case.state.c)]
    w = case.weights
    for x in case.x.detach():
        with torch.no_grad():
            states.append(lstm_cell(x @ w.w_ih.T + w.bias, *states[-1], w.w_hh))
    for t in range(7):
        start = max(0, t - k + 1)
        a, c = states[start]
        for x in case.x[start : t + 1]:
            a, c = lstm_cell(x @ w.w_ih.T + w.bias, a, c, w.w_hh)
        (mine,) = torch.autograd.grad(h[t].sum(), case.x, retain_graph=True)
        (theirs,) = torch.autograd.grad(a.sum(), case.x)
        assert difference(theirs, mine) <= 1e-13


def test_truncation_changes_no_value() -> None:
    settings: list[dict[str, Any]] = [
        {"k_trunc": None},
        *({"k_trunc": k, "block_offset": o} for k in (1, 3) for o in (0, 1)),
        *({"k_trunc": k, "truncation": "sliding"} for k in (1, 3)),
    ]
    outputs = []
    for setting in settings:
        case = draw_case(ScanOptions(k_top=2, **setting), steps=9)
        outputs.append(sab_scan(case.x, case.weights, case.state, case.options, form="reference"))
    for h, s, *_ in outputs[1:]:
        assert difference(outputs[0][0], h) <= 1e-13 and difference(outputs[0][1], s) <= 1e-13


def cell(case: Case, t: int, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """The LSTM's step t (1-based) on the case's input."""
    w = case.weights
    return lstm_cell(case.x[t - 1] @ w.w_ih.T + w.bias, h, c, w.w_hh)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("replay", ["full", "write_step", "none"])
@pytest.mark.parametrize("offset", [0, 1])
def test_replay_by_hand(form: str, replay: str, offset: int) -> None:
    """Four steps, k_att = k_trunc = 2: steps 3 and 4 read what step 2 wrote, with weight 1.

    Offset 1: blocks (1, 2), (3, 4), so a replay covers steps 2 and 1. Offset 0: blocks (1), (2,
    3), (4): step 2 alone.
    """
    options = ScanOptions(k_top=1, k_att=2, k_trunc=2, block_offset=offset, replay=replay)
    case = draw_case(options, steps=4, batch=3)
    assert case.dh is not None

    def cut(t: int, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        return (h.detach(), c.detach()) if (t - offset) % 2 == 0 else (h, c)

    h0 = case.state.h
    h1, c1 = cell(case, 1, h0, h0)
    h1, c1 = cut(2, h1, c1)
    h2, c2 = cell(case, 2, h1, c1)
    memory = {
        "full": h2,
        "write_step": cell(case, 2, h1.detach(), c1.detach())[0],
        "none": h2.detach(),
    }[replay]
    hat3, c3 = cell(case, 3, *cut(3, h2, c2))
    h3 = hat3 + memory
    hat4, _ = cell(case, 4, *cut(4, h3, c3))
    h4 = hat4 + memory

    out, s, *_ = sab_scan(case.x, case.weights, case.state, options, form=form)
    assert difference(torch.stack([h3, h4]), out[2:]) <= 1e-13
    assert difference(memory.detach(), s[3]) <= 1e-13
    names = ("x", "w_ih", "w_hh", "bias")
    leaves = [case.leaves[name] for name in names]
    for output, mine in ((h3, out[2]), (h4, out[3])):
        theirs = torch.autograd.grad(output, leaves, case.dh[0], retain_graph=True)
        ours = torch.autograd.grad(mine, leaves, case.dh[0], retain_graph=True)
        for name, a, b in zip(names, theirs, ours, strict=True):
            assert difference(a, b) <= 1e-12, name
    (dx,) = torch.autograd.grad(out[3].sum(), case.x)
    reached = {t + 1 for t in range(4) if dx[t].any()}
    expected = {
        ("full", 0): {2, 4},
        ("full", 1): {1, 2, 3, 4},
        ("write_step", 0): {2, 4},
        ("write_step", 1): {2, 3, 4},
        ("none", 0): {4},
        ("none", 1): {3, 4},
    }
    assert reached == expected[replay, offset]


@pytest.mark.parametrize("form", FORMS)
def test_a_recall_hands_alpha_times_the_gradient_to_the_memory(form: str) -> None:
    """∂s/∂m = α·I (section 3.2): without scores' gradient, ∂s_t/∂x_u is Σ α ∂m/∂x_u over the
    memories of the past.
    """
    options = ScanOptions(k_top=3, k_att=1, k_trunc=1, score_gradient="scorer")
    case = draw_case(options, steps=6, batch=1)
    assert case.ds is not None
    h, s, _, recall = sab_scan(case.x, case.weights, case.state, options, form=form)
    alpha = recall.matrix()[0, 5]
    assert (alpha > 0).sum() == 3
    (direct,) = torch.autograd.grad(s[5], case.x, case.ds[5], retain_graph=True)
    through = sum(
        alpha[u] * torch.autograd.grad(h[u], case.x, case.ds[5], retain_graph=True)[0]
        for u in range(6)
        if alpha[u] > 0
    )
    assert isinstance(through, Tensor)
    assert difference(through, direct) <= 1e-12


@pytest.mark.parametrize("form", FORMS)
def test_scorer_gradient_reaches_the_scorer_and_nothing_else(form: str) -> None:
    """Where nothing is replayed, the two settings differ in the states' gradient only at the
    scorer's input.
    """
    grads = {}
    for score_gradient, replay in itertools.product(("scorer", "states"), ("full", "none")):
        options = ScanOptions(
            k_top=2, k_att=1, k_trunc=1, score_gradient=score_gradient, replay=replay
        )
        case = draw_case(options, steps=5, batch=2)
        h, *_ = sab_scan(case.x, case.weights, case.state, options, form=form)
        names, leaves = zip(*case.leaves.items(), strict=True)
        found = torch.autograd.grad(h[4].sum(), leaves)
        grads[score_gradient, replay] = dict(zip(names, found, strict=True))
    for replay in ("full", "none"):
        a, b = grads["scorer", replay], grads["states", replay]
        assert difference(a["x"], b["x"]) > 1e-6
    # from the last step alone, with k_trunc = 1 and nothing replayed, the scorer's own gradient is
    # one term: the same
    a, b = grads["scorer", "none"], grads["states", "none"]
    for i in range(3):
        assert (a[f"scorer[{i}]"] != 0).any()
        assert difference(a[f"scorer[{i}]"], b[f"scorer[{i}]"]) <= 1e-12


@pytest.mark.parametrize("form", FORMS)
def test_k_top_one_teaches_the_scorer_nothing(form: str) -> None:
    for score_gradient in ("scorer", "states"):
        case = draw_case(ScanOptions(k_top=1, k_att=1, score_gradient=score_gradient), steps=9)
        h, *_ = sab_scan(case.x, case.weights, case.state, case.options, form=form)
        found = torch.autograd.grad(h.sum(), case.weights.scorer, allow_unused=True)
        assert all(g is None or (g == 0).all() for g in found)
