"""The reference scan: Algorithm 1 against a second writing of it, `torch.nn.LSTM`, and what must
hold of any recurrence.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from scan_cases import (
    CHOICES,
    FORMS,
    HIDDEN,
    INPUTS,
    Case,
    Outcome,
    carried,
    check_same,
    difference,
    differentiate,
    draw_case,
    generator,
    naive,
    random_case,
    run,
)
from torch import Tensor

from sab.ops.sab_scan import Recall, SABState, ScanOptions, initial_state, sab_scan
from sab.ops.sab_scan.reference import reference_scan

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
    bias = (lstm.bias_ih_l0 + lstm.bias_hh_l0).detach().requires_grad_()
    case.weights = case.weights._replace(w_ih=lstm.weight_ih_l0, w_hh=lstm.weight_hh_l0, bias=bias)
    h0, c0 = torch.randn(2, batch, n, generator=generator(5)).to(dtype)
    case.state = SABState(h0, c0, h0.new_zeros(batch, 0, n), torch.zeros(batch).long())
    ours = run(case, form)
    out, (h, c) = lstm(case.x, (h0[None], c0[None]))
    assert difference(out.detach(), ours.h) <= tolerance
    assert difference(h[0].detach(), ours.end.h) <= tolerance
    assert difference(c[0].detach(), ours.end.c) <= tolerance
    assert (ours.s == 0).all() and (ours.recall.indices == -1).all() and ours.recall.tied.all()
    leaves = (case.x, lstm.weight_ih_l0, lstm.weight_hh_l0, lstm.bias_ih_l0)
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
        return (h * case.dh).sum() + (s * case.ds).sum()

    assert torch.autograd.gradcheck(loss, leaves, eps=1e-7, atol=1e-5, rtol=1e-5)


# -- time, batch, padding, carried state -----------------------------------------------------------


def pieces(out: tuple[Tensor, Tensor, SABState, Recall]) -> dict[str, Tensor]:
    h, s, _, recall = out
    return {
        "h": h.transpose(0, 1),
        "s": s.transpose(0, 1),
        **{name: getattr(recall, name) for name in ("indices", "weights", "tied", "steps")},
    }


@torch.no_grad()
def scan(case: Case, form: str, **replace: Any) -> tuple[Tensor, Tensor, SABState, Recall]:
    case = dataclasses.replace(case, **replace)
    return sab_scan(case.x, case.weights, case.state, case.options, case.lengths, form=form)


@pytest.mark.parametrize("form", FORMS)
def test_the_future_never_changes_the_past(form: str) -> None:
    case = draw_case(ScanOptions(k_top=2), steps=11, batch=3)
    whole = pieces(scan(case, form))
    for t in (1, 4, 10):
        x = case.x.detach().clone()
        x[t:] = 100 * torch.randn(x[t:].shape, generator=generator(t), dtype=x.dtype)
        other = pieces(scan(case, form, x=x))
        for name in whole:
            assert torch.equal(whole[name][:, :t], other[name][:, :t]), name
        assert not torch.equal(whole["h"][:, t], other["h"][:, t])


@pytest.mark.parametrize("form", FORMS)
def test_permuting_the_batch_permutes_the_result(form: str) -> None:
    options = ScanOptions(k_top=2, k_trunc=3, score_gradient="states")
    lengths = torch.tensor([9, 3, 5, 1])
    case = draw_case(options, steps=9, batch=4, lengths=lengths, state=carried(options, 3, 4))
    order = torch.tensor([2, 0, 3, 1])
    assert case.dh is not None and case.ds is not None
    other = dataclasses.replace(
        case,
        x=case.x.detach()[:, order].requires_grad_(),
        dh=case.dh[:, order],
        ds=case.ds[:, order],
        lengths=lengths[order],
        state=SABState(*(getattr(case.state, name)[order] for name in STATE)),
    )
    a, b = run(case, form), run(other, form)
    a.h, a.s, a.grads["x"] = a.h[:, order], a.s[:, order], a.grads["x"][:, order]
    a.end = SABState(*(getattr(a.end, name)[order] for name in STATE))
    a.recall = Recall(*(getattr(a.recall, f.name)[order] for f in dataclasses.fields(Recall)))
    check_same(a, b, 1e-12)


@pytest.mark.parametrize("initial_memory", ["empty", "zero"])
@pytest.mark.parametrize("form", FORMS)
def test_padding(form: str, initial_memory: str) -> None:
    """Each sample equals itself alone; padded outputs are zeros; what is in the padding has no
    influence.
    """
    options = ScanOptions(k_top=2, k_trunc=3, k_att=2, initial_memory=initial_memory)
    lengths = torch.tensor([9, 4, 1, 6])
    case = draw_case(options, steps=9, batch=4, lengths=lengths)
    assert case.dh is not None and case.ds is not None
    both = run(case, form)
    alone = []
    for b, length in enumerate(lengths.tolist()):
        mine = dataclasses.replace(
            case,
            x=case.x.detach()[:length, b : b + 1].requires_grad_(),
            state=initial_state(1, HIDDEN, options, like=case.x),
            dh=case.dh[:length, b : b + 1],
            ds=case.ds[:length, b : b + 1],
            lengths=None,
        )
        alone.append(out := run(mine, form))
        held = length // 2 + options.zero_slots
        assert difference(out.h, both.h[:length, b : b + 1]) <= 1e-12
        assert difference(out.s, both.s[:length, b : b + 1]) <= 1e-12
        assert difference(out.grads["x"], both.grads["x"][:length, b : b + 1]) <= 1e-11
        assert difference(out.end.h, both.end.h[b : b + 1]) <= 1e-12
        assert difference(out.end.c, both.end.c[b : b + 1]) <= 1e-12
        assert difference(out.end.memory, both.end.memory[b : b + 1, :held]) <= 1e-12
        assert (both.end.memory[b, held:] == 0).all()
        assert torch.equal(out.recall.indices, both.recall.indices[b : b + 1, :length])
        assert (both.h[length:, b] == 0).all() and (both.s[length:, b] == 0).all()
        assert (both.grads["x"][length:, b] == 0).all()
        assert (both.recall.indices[b, length:] == -1).all()
        assert (both.recall.steps[b, length:] == -1).all()
        assert (both.recall.weights[b, length:] == 0).all() and both.recall.tied[b, length:].all()
    assert torch.equal(both.end.step, lengths)
    for name in both.grads.keys() - {"x"}:
        total = torch.stack([out.grads[name] for out in alone]).sum(0)
        assert difference(total, both.grads[name]) <= 1e-11, name

    for garbage in (1e6, torch.inf, torch.nan):
        dirty = case.x.detach().clone()
        for b, length in enumerate(lengths.tolist()):
            dirty[length:, b] = garbage
        other = dataclasses.replace(case, x=dirty.requires_grad_())
        check_same(both, run(other, form), 1e-12, garbage)


@pytest.mark.parametrize("initial_memory", ["empty", "zero"])
@pytest.mark.parametrize("form", FORMS)
def test_any_split_equals_the_whole(form: str, initial_memory: str) -> None:
    options = ScanOptions(k_top=2, k_att=3, k_trunc=4, initial_memory=initial_memory)
    case = draw_case(options, steps=11, batch=3)
    whole = scan(case, form)
    for cuts in ((1,), (5,), (3, 9), tuple(range(1, 11))):
        state, found = case.state, []
        for start, stop in zip((0, *cuts), (*cuts, 11), strict=True):
            out = scan(case, form, x=case.x[start:stop], state=state)
            found.append(pieces(out))
            state = out[2]
            assert not state.h.requires_grad and not state.memory.requires_grad
        for name, value in pieces(whole).items():
            joined = torch.cat([piece[name] for piece in found], 1)
            if value.is_floating_point():
                assert difference(value, joined) <= 1e-12, name
            else:
                assert torch.equal(value, joined), name
        for name in ("h", "c", "memory"):
            assert difference(getattr(whole[2], name), getattr(state, name)) <= 1e-12
        assert torch.equal(whole[2].step, state.step)


@pytest.mark.parametrize("form", FORMS)
def test_samples_may_be_split_at_different_steps(form: str) -> None:
    options = ScanOptions(k_top=2, k_att=2, k_trunc=3)
    case = draw_case(options, steps=10, batch=3)
    whole = scan(case, form)
    first = torch.tensor([7, 2, 5])
    middle = scan(case, form, x=case.x[:7], lengths=first)[2]
    assert torch.equal(middle.step, first)
    rest = torch.zeros(8, 3, INPUTS, dtype=torch.float64)
    for b, done in enumerate(first.tolist()):
        rest[: 10 - done, b] = case.x[done:, b].detach()
    h, s, end, recall = scan(case, form, x=rest, state=middle, lengths=10 - first)
    for b, done in enumerate(first.tolist()):
        assert difference(whole[0][done:, b], h[: 10 - done, b]) <= 1e-12
        assert difference(whole[1][done:, b], s[: 10 - done, b]) <= 1e-12
        assert torch.equal(whole[3].steps[b, done:], recall.steps[b, : 10 - done])
    assert difference(whole[2].memory, end.memory) <= 1e-12
    assert torch.equal(end.step, torch.full((3,), 10))


@pytest.mark.parametrize("form", FORMS)
def test_carried_state_gets_no_gradient_and_blocks_count_on(form: str) -> None:
    """After 4 steps, blocks of 3 go on: the first border of the second part is before its step 2 (t
    = 6).
    """
    options = ScanOptions(k_att=100, k_trunc=3)
    case = draw_case(options, steps=5, batch=1)
    h = torch.randn(1, HIDDEN, dtype=torch.float64, requires_grad=True)
    memory = torch.zeros(1, 0, HIDDEN, dtype=torch.float64)
    case.state = SABState(h, h.detach(), memory, torch.tensor([4]))
    out, *_ = sab_scan(case.x, case.weights, case.state, options, form=form)
    (dx, dh) = torch.autograd.grad(out[2].sum(), (case.x, h), allow_unused=True)
    assert dh is None
    assert [bool(g.any()) for g in dx[:, 0]] == [False, True, True, False, False]


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


# -- errors ----------------------------------------------------------------------------------------


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
            state = dataclasses.replace(state, **{name: value})
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
