"""What must hold of any recurrence: causality, batch order, padding and carried states."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from scan_cases import (
    FORMS,
    HIDDEN,
    INPUTS,
    carried,
    check_same,
    difference,
    draw_case,
    generator,
    run,
    scan,
)
from torch import Tensor

from sab.ops.sab_scan import Recall, SABState, ScanOptions, initial_state, sab_scan

STATE = ("h", "c", "memory", "step")


def pieces(out: tuple[Tensor, Tensor, SABState, Recall]) -> dict[str, Tensor]:
    h, s, _, recall = out
    return {
        "h": h.transpose(0, 1),
        "s": s.transpose(0, 1),
        **{name: getattr(recall, name) for name in ("indices", "weights", "tied", "steps")},
    }


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
