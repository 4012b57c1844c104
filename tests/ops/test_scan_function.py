"""The scan as a function: its graph, what it leaves alone, and what it refuses."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from scan_cases import (
    FAST,
    FORMS,
    TIGHT,
    Outcome,
    carried,
    check_same,
    difference,
    draw_case,
    options,
    random_case,
    run,
)

from sab.ops.sab_scan import SABState, ScanOptions, sab_scan


@pytest.mark.parametrize("form", FAST)
@pytest.mark.parametrize("save", ["activations", "recompute"])
def test_backward_twice_gives_the_same(form: str, save: str) -> None:
    case = draw_case(options(replay="write_step", k_att=2), steps=9)
    h, s, *_ = sab_scan(case.x, case.weights, case.state, case.options, form=form, save=save)
    loss = case.loss(h, s)
    leaves = list(case.leaves.values())
    first = torch.autograd.grad(loss, leaves, retain_graph=True)
    second = torch.autograd.grad(loss, leaves)
    for a, b in zip(first, second, strict=True):
        assert torch.equal(a, b)
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(loss, leaves)


@pytest.mark.parametrize("form", FAST)
def test_graphs_of_the_same_shape_share_no_buffer(form: str) -> None:
    """Several scans before their backward passes, in any order: what one keeps, no other writes."""
    cases = [draw_case(options(), seed) for seed in range(7)]
    alone = [run(case, form) for case in cases]
    outputs = [
        sab_scan(case.x, case.weights, case.state, case.options, form=form) for case in cases
    ]
    for _ in range(2):
        for i in (3, 0, 6, 1, 5, 2, 4):
            case, (h, s, *_) = cases[i], outputs[i]
            assert torch.equal(h, alone[i].h) and torch.equal(s, alone[i].s)
            loss = case.loss(h, s)
            found = torch.autograd.grad(loss, list(case.leaves.values()), retain_graph=True)
            run(cases[(i + 1) % 7], form)  # another scan in between
            for name, grad in zip(case.leaves, found, strict=True):
                assert torch.equal(grad, alone[i].grads[name]), (i, name)


@pytest.mark.parametrize("form", FAST)
def test_second_derivatives_are_refused(form: str) -> None:
    case = draw_case(options())
    h, *_ = sab_scan(case.x, case.weights, case.state, case.options, form=form)
    (dx,) = torch.autograd.grad(h.square().sum(), case.x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        dx.sum().backward()


@pytest.mark.parametrize("form", FORMS)
def test_evaluation_equals_training(form: str) -> None:
    """Without a graph nothing is kept, and nothing changes."""
    for seed in range(600, 612):
        case = random_case(seed)
        arguments = (case.view(case.x), case.weights, case.state, case.options, case.lengths)
        a = sab_scan(*arguments, form=form)
        with torch.no_grad():
            b = sab_scan(*arguments, form=form)
        assert a[0].requires_grad and not b[0].requires_grad
        check_same(Outcome(a[0].detach(), a[1].detach(), *a[2:]), Outcome(*b), 1e-13, case.options)


@pytest.mark.parametrize("form", FORMS)
def test_nothing_handed_in_is_changed(form: str) -> None:
    case = random_case(7)
    assert case.state.step.any()
    tensors = {**case.leaves, **{k: getattr(case.state, k) for k in ("h", "c", "memory", "step")}}
    before = {name: value.detach().clone() for name, value in tensors.items()}
    run(case, form)
    for name, value in tensors.items():
        assert torch.equal(before[name], value), name


@pytest.mark.parametrize("form", FAST)
def test_sliding_is_refused_by_a_fast_form(form: str) -> None:
    case = draw_case(ScanOptions(truncation="sliding"))
    with pytest.raises(ValueError, match="only form='reference' computes it") as error:
        sab_scan(case.x, case.weights, case.state, case.options, form=form)
    assert str(error.value).startswith("truncation='sliding'")
    # with nothing to truncate there is nothing to refuse
    full = dataclasses.replace(case, options=ScanOptions(truncation="sliding", k_trunc=None))
    check_same(run(full, "reference"), run(full, form), TIGHT)


@pytest.mark.parametrize("form", FAST)
def test_unknown_save_is_refused(form: str) -> None:
    case = draw_case(ScanOptions())
    with pytest.raises(ValueError, match="save='all': must be one of 'activations', 'recompute'"):
        sab_scan(case.x, case.weights, case.state, case.options, form=form, save="all")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("odd", ["x", "weights", "state"])
def test_mixed_precision_is_refused(form: str, odd: str) -> None:
    """Float32 beside float64 is an error that names types, never a silent cast or garbage."""
    case = draw_case(ScanOptions(k_att=1), steps=4)
    case.state = carried(case.options, 3, 2)
    assert case.state.memory.shape[1] > 0
    small = case.to(torch.float32)
    case = dataclasses.replace(case, **{odd: getattr(small, odd)})
    with pytest.raises((ValueError, RuntimeError), match=r"(?i)dtype|float|double"):
        sab_scan(case.x, case.weights, case.state, case.options, form=form)


def test_a_state_is_a_state_for_every_form() -> None:
    """What one form leaves, another goes on from."""
    case = draw_case(options(k_top=2, k_att=2), steps=8, batch=3)
    whole = run(case, "reference")
    for first in FORMS:
        for second in FORMS:
            with torch.no_grad():
                middle: SABState = sab_scan(
                    case.x[:5], case.weights, case.state, case.options, form=first
                )[2]
                h, _, end, _ = sab_scan(case.x[5:], case.weights, middle, case.options, form=second)
            assert difference(whole.h[5:], h) <= 1e-12, (first, second)
            assert difference(whole.end.memory, end.memory) <= 1e-12
