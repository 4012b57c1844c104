"""The reference scan: Algorithm 1 against a second writing of it, `torch.nn.LSTM`, and what must
hold of any recurrence.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from scan_cases import (
    CHOICES,
    FORMS,
    HIDDEN,
    INPUTS,
    check_same,
    difference,
    draw_case,
    generator,
    random_case,
    run,
    scan,
)
from scan_naive import naive
from torch import Tensor

from sab.ops.sab_scan import Recall, SABState, ScanOptions, sab_scan

STATE = ("h", "c", "memory", "step")
EXACT = {"score_gradient": "states", "replay": "full", "k_trunc": None}


# -- a second writing of the algorithm -------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_equals_the_equations_sample_by_sample(seed: int) -> None:
    """Outputs, state, recall and every gradient, with all switches drawn at random."""
    case = random_case(seed)
    check_same(naive(case)[0], run(case, "reference"), 1e-10, case.options)


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in CHOICES.items() for value in values]
)
def test_equals_the_equations_switch_by_switch(name: str, value: Any) -> None:
    options = ScanOptions(**{**EXACT, "k_top": 2, "k_att": 2, name: value})
    case = draw_case(options, seed=7, steps=8)
    check_same(naive(case)[0], run(case, "reference"), 1e-10, options)


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, values in CHOICES.items() for value in values[1:]],
)
def test_every_switch_matters(name: str, value: Any) -> None:
    """Each value changes the outputs or the gradients, and only those that should."""
    base = {**EXACT, "k_top": 2, "k_att": 1, "k_trunc": 4}
    first = CHOICES[name][0]
    outcomes = [
        run(draw_case(ScanOptions(**{**base, name: v}), seed=7), "reference")
        for v in (first, value)
        if name != "score"  # other weights: nothing to compare
    ]
    if not outcomes:
        return
    a, b = outcomes
    only_gradients = name in ("k_trunc", "block_offset", "replay", "score_gradient")
    assert torch.equal(a.h, b.h) == only_gradients
    assert any(difference(a.grads[k], b.grads[k]) > 1e-6 for k in a.grads)


# -- an LSTM where nothing is read -----------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
def test_reads_off_is_an_lstm(form: str, dtype: torch.dtype, tolerance: float) -> None:
    steps, batch, n = 12, 4, 8
    options = ScanOptions(k_att=steps + 1, k_trunc=None)
    torch.manual_seed(0)
    lstm = torch.nn.LSTM(INPUTS, n).to(dtype)
    case = draw_case(options, steps=steps, batch=batch, hidden=n).to(dtype)
    assert case.dh is not None
    w_ih, w_hh, bias_ih, bias_hh = lstm.parameters()
    bias = (bias_ih + bias_hh).detach().requires_grad_()
    case.weights = case.weights._replace(w_ih=w_ih, w_hh=w_hh, bias=bias)
    h0, c0 = torch.randn(2, batch, n, generator=generator(5)).to(dtype)
    case.state = SABState(h0, c0, h0.new_zeros(batch, 0, n), torch.zeros(batch).long())
    ours = run(case, form)
    out, (h, c) = lstm(case.x, (h0[None], c0[None]))
    assert difference(out.detach(), ours.h) <= tolerance
    assert difference(h[0].detach(), ours.end.h) <= tolerance
    assert difference(c[0].detach(), ours.end.c) <= tolerance
    assert (ours.s == 0).all() and (ours.recall.indices == -1).all() and ours.recall.tied.all()
    leaves = (case.x, w_ih, w_hh, bias_ih)
    grads = torch.autograd.grad((out * case.dh).sum(), leaves)
    for theirs, name in zip(grads, ("x", "w_ih", "w_hh", "bias"), strict=True):
        # a gradient sums over steps and batch: as many roundings more
        assert difference(theirs, ours.grads[name]) <= 10 * tolerance, name
    assert all((ours.grads[f"scorer[{i}]"] == 0).all() for i in range(3))


# -- the gradient is the loss's --------------------------------------------------------------------


@pytest.mark.parametrize(
    "switches",
    [
        {"k_top": 2},
        {"k_top": 3, "k_att": 2},
        {"k_top": 2, "score": "separable"},
        {"k_top": 3, "threshold": "k_top"},
        {"k_top": 3, "short_memory": "softmax", "initial_memory": "zero"},
        {"k_top": 3, "short_memory": "raw"},
    ],
    ids=str,
)
def test_gradcheck(switches: dict[str, Any]) -> None:
    """Only where the options leave the loss's own gradient, and no score is near another's."""
    options = ScanOptions(**{**EXACT, "k_att": 1, **switches})
    for seed in range(60):
        case = draw_case(options, seed, steps=6, batch=1, hidden=2)
        if naive(case)[1] > 1e-3:
            break
    else:
        raise AssertionError("no case with clear margins")
    leaves = tuple(case.leaves.values())

    def loss(*leaves: Tensor) -> Tensor:
        x, w_ih, w_hh, bias, *scorer = leaves
        weights = case.weights._replace(w_ih=w_ih, w_hh=w_hh, bias=bias, scorer=tuple(scorer))
        h, s, *_ = sab_scan(x, weights, case.state, options, form="reference")
        return case.loss(h, s)

    assert torch.autograd.gradcheck(loss, leaves, eps=1e-7, atol=1e-5, rtol=1e-5)


# -- writing and recall ----------------------------------------------------------------------------


@pytest.mark.parametrize("k_att", [1, 2, 3, 4])
@pytest.mark.parametrize("form", FORMS)
def test_every_k_att_th_state_is_written(form: str, k_att: int) -> None:
    for initial_memory, zeros in (("empty", 0), ("zero", 1)):
        options = ScanOptions(k_top=2, k_att=k_att, initial_memory=initial_memory)
        case = draw_case(options, steps=10)
        h, _, end, recall = scan(case, form)
        assert end.memory.shape == (2, 10 // k_att + zeros, HIDDEN)
        assert (end.memory[:, :zeros] == 0).all()
        assert torch.equal(end.memory[:, zeros:], h[k_att - 1 :: k_att].transpose(0, 1))
        used = recall.indices >= 0
        assert torch.equal(recall.steps[used], (recall.indices[used] + 1 - zeros) * k_att)
        assert (recall.steps[~used] == -1).all() and (recall.weights[~used] == 0).all()
        # a state never reads itself, and reads as soon as there is something to read
        now = torch.arange(1, 11)[None, :, None]
        assert (recall.steps < now).all()
        held = (torch.arange(10) // k_att + zeros).clamp(max=options.candidates)
        assert torch.equal(used.sum(2), held.expand(2, -1))


@pytest.mark.parametrize("form", FORMS)
def test_zero_initial_memory(form: str) -> None:
    """At the first step the zero state is the one memory: weight 1 by the paper's rule, and a
    summary of zero.
    """
    case = draw_case(ScanOptions(k_top=2, k_att=2, initial_memory="zero"), steps=3)
    _, s, _, recall = scan(case, form)
    assert recall.indices[:, :2].tolist() == [[[0, -1, -1]] * 2] * 2
    assert recall.steps[:, :2].tolist() == [[[0, -1, -1]] * 2] * 2
    assert (recall.weights[:, :2, 0] == 1).all() and (s[:2] == 0).all()
    assert (recall.matrix()[:, :2] == 0).all(), "the zero memory has no column"


def test_recall_matrix() -> None:
    steps = torch.tensor([[[-1, -1], [0, -1], [2, 0], [2, 4]]])
    weights = torch.tensor([[[0.0, 0.0], [1.0, 0.0], [0.7, 0.3], [0.6, 0.4]]])
    recall = Recall(steps, weights, torch.zeros(1, 4, dtype=torch.bool), steps)
    expected = torch.zeros(1, 4, 4)
    expected[0, 2, 1], expected[0, 3, 1], expected[0, 3, 3] = 0.7, 0.6, 0.4
    torch.testing.assert_close(recall.matrix(), expected)
    torch.testing.assert_close(recall.matrix(2), expected[:, :, :2])
    torch.testing.assert_close(recall.matrix(6)[:, :, :4], expected)
    assert (recall.matrix(6)[:, :, 4:] == 0).all()


def test_recall_matrix_gives_the_summary_back() -> None:
    options = ScanOptions(k_top=2, k_att=2)
    h, s, _, recall = scan(draw_case(options, steps=9), "reference")
    torch.testing.assert_close(
        recall.matrix() @ h.transpose(0, 1), s.transpose(0, 1), rtol=0, atol=1e-13
    )
