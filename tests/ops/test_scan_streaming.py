"""Carrying a state on without a graph: keys and memories are kept in place, and nobody notices."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from scan_cases import FAST, FORMS, INPUTS, Case, carried, difference, draw_case, generator
from torch import Tensor

from sab.ops.sab_scan import SABState, ScanOptions, sab_scan

OPTIONS = ScanOptions(k_top=2, k_att=2, k_trunc=3)


@torch.no_grad()
def scan(case: Case, x: Tensor, state: SABState, form: str, **more: Any) -> tuple[Any, ...]:
    return sab_scan(x, case.weights, state, case.options, form=form, **more)


def fresh(state: SABState) -> SABState:
    """The same values without a buffer behind them."""
    return SABState(state.h.clone(), state.c.clone(), state.memory.clone(), state.step.clone())


def draw(seed: int, steps: int, batch: int) -> Tensor:
    return torch.randn(steps, batch, INPUTS, generator=generator(seed), dtype=torch.float64)


def same(a: SABState, b: SABState) -> None:
    for name in ("h", "c", "memory"):
        assert difference(getattr(a, name), getattr(b, name)) <= 1e-12, name
    assert torch.equal(a.step, b.step)


@pytest.mark.parametrize("score", ["additive", "separable"])
@pytest.mark.parametrize("form", FORMS)
def test_step_by_step_equals_at_once(form: str, score: str) -> None:
    """Sixty steps: the buffer grows several times on the way."""
    case = draw_case(ScanOptions(k_top=2, k_att=1, score=score), steps=60)
    h, s, end, _ = scan(case, case.x, case.state, form)
    state = case.state
    for t in range(60):
        h_t, s_t, state, _ = scan(case, case.x[t : t + 1], state, form)
        assert difference(h[t], h_t[0]) <= 1e-12 and difference(s[t], s_t[0]) <= 1e-12
    same(end, state)


@pytest.mark.parametrize("form", FORMS)
def test_two_continuations_of_one_state(form: str) -> None:
    """Going on twice from one state: neither sees the other, and the state stays as it was."""
    case = draw_case(OPTIONS, steps=6, batch=3)
    state = scan(case, case.x, case.state, form)[2]
    kept = fresh(state)
    for steps in (1, 2, 5, 12):
        a, b = draw(steps, steps, 3), draw(100 + steps, steps, 3)
        h_a, _, end_a, _ = scan(case, a, state, form)
        at_once = fresh(end_a)
        h_b, _, end_b, _ = scan(case, b, state, form)
        same(at_once, end_a)
        same(kept, state)
        for x, h, end in ((a, h_a, end_a), (b, h_b, end_b)):
            expected = scan(case, x, fresh(kept), "reference")
            assert difference(expected[0], h) <= 1e-12
            same(expected[2], end)
            more = draw(7, 4, 3)
            expected_more = scan(case, more, fresh(expected[2]), "reference")[0]
            assert difference(expected_more, scan(case, more, end, form)[0]) <= 1e-12


@pytest.mark.parametrize("form", FORMS)
def test_two_continuations_of_samples_at_different_steps(form: str) -> None:
    """A sample that holds less than another must not write where the other continuation reads."""
    case = draw_case(OPTIONS, steps=8, batch=3)
    lengths = torch.tensor([8, 3, 1])
    state = scan(case, case.x, case.state, form, lengths=lengths)[2]
    kept = fresh(state)
    for steps in (1, 2, 3):
        a, b = draw(steps, steps, 3), draw(50 + steps, steps, 3)
        end_a = scan(case, a, state, form)[2]
        at_once = fresh(end_a)
        scan(case, b, state, form)
        same(at_once, end_a)
        same(kept, state)
        more = draw(9, 5, 3)
        expected = scan(case, more, fresh(at_once), "reference")[0]
        assert difference(expected, scan(case, more, end_a, form)[0]) <= 1e-12


@pytest.mark.parametrize("form", FORMS)
def test_an_exchanged_memory_is_the_one_that_is_read(form: str) -> None:
    case = draw_case(OPTIONS, steps=8, batch=3)
    state = scan(case, case.x, case.state, form)[2]
    other = dataclasses.replace(state, memory=carried(OPTIONS, 1, 3).memory[:, :1].repeat(1, 4, 1))
    assert not torch.equal(other.memory, state.memory)
    x = draw(3, 3, 3)
    expected = scan(case, x, fresh(other), "reference")[0]
    assert difference(expected, scan(case, x, other, form)[0]) <= 1e-12


@pytest.mark.parametrize("form", FORMS)
def test_a_memory_wiped_in_place_is_wiped(form: str) -> None:
    """An experiment may erase a memory: its key must go with it."""
    case = draw_case(OPTIONS, steps=8, batch=3)
    state = scan(case, case.x, case.state, form)[2]
    state.memory[:, 1] = 0
    x = draw(4, 3, 3)
    expected = scan(case, x, fresh(state), "reference")[0]
    assert difference(expected, scan(case, x, state, form)[0]) <= 1e-12


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("change", ["in place", "data", "replaced", "permuted"])
def test_keys_follow_the_scorer(form: str, change: str) -> None:
    """After the scorer has changed, in whatever way, keys are computed anew from the memories."""
    case = draw_case(OPTIONS, steps=8, batch=3)
    state = scan(case, case.x, case.state, form)[2]
    state = scan(case, draw(2, 2, 3), state, form)[2]
    w1 = case.weights.scorer[0]
    with torch.no_grad():
        if change == "in place":
            w1 += torch.randn(w1.shape, generator=generator(1), dtype=w1.dtype)
        elif change == "data":
            w1.data += torch.randn(w1.shape, generator=generator(1), dtype=w1.dtype)
        elif change == "permuted":
            w1.data[:] = w1.data.flip(0).clone()
        else:
            new = (w1.detach() * -2).requires_grad_()
            case.weights = case.weights._replace(scorer=(new, *case.weights.scorer[1:]))
    x = draw(5, 3, 3)
    expected = scan(case, x, fresh(state), "reference")[0]
    assert difference(expected, scan(case, x, state, form)[0]) <= 1e-12


@pytest.mark.parametrize("form", FAST)
def test_streaming_then_training_then_streaming(form: str) -> None:
    case = draw_case(OPTIONS, steps=8, batch=3)
    state = scan(case, case.x, case.state, form)[2]
    kept = fresh(state)
    x = draw(6, 4, 3)
    h, _, trained, _ = sab_scan(x, case.weights, state, case.options, form=form)
    h.sum().backward()
    same(kept, state)
    for start in (state, trained):
        more = draw(8, 3, 3)
        expected = scan(case, more, fresh(start), "reference")[0]
        assert difference(expected, scan(case, more, start, form)[0]) <= 1e-12
