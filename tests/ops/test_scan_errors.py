"""Bad options and tensors are refused before any work starts, by every form."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from scan_cases import (
    FORMS,
    HIDDEN,
    INPUTS,
    Outcome,
    differentiate,
    draw_case,
    run,
)
from torch import Tensor

from sab.ops.sab_scan import Recall, ScanOptions, initial_state, sab_scan
from sab.ops.sab_scan.reference import reference_scan


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k_top": 0}, "k_top=0: must be an integer of at least 1"),
        ({"k_att": 0}, "k_att=0: must be an integer of at least 1"),
        ({"k_att": True}, "k_att=True: must be an integer"),
        ({"k_trunc": 0}, "k_trunc=0: must be an integer of at least 1"),
        ({"truncation": "blocks"}, "truncation='blocks': must be one of 'block', 'sliding'"),
        ({"block_offset": 2}, "block_offset=2: must be one of 0, 1"),
        ({"replay": "half"}, "replay='half': must be one of 'full', 'write_step', 'none'"),
        ({"score_gradient": "all"}, "score_gradient='all': must be one of 'scorer', 'states'"),
        ({"score": "dot"}, "score='dot': must be one of 'additive', 'separable'"),
        ({"threshold": "k"}, "threshold='k': must be one of"),
        ({"short_memory": "hard"}, "short_memory='hard': must be one of"),
        ({"initial_memory": "one"}, "initial_memory='one': must be one of 'empty', 'zero'"),
    ],
)  # fmt: skip
def test_bad_options_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:
        ScanOptions(**change)
    assert str(error.value).startswith(message)


def test_initial_state_refuses_bad_sizes() -> None:
    for sizes, name in (((0, 4), "batch=0"), ((2, -1), "hidden_size=-1")):
        with pytest.raises(ValueError, match=name):
            initial_state(*sizes, ScanOptions())


N4 = 4 * HIDDEN
Z = torch.zeros


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"w_hh": Z(N4, HIDDEN + 1)}, f"w_hh has shape (20, 6): must be (20, {HIDDEN})"),
        ({"w1": Z(HIDDEN, 2)}, f"w1 has shape (5, 2): must be (any, {HIDDEN})"),
        ({"w2": Z(3, HIDDEN)}, "w2 has shape (3, 5): must be (5, 5)"),
        ({"w3": Z(2)}, "w3 has shape (2): must be (5)"),
        ({"h": Z(1, HIDDEN)}, "state.h has shape (1, 5): must be (2, 5)"),
        ({"c": Z(2, 4)}, "state.c has shape (2, 4): must be (2, 5)"),
        ({"memory": Z(2, 0, 4)}, "state.memory has shape (2, 0, 4): must be (2, any, 5)"),
        ({"step": Z(3).long()}, "state.step has shape (3): must be (2)"),
        ({"step": torch.tensor([0, 6])}, "state.memory holds 0 memories: must be at least 3"),
        ({"lengths": torch.tensor([3])}, "lengths has shape (1): must be (2)"),
        ({"lengths": torch.tensor([0, 3])}, "lengths=[0, 3]: each must be between 1 and"),
        ({"lengths": torch.tensor([3, 10])}, "lengths=[3, 10]: each must be between 1 and"),
        ({"x": Z(0, 2, INPUTS, dtype=torch.float64)}, "number of steps=0: must be an integer"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_bad_tensors_are_refused(form: str, change: dict[str, Tensor], message: str) -> None:
    case = draw_case(ScanOptions(k_att=2), steps=4)
    w, state = case.weights, case.state
    for name, value in change.items():
        value = value.double() if value.is_floating_point() else value
        if name in ("x", "lengths"):
            setattr(case, name, value)
        elif name == "w_hh":
            w = w._replace(w_hh=value)
        elif name[0] == "w":
            at = int(name[1]) - 1
            w = w._replace(scorer=(*w.scorer[:at], value, *w.scorer[at + 1 :]))
        else:
            change_state: dict[str, Any] = {name: value}
            state = dataclasses.replace(state, **change_state)
    with pytest.raises(ValueError) as error:
        sab_scan(case.x, w, state, case.options, case.lengths, form=form)
    text = str(error.value).replace(",)", ")")
    assert text.startswith(message), text


def test_gates_must_be_four_times_the_width() -> None:
    case = draw_case(ScanOptions(), steps=2)
    with pytest.raises(ValueError, match="gates has 7 columns: must be 4 × hidden_size"):
        reference_scan(
            torch.zeros(2, 2, 7), case.weights.w_hh, case.weights.scorer, case.state, case.options
        )


def test_differentiate_is_of_the_outputs_given() -> None:
    """The helper above: without output gradients there are none (guards the comparisons of this
    folder).
    """
    case = draw_case(ScanOptions(), steps=2, dh=None, ds=None)
    assert all((g == 0).all() for g in run(case, "reference").grads.values())
    h = case.x.sum() * torch.ones(2, 2, HIDDEN, dtype=torch.float64)
    case.dh = torch.ones_like(h)
    out = differentiate(case, Outcome(h, h, case.state, Recall(*[h] * 4)))
    assert torch.equal(out.grads["x"], torch.full_like(case.x, float(h.numel())))
