"""The fast forms against the reference: outputs, state, recall and every gradient, in float64."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from scan_cases import (
    FAST,
    FORMS,
    HIDDEN,
    INPUTS,
    SETTINGS,
    TIGHT,
    Case,
    carried,
    check_forms,
    check_same,
    difference,
    draw_case,
    generator,
    options,
    random_case,
    run,
)
from scan_naive import naive

from sab.ops.sab_scan import sab_scan


@pytest.mark.parametrize("chunk", range(12))
def test_fast_forms_equal_the_reference(chunk: int) -> None:
    """300 draws from all switches, lengths, layouts and carried states."""
    for seed in range(100 + 25 * chunk, 125 + 25 * chunk):
        case = random_case(seed)
        expected = run(case, "reference")
        for number, form in enumerate(FAST):
            settings = SETTINGS[(seed + number) % len(SETTINGS)]
            note = (seed, form, settings, case.options)
            check_same(expected, run(case, form, **settings), TIGHT, note)


def test_the_draws_cover_what_they_should() -> None:
    """Each value of each switch, and each side condition, comes up often among the 300."""
    cases = [random_case(seed) for seed in range(100, 400)]
    seen: dict[tuple[str, Any], int] = {}

    def note(name: str, value: Any) -> None:
        seen[name, value] = seen.get((name, value), 0) + 1

    for case in cases:
        for name, value in dataclasses.asdict(case.options).items():
            note(name, value)
        steps, _ = case.dims
        k = case.options.k_trunc
        note("lengths", case.lengths is not None)
        note("carried", bool(case.state.step.any()))
        note("carried, unequal", len(set(case.state.step.tolist())) > 1)
        note("contiguous", case.view(case.x).is_contiguous())
        note("odd", steps % 2 == 1)
        if k is not None:
            note("T < k", steps < k)
            note("T = k + 1", steps == k + 1)
    assert min(seen.values()) >= 15, seen
    assert len(seen) >= 35


# -- the corners by name -------------------------------------------------------------------------


CORNERS: dict[str, dict[str, Any]] = {
    "one step": {"steps": 1},
    "one sample": {"batch": 1, "steps": 11},
    "shorter than a block": {"steps": 3},
    "a block and one": {"steps": 5},
    "shorter than the first write": {"steps": 4, "k_att": 5},
    "k_top one": {"k_top": 1, "steps": 11},
    "more candidates than memories": {"k_top": 50, "steps": 9},
    "full BPTT": {"k_trunc": None, "steps": 11},
    "blocks of one": {"k_trunc": 1, "steps": 9},
    "block end and write agree": {"k_att": 4, "k_trunc": 4, "block_offset": 1, "steps": 17},
    "block start and write agree": {"k_att": 4, "k_trunc": 4, "block_offset": 0, "steps": 17},
    "narrow scorer": {"score_size": 1, "steps": 9},
    "odd wide scorer": {"score_size": 17, "steps": 9},
    "narrow state": {"hidden": 1, "steps": 9},
    "the released code": {
        "score": "separable", "threshold": "k_top", "short_memory": "raw",
        "initial_memory": "zero", "steps": 11,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", CORNERS)
def test_corner(name: str) -> None:
    settings = dict(CORNERS[name])
    sizes = {
        k: settings.pop(k) for k in ("steps", "batch", "hidden", "score_size") if k in settings
    }
    check_forms(draw_case(options(**settings), seed=11, **sizes), name)


@pytest.mark.parametrize("unused", ["dh", "ds"])
def test_one_output_unused(unused: str) -> None:
    change: dict[str, Any] = {unused: None}
    check_forms(draw_case(options(), **change))


@pytest.mark.parametrize("frozen", ["x", "w_ih", "w_hh", "bias", "scorer[0]", "scorer[2]"])
def test_a_leaf_without_gradient(frozen: str) -> None:
    case = draw_case(options())
    expected = run(case, "reference")
    case.leaves[frozen].requires_grad_(False)
    names = [name for name in case.leaves if name != frozen]
    for form in FAST:
        h, s, *_ = sab_scan(case.x, case.weights, case.state, case.options, form=form)
        loss = case.loss(h, s)
        found = torch.autograd.grad(loss, [case.leaves[name] for name in names])
        for name, grad in zip(names, found, strict=True):
            assert difference(expected.grads[name], grad) <= TIGHT, name


def test_unequal_steps_lengths_and_layouts_together() -> None:
    for switches in (
        {},
        {"k_att": 3, "initial_memory": "zero"},
        {"replay": "write_step", "k_att": 2},
    ):
        o = options(**switches)
        wide = torch.randn(4, 11, 2 * INPUTS, generator=generator(1), dtype=torch.float64)
        case = draw_case(
            o,
            steps=11,
            batch=4,
            x=wide.requires_grad_(),
            view=lambda x: x[..., 1::2].transpose(0, 1),
            lengths=torch.tensor([11, 1, 6, 8]),
            state=carried(o, 6, 4),
        )
        assert len(set(case.state.step.tolist())) > 1
        check_forms(case, switches)


def exact_ties(score_gradient: str = "states") -> Case:
    """Scores that are sums of ±1, ±½, ±¼ exactly: keys so large that tanh is ±1."""
    case = draw_case(options(score_gradient=score_gradient), steps=13, batch=3, score_size=3)
    w1, w2, w3 = (torch.zeros_like(w) for w in case.weights.scorer)
    w1[0, 0], w1[1, 1], w1[2, 2] = 1e6, 1e6, 1e6
    w3[:] = torch.tensor([1.0, 0.5, 0.25])
    case.weights = case.weights._replace(scorer=tuple(w.requires_grad_() for w in (w1, w2 * 0, w3)))
    return case


@pytest.mark.parametrize("score_gradient", ["scorer", "states"])
def test_exact_ties_and_large_keys(score_gradient: str) -> None:
    """Keys past 40 take the other path of both engines, and eight possible scores make ties
    everywhere.
    """
    case = exact_ties(score_gradient)
    expected = check_forms(case)
    used = expected.recall.indices >= 0
    levels = expected.recall.weights[used].unique()
    assert len(levels) < 40, "the weights are ratios of a few exact numbers"
    reads = (expected.recall.weights > 0).sum(2)[:, 5:]
    assert (reads < 3).any() and (reads == 3).any(), "ties at the threshold, and none"
    check_same(expected, naive(case)[0], TIGHT)


@pytest.mark.parametrize("value", [0.0, 3.0])
def test_all_scores_tied(value: float) -> None:
    """Scores that do not tell memories apart: uniform reads of the first k_top, no gradient to the
    scorer.
    """
    case = draw_case(options(), steps=9)
    w1, w2, _ = case.weights.scorer
    scorer = (torch.zeros_like(w1), torch.zeros_like(w2), torch.full((HIDDEN,), value).double())
    case.weights = case.weights._replace(scorer=tuple(w.requires_grad_() for w in scorer))
    expected = check_forms(case)
    assert expected.recall.tied.all()
    assert expected.recall.weights[0, 8].tolist() == [1 / 3, 1 / 3, 1 / 3, 0]
    assert expected.recall.indices[0, 8].tolist() == [0, 1, 2, 3]
    assert all((expected.grads[f"scorer[{i}]"] == 0).all() for i in range(3))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_scores_a_few_ulp_apart_are_tied(dtype: torch.dtype) -> None:
    """Rounding orders them, differently in each form: it decides nothing where all are read."""
    apart = []
    for seed in range(60):
        case = draw_case(options(k_top=4), seed, steps=4, batch=1, score_size=1)
        w1, w2, w3 = case.weights.scorer
        tiny = (w1.detach() * torch.finfo(dtype).eps).requires_grad_()
        case.weights = case.weights._replace(scorer=(tiny, w2, w3))
        case = case.to(dtype)
        expected = run(case, "reference")
        if ((expected.h - expected.s)[1:] @ w2.detach().to(dtype).T).abs().min() < 0.5:
            continue  # next to a score of nearly zero a key's 1e-17 is many ulp
        apart.append(expected.recall.indices[0, 3, :3].tolist() != [0, 1, 2])
        for form in FORMS:
            out = run(case, form)
            assert out.recall.tied.all(), (form, seed)
            for held in range(1, 4):
                assert (out.recall.weights[:, held, :held] - 1 / held).abs().max() < 1e-7, form
            assert difference(expected.h, out.h) <= 100 * torch.finfo(dtype).eps, form
            assert all((out.grads[f"scorer[{i}]"] == 0).all() for i in range(3)), form
    assert len(apart) >= 3 and any(apart), "no scores differed at all"


@pytest.mark.parametrize("scale", [8.0, 25.0, 100.0])
@pytest.mark.parametrize("which", [0, 1])
def test_large_keys_and_queries(which: int, scale: float) -> None:
    """|W1 m| or |W2 ĥ| beyond 20 and 40, where exponentials give way to tanh itself.

    One unit of the scorer is large. Were all, the scores would tie to the last bit.
    """
    reached = []
    for seed in range(12):
        case = draw_case(options(), seed, steps=11, batch=1)
        scorer = list(case.weights.scorer)
        scorer[which] = scorer[which].detach().clone()
        scorer[which][0] *= scale
        scorer[which].requires_grad_()
        case.weights = case.weights._replace(scorer=tuple(scorer))
        out, gap = naive(case)
        if gap > 1e-3:
            check_forms(case, (which, scale, seed))
            states = out.h if which == 0 else out.h - out.s
            reached.append(float((states @ scorer[which].T).abs().max().detach()))
    assert len(reached) >= 3
    assert max(reached) > {8.0: 9, 25.0: 40, 100.0: 100}[scale], reached


@pytest.mark.parametrize("threads", [1, 2])
def test_large_layer_and_threads(threads: int) -> None:
    """Weights beyond the caches are multiplied by all threads at once; small layers split the
    batch.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for hidden, batch in ((256, 3), (4, 5)):
            case = draw_case(
                options(k_top=2),
                steps=5,
                batch=batch,
                hidden=hidden,
                score_size=4,
                lengths=torch.tensor([5, 3, 4, 1, 5][:batch]),
            )
            case.weights = case.weights._replace(
                w_hh=(case.weights.w_hh.detach() * 0.1).requires_grad_()
            )
            check_forms(case, (hidden, threads))
    finally:
        torch.set_num_threads(before)
