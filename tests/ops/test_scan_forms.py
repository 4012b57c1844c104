"""The fast forms against the reference: outputs, state, recall and every gradient, in float64."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from scan_cases import (
    FAST,
    FORMS,
    HIDDEN,
    INPUTS,
    Case,
    Outcome,
    carried,
    check_same,
    difference,
    draw_case,
    generator,
    naive,
    random_case,
    run,
)

from sab.ops.sab_scan import SABState, ScanOptions, sab_scan
from sab.ops.sab_scan.cpp import load_scan
from sab.ops.sab_scan.fused import fused_scan

TIGHT = 1e-10
SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"save": "recompute"},
    {"lazy": False},
)


def check_forms(case: Case, note: object = "") -> Outcome:
    """Every fast form, with every setting, equals the reference."""
    expected = run(case, "reference")
    for form in FAST:
        for settings in SETTINGS if form == "cpp" else SETTINGS[:2]:
            check_same(expected, run(case, form, **settings), TIGHT, (form, settings, note))
    return expected


# -- the matrix of switches ------------------------------------------------------------------------


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


# -- the corners by name ---------------------------------------------------------------------------


def options(**changes: Any) -> ScanOptions:
    base = {"k_top": 3, "k_att": 1, "k_trunc": 4, "score_gradient": "states"}
    return ScanOptions(**{**base, **changes})


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
    check_forms(draw_case(options(), **{unused: None}))


@pytest.mark.parametrize("frozen", ["x", "w_ih", "w_hh", "bias", "scorer[0]", "scorer[2]"])
def test_a_leaf_without_gradient(frozen: str) -> None:
    case = draw_case(options())
    expected = run(case, "reference")
    case.leaves[frozen].requires_grad_(False)
    names = [name for name in case.leaves if name != frozen]
    for form in FAST:
        h, s, *_ = sab_scan(case.x, case.weights, case.state, case.options, form=form)
        loss = (h * case.dh).sum() + (s * case.ds).sum()
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
def poisoned() -> Iterator[None]:
    """Every buffer that is not written starts as NaN (or a huge integer), in C++ as in torch."""
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True
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


# -- one function, and what it refuses -------------------------------------------------------------


@pytest.mark.parametrize("form", FAST)
@pytest.mark.parametrize("save", ["activations", "recompute"])
def test_backward_twice_gives_the_same(form: str, save: str) -> None:
    case = draw_case(options(replay="write_step", k_att=2), steps=9)
    h, s, *_ = sab_scan(case.x, case.weights, case.state, case.options, form=form, save=save)
    loss = (h * case.dh).sum() + (s * case.ds).sum()
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
            loss = (h * case.dh).sum() + (s * case.ds).sum()
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
