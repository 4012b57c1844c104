"""Associative memories against their equations; energies that never rise."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from sab.ops.attention import soft_read
from sab.ops.hopfield import (
    dense_energy,
    energy,
    hebbian,
    hetero_hebbian,
    modern_energy,
    modern_update,
    polynomial,
    recall_async,
    recall_dense,
    recall_sync,
)
from sab.ops.scores import dot
from sab.tasks.patterns import flip, letters, random_patterns


def source(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


PATTERNS = random_patterns(3, 40, source())
W = hebbian(PATTERNS)


def test_hebb_is_the_equation() -> None:
    for i in range(5):
        for j in range(5):
            expected = 0.0 if i == j else sum(p[i] * p[j] for p in PATTERNS).item() / 3
            assert W[i, j].item() == pytest.approx(expected)
    assert torch.equal(W, W.T)
    with_self = hebbian(PATTERNS, diagonal=True)
    assert (with_self.diagonal() == 1).all()
    torch.testing.assert_close(hebbian(PATTERNS, "neurons") * 40, W * 3)


def test_energy_is_the_equation() -> None:
    bias = torch.randn(40, generator=source(3), dtype=torch.float64)
    states = random_patterns(4, 40, source(1))
    for state, found in zip(states, energy(W, states, bias), strict=True):
        expected = -0.5 * sum(
            W[i, j] * state[i] * state[j] for i in range(40) for j in range(40)
        ) - sum(bias[i] * state[i] for i in range(40))
        assert found.item() == pytest.approx(float(expected))


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_no_single_update_raises_the_energy(biased: bool, seed: int) -> None:
    """Any symmetric matrix without a diagonal, not only Hebb's; every single step."""
    raw = torch.randn(12, 12, generator=source(seed), dtype=torch.float64)
    w = (raw + raw.T).fill_diagonal_(0.0)
    bias = torch.randn(12, generator=source(9), dtype=torch.float64) if biased else None
    states = random_patterns(8, 12, source(seed + 10))
    recall = recall_async(w, states, bias, generator=source(seed))
    assert recall.settled.all()
    assert (recall.energies.diff(dim=0) <= 1e-12).all()
    for _ in range(3):
        for i in range(12):
            field = states @ w[i] + (0.0 if bias is None else bias[i])
            after = states.clone()
            after[:, i] = torch.where(field >= 0, 1.0, -1.0).double()
            change = energy(w, after, bias) - energy(w, states, bias)
            expected = -(after[:, i] - states[:, i]) * field
            torch.testing.assert_close(change, expected, atol=1e-12, rtol=0)
            assert (change <= 1e-12).all()
            states = after
    # nothing moves any more where the asynchronous dynamics has settled
    assert torch.equal(recall_sync(w, recall.states, bias, 1).states, recall.states)


def test_all_at_once_can_oscillate() -> None:
    w = torch.tensor([[0.0, -1.0], [-1.0, 0.0]], dtype=torch.float64)
    start = torch.ones(1, 2, dtype=torch.float64)
    stuck = recall_sync(w, start, sweeps=7)
    assert not stuck.settled.any() and len(stuck.energies) == 8
    assert torch.equal(recall_sync(w, start, sweeps=2).states, start)
    assert recall_async(w, start, generator=source()).settled.all()


def test_one_after_the_other_can_rise_where_weights_are_not_symmetric() -> None:
    w = torch.tensor([[0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64)
    recall = recall_async(w, torch.ones(1, 2, dtype=torch.float64), sweeps=20, generator=source())
    assert not recall.settled.any()


def test_stored_patterns_and_their_negatives_stay() -> None:
    both = torch.cat([PATTERNS, -PATTERNS])
    for recall in (recall_async(W, both, generator=source()), recall_sync(W, both)):
        assert torch.equal(recall.states, both) and recall.settled.all()
        assert len(recall.energies) == 2
    noisy = flip(PATTERNS, 0.1, source(2))
    assert torch.equal(recall_async(W, noisy, generator=source()).states, PATTERNS)


def test_a_mixture_of_three_is_a_spurious_state() -> None:
    patterns = random_patterns(3, 400, source(1))
    mixture = patterns.sum(0).sign()[None]
    assert torch.equal(recall_sync(hebbian(patterns), mixture).states, mixture)
    assert not any(torch.equal(mixture[0], sign * p) for p in patterns for sign in (1, -1))


def test_letters_come_back() -> None:
    stored = letters("ACX")
    recall = recall_async(hebbian(stored), flip(stored, 0.1, source(0)), generator=source())
    assert torch.equal(recall.states, stored)


def test_hetero_association() -> None:
    names = random_patterns(3, 6, source(5))
    w = hetero_hebbian(PATTERNS, names)
    assert w.shape == (6, 40)
    assert torch.equal((PATTERNS @ w.T).sign(), names)


def test_degree_two_is_hopfield_s() -> None:
    """F(x) = x² gives the field of Hebb's weights without self-connections, step for step."""
    start = random_patterns(6, 40, source(7))
    ours = recall_dense(PATTERNS, start, polynomial(2), 1, source(4))
    theirs = recall_async(hebbian(PATTERNS), start, None, 1, source(4))
    assert torch.equal(ours.states, theirs.states)
    # and its energy is Hebb's up to a scale and a constant
    left = dense_energy(PATTERNS, start, polynomial(2))
    right = 2 * 3 * energy(hebbian(PATTERNS), start) - 3 * 40
    torch.testing.assert_close(left, right)


@pytest.mark.parametrize("interaction", [polynomial(2), polynomial(3), polynomial(4), torch.exp])
def test_dense_energy_never_rises(interaction: Callable[[Tensor], Tensor]) -> None:
    patterns = random_patterns(30, 20, source(3))
    start = random_patterns(10, 20, source(8))
    recall = recall_dense(patterns, start, interaction, generator=source())
    assert recall.settled.all()
    steps = recall.energies.diff(dim=0)
    assert (steps <= 1e-9 * recall.energies.abs().max()).all() and (steps < 0).any()
    expected = -sum(interaction((p * start).sum(1)) for p in patterns)
    torch.testing.assert_close(recall.energies[0], expected)


def test_dense_memories_hold_what_hopfield_s_cannot() -> None:
    patterns = random_patterns(60, 50, source(2))
    kept = {
        name: (recall_dense(patterns, patterns, f, generator=source()).states == patterns)
        .all(1).double().mean().item()
        for name, f in (("2", polynomial(2)), ("4", polynomial(4)), ("exp", torch.exp))
    }  # fmt: skip
    assert kept["2"] < 0.1 and kept["exp"] == 1.0
    assert kept["2"] < kept["4"] <= kept["exp"]


def test_modern_update_is_attention() -> None:
    patterns = torch.randn(7, 5, generator=source(), dtype=torch.float64)
    states = torch.randn(3, 5, generator=source(1), dtype=torch.float64)
    keys = patterns.expand(3, 7, 5)
    for beta in (0.5, 1.0, 5**-0.5, 8.0):
        read = soft_read(dot(keys, states), keys, temperature=1 / beta)
        torch.testing.assert_close(
            modern_update(patterns, states, beta), read.output, atol=1e-13, rtol=0
        )
    assert torch.autograd.gradcheck(
        lambda p, s: modern_update(p, s, 0.7),
        (patterns.requires_grad_(), states.requires_grad_()),
    )


@pytest.mark.parametrize("beta", [0.3, 2.0, 20.0])
def test_modern_energy_never_rises_and_is_the_equation(beta: float) -> None:
    patterns = torch.randn(7, 5, generator=source(), dtype=torch.float64)
    states = torch.randn(3, 5, generator=source(1), dtype=torch.float64)
    first = modern_energy(patterns, states, beta)
    lse = torch.stack([(beta * p * states).sum(1).exp() for p in patterns]).sum(0).log() / beta
    largest = max(float(p @ p) for p in patterns)
    expected = -lse + states.square().sum(1) / 2 + torch.tensor(7.0).double().log() / beta
    torch.testing.assert_close(first, expected + largest / 2)
    for _ in range(20):
        states = modern_update(patterns, states, beta)
        now = modern_energy(patterns, states, beta)
        assert (now <= first + 1e-12).all() and (now >= 0).all()
        first = now


def test_gradcheck_of_energies() -> None:
    states = random_patterns(3, 5, source()).double()
    w, bias = (
        torch.randn(*size, generator=source(1), dtype=torch.float64).requires_grad_()
        for size in ((5, 5), (5,))
    )
    assert torch.autograd.gradcheck(lambda w: energy(w, states), (w,))
    assert torch.autograd.gradcheck(lambda w, bias: energy(w, states, bias), (w, bias))
    patterns = torch.randn(7, 5, generator=source(2), dtype=torch.float64).requires_grad_()
    real = torch.randn(3, 5, generator=source(3), dtype=torch.float64).requires_grad_()
    mask = torch.tensor([True] * 5 + [False] * 2)
    rows = torch.tensor([[True, False] * 3 + [True], [False, True] * 3 + [False], [True] * 7])
    for seen in (None, mask, rows):
        for call in (modern_energy, modern_update):
            assert torch.autograd.gradcheck(
                lambda p, s, call=call, seen=seen: call(p, s, 0.7, seen), (patterns, real)
            )


@pytest.mark.parametrize("rubbish", [1e3, math.nan])
@pytest.mark.parametrize("call", [modern_update, modern_energy])
def test_modern_memory_padding_changes_nothing(call: Callable[..., Tensor], rubbish: float) -> None:
    patterns = torch.randn(6, 5, generator=source(), dtype=torch.float64).requires_grad_()
    states = torch.randn(3, 5, generator=source(1), dtype=torch.float64).requires_grad_()
    mask = torch.tensor([True] * 4 + [False] * 2)
    padded = patterns.detach().clone()
    padded[~mask] = rubbish
    padded.requires_grad_()
    alone = call(patterns[:4], states, 0.7)
    for shown in (mask, mask.expand(3, 6)):
        found = call(padded, states, 0.7, shown)
        torch.testing.assert_close(found, alone, atol=1e-14, rtol=0)
        got = torch.autograd.grad(found.square().sum(), (padded, states))
        wanted = torch.autograd.grad(alone.square().sum(), (patterns, states), retain_graph=True)
        for one, other in zip(got, wanted, strict=True):
            torch.testing.assert_close(one, other, atol=1e-13, rtol=0)


def test_each_state_may_have_patterns_of_its_own() -> None:
    patterns = torch.randn(4, 5, generator=source(), dtype=torch.float64)
    states = torch.randn(2, 5, generator=source(1), dtype=torch.float64)
    mask = torch.tensor([[True, True, False, False], [False, True, True, True]])
    for call in (modern_update, modern_energy):
        found = call(patterns, states, 0.7, mask)
        for b in range(2):
            alone = call(patterns[mask[b]], states[b : b + 1], 0.7)
            torch.testing.assert_close(found[b : b + 1], alone, atol=1e-14, rtol=0)


@pytest.mark.parametrize("rubbish", [1.0, 7.0, math.nan])
def test_dense_memory_padding_changes_nothing(rubbish: float) -> None:
    patterns, cues = random_patterns(8, 20, source()), random_patterns(5, 20, source(1))
    mask = torch.arange(8) < 6
    padded = patterns.clone()
    padded[~mask] = rubbish
    for f in (polynomial(3), torch.exp):
        alone = recall_dense(patterns[:6], cues, f, generator=source(2))
        found = recall_dense(padded, cues, f, generator=source(2), mask=mask)
        assert torch.equal(found.states, alone.states)
        assert torch.equal(found.settled, alone.settled)
        torch.testing.assert_close(found.energies, alone.energies)
        torch.testing.assert_close(dense_energy(padded, cues, f, mask), alone.energies[0])
        own = mask[None] & (torch.arange(8) != torch.arange(5)[:, None])
        each = recall_dense(padded, cues, f, generator=source(2), mask=own)
        for b in range(5):
            one = recall_dense(patterns[own[b]], cues[b : b + 1], f, generator=source(2))
            assert torch.equal(each.states[b], one.states[0])


HALF = torch.full((1, 40), 0.5)
NO_FUNCTION: Any = None
NOTHING = torch.zeros(len(PATTERNS), dtype=torch.bool)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: hebbian(HALF), r"patterns: must hold -1.0 and \+1.0 only"),
        (lambda: hebbian(PATTERNS.long()), "patterns: must hold"),
        (lambda: hebbian(PATTERNS[:0]), "patterns has shape"),
        (lambda: hebbian(PATTERNS[0]), "patterns has shape"),
        (lambda: hebbian(PATTERNS, "neuron"), "scale='neuron'"),
        (lambda: hetero_hebbian(PATTERNS, PATTERNS[:2]), "values has shape"),
        (lambda: energy(W[1:], PATTERNS), "w has shape"),
        (lambda: energy(W, PATTERNS, W), "bias has shape"),
        (lambda: recall_async(W, HALF.double()), "states: must hold"),
        (lambda: recall_sync(W, PATTERNS, sweeps=0), "sweeps=0"),
        (lambda: polynomial(1), "degree=1"),
        (lambda: recall_dense(PATTERNS, PATTERNS[:, 1:], torch.exp), "states has shape"),
        (lambda: recall_dense(random_patterns(2, 800, source()), random_patterns(1, 800, source()),
                              torch.exp), "interaction: overflows at overlap 800"),
        (lambda: energy(W.float(), PATTERNS.double()), "w has dtype torch.float32"),
        (lambda: energy(W, PATTERNS, W[0].half()), "bias has dtype torch.float16"),
        (lambda: hetero_hebbian(PATTERNS, PATTERNS.half()), "values has dtype torch.float16"),
        (lambda: recall_dense(PATTERNS, PATTERNS, NO_FUNCTION), "interaction=None: must be a fun"),
        (lambda: dense_energy(PATTERNS, PATTERNS, NO_FUNCTION), "interaction=None: must be a fun"),
        (lambda: recall_dense(PATTERNS, PATTERNS.half(), torch.exp), "states has dtype"),
        (lambda: recall_dense(PATTERNS, PATTERNS, torch.exp, mask=NOTHING), "mask is all False"),
        (lambda: modern_update(PATTERNS, PATTERNS.half()), "states has dtype"),
        (lambda: modern_update(PATTERNS, PATTERNS, mask=NOTHING), "mask is all False"),
        (lambda: modern_energy(PATTERNS, PATTERNS, mask=NOTHING.float()), "mask has dtype"),
        (lambda: modern_energy(PATTERNS, PATTERNS, mask=NOTHING[1:]), "mask has shape"),
        (lambda: modern_update(PATTERNS, PATTERNS, 0.0), "beta=0.0: must be above 0"),
        (lambda: modern_update(PATTERNS, PATTERNS, -1.0), "beta=-1.0"),
        (lambda: modern_update(PATTERNS[:0], PATTERNS), "needs a pattern"),
        (lambda: modern_update(PATTERNS, PATTERNS[:, 1:]), "states has shape"),
    ],
)  # fmt: skip
def test_errors_name_the_argument(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
