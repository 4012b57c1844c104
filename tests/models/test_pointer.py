"""The pointer network against its equation; masks and padding."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from sab.models.pointer import Pointer, PointerConfig
from sab.ops.scores import additive


def model(input_size: int = 2, **settings: bool) -> Pointer:
    torch.manual_seed(0)
    return Pointer(PointerConfig(input_size=input_size, hidden_size=6, **settings)).double()


def draw(*size: int, seed: int = 0) -> Tensor:
    source = torch.Generator().manual_seed(seed)
    return torch.rand(*size, generator=source, dtype=torch.float64)


X = draw(3, 5, 2)
TARGETS = torch.tensor([[4, 0, 2, 1, 3], [0, 1, 2, 3, 4], [3, 4, 1, 0, 2]])


def test_logits_are_additive_scores_of_the_states() -> None:
    pointer = model(distinct=False)
    logits, _ = pointer(X, TARGETS)
    states, state = pointer.encoder(X)
    told = pointer.start.expand(3, 1, -1)
    for m in range(5):
        hidden, state = pointer.decoder(told, state)
        expected = additive(states, hidden[:, 0], pointer.w.weight, pointer.u.weight, pointer.v)
        torch.testing.assert_close(logits[:, m], expected, atol=1e-12, rtol=0)
        told = X[torch.arange(3), TARGETS[:, m]][:, None]


def test_told_its_own_choices_it_says_the_same() -> None:
    for distinct in (True, False):
        pointer = model(distinct=distinct)
        free, _ = pointer(X)
        told, _ = pointer(X, free.argmax(-1))
        torch.testing.assert_close(free, told, atol=1e-12, rtol=0)


def test_nothing_is_pointed_at_twice() -> None:
    free, _ = model()(X)
    assert (free.argmax(-1).sort(1).values == torch.arange(5)).all()
    told, _ = model()(X, TARGETS)
    for m in range(5):
        for before in TARGETS[:, :m].T:
            assert (told[torch.arange(3), m, before] == -math.inf).all()
    assert torch.isfinite(told[:, 0]).all()


LENGTHS = torch.tensor([5, 3, 4])
SHORT = torch.tensor([[4, 0, 2, 1, 3], [0, 2, 1, 4, 0], [3, 0, 1, 2, 2]])  # rubbish in the padding


@pytest.mark.parametrize("rubbish", [1e3, math.nan])
@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("distinct", [False, True])
def test_padding_changes_nothing(rubbish: float, told: bool, distinct: bool) -> None:
    """Neither an answer nor a gradient, whether it is told the right past or its own."""
    pointer, single = model(distinct=distinct), model(distinct=distinct)
    poisoned = X.clone()
    for b, n in enumerate(LENGTHS.tolist()):
        poisoned[b, n:] = rubbish
    poisoned.requires_grad_()
    together, _ = pointer(poisoned, SHORT if told else None, LENGTHS)
    loss = torch.zeros((), dtype=torch.float64)
    for b, n in enumerate(LENGTHS.tolist()):
        alone, _ = single(X[b : b + 1, :n], SHORT[b : b + 1, :n] if told else None)
        torch.testing.assert_close(together[b, :n, :n], alone[0], atol=1e-12, rtol=0)
        assert (together[b, :n, n:] == -math.inf).all()
        reached = alone[0].isfinite()
        alone[0][reached].square().sum().backward()
        loss = loss + together[b, :n, :n][reached].square().sum()
    loss.backward()
    for (name, one), other in zip(pointer.named_parameters(), single.parameters(), strict=True):
        assert one.grad is not None and other.grad is not None, name
        torch.testing.assert_close(one.grad, other.grad, atol=1e-11, rtol=0)
    assert poisoned.grad is not None and poisoned.grad.isfinite().all()
    for b, n in enumerate(LENGTHS.tolist()):
        assert (poisoned.grad[b, n:] == 0).all()


def test_a_choice_depends_on_the_past_only() -> None:
    pointer = model(distinct=False)
    changed = TARGETS.clone()
    changed[:, 2] = (changed[:, 2] + 1) % 5
    before, after = pointer(X, TARGETS)[0], pointer(X, changed)[0]
    assert torch.equal(before[:, :3], after[:, :3]) and not torch.equal(before[:, 3], after[:, 3])


def test_every_weight_learns() -> None:
    pointer = model()
    logits, _ = pointer(X, TARGETS)
    torch.nn.functional.cross_entropy(logits.flatten(0, 1), TARGETS.flatten()).backward()
    for name, parameter in pointer.named_parameters():
        assert parameter.grad is not None and (parameter.grad != 0).any(), name
        assert parameter.grad.isfinite().all(), name


def test_the_same_weights_point_into_inputs_of_any_length() -> None:
    for count in (1, 2, 9):
        assert model()(draw(2, count, 2))[0].shape == (2, count, count)


def test_errors() -> None:
    with pytest.raises(ValueError, match="hidden_size=0"):
        PointerConfig(hidden_size=0)
    with pytest.raises(ValueError, match="x has shape"):
        model()(X[..., :1])
    with pytest.raises(ValueError, match="targets has shape"):
        model()(X, TARGETS[:, 1:])
    with pytest.raises(ValueError, match="targets: must be between 0 and 4"):
        model()(X, TARGETS + 1)
    with pytest.raises(ValueError, match=r"targets has dtype torch\.float64: must be torch\.int64"):
        model()(X, TARGETS.double())
    with pytest.raises(ValueError, match="targets: must not point at padding"):
        model()(X, TARGETS, LENGTHS)
    with pytest.raises(ValueError, match=r"lengths has dtype torch\.float32"):
        model()(X, lengths=LENGTHS.float())
    with pytest.raises(ValueError, match="lengths="):
        model()(X, lengths=torch.tensor([1, 2, 6]))
