"""Addressing against loops over the equations of Graves et al. 2014; gradients, edges, errors."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from sab.ops import addressing as ops

B, H, N, W = 2, 3, 5, 4


def draw(*size: int, seed: int = 0) -> Tensor:
    source = torch.Generator().manual_seed(seed + sum(size))
    return torch.randn(*size, generator=source, dtype=torch.float64).requires_grad_()


def shares(*size: int, seed: int = 0) -> Tensor:
    return torch.softmax(draw(*size, seed=seed).detach(), -1).requires_grad_()


MEMORY, KEYS = draw(B, N, W), draw(B, H, W)
STRENGTHS = draw(B, H).detach().abs().requires_grad_()
GATE = torch.sigmoid(draw(B, H, seed=1).detach()).requires_grad_()
WEIGHTS, SHIFTS = shares(B, H, N), shares(B, H, 3)
SHARPNESS = (1 + draw(B, H, seed=2).detach().abs()).requires_grad_()
ERASE, ADD = torch.sigmoid(draw(B, H, W).detach()).requires_grad_(), draw(B, H, W, seed=3)


def test_content_is_equations_5_and_6() -> None:
    found = ops.content_weights(MEMORY, KEYS, STRENGTHS)
    for b in range(B):
        for h in range(H):
            scores = []
            for n in range(N):
                m, k = MEMORY[b, n].detach(), KEYS[b, h].detach()
                norms = math.sqrt(float(m @ m) + ops.TINY) * math.sqrt(float(k @ k) + ops.TINY)
                scores.append(math.exp(STRENGTHS[b, h].item() * float(m @ k) / norms))
            for n in range(N):
                assert found[b, h, n].item() == pytest.approx(scores[n] / sum(scores), abs=1e-12)


def test_content_by_hand() -> None:
    memory = torch.tensor([[[2.0, 0.0], [0.0, 3.0], [0.0, 0.0]]])
    keys = torch.tensor([[[5.0, 0.0]]])
    likeness = ops.cosine_similarity(memory, keys)[0, 0]
    torch.testing.assert_close(likeness, torch.tensor([1.0, 0.0, 0.0]), atol=1e-6, rtol=0)
    sharp = ops.content_weights(memory, keys, torch.tensor([[100.0]]))[0, 0]
    torch.testing.assert_close(sharp, torch.tensor([1.0, 0.0, 0.0]), atol=1e-6, rtol=0)
    uniform = ops.content_weights(memory, keys, torch.zeros(1, 1))[0, 0]
    torch.testing.assert_close(uniform, torch.full((3,), 1 / 3))


def test_an_empty_memory_is_read_evenly_and_has_a_finite_gradient() -> None:
    memory = torch.zeros(1, 4, 3, requires_grad=True)
    keys = torch.zeros(1, 1, 3, requires_grad=True)
    weights = ops.content_weights(memory, keys, torch.ones(1, 1))
    torch.testing.assert_close(weights, torch.full((1, 1, 4), 0.25))
    for gradient in torch.autograd.grad(weights[0, 0, 0], [memory, keys]):
        assert gradient.isfinite().all()


def test_masked_slots_get_nothing() -> None:
    mask = torch.tensor([[True, True, False, False, True], [False, True, True, True, True]])
    found = ops.content_weights(MEMORY, KEYS, STRENGTHS, mask)
    assert (found[~mask[:, None].expand_as(found)] == 0).all()
    torch.testing.assert_close(found.sum(-1), torch.ones(B, H, dtype=torch.float64))
    dirty = torch.where(mask[..., None], MEMORY, 1e6).detach()
    torch.testing.assert_close(ops.content_weights(dirty, KEYS, STRENGTHS, mask), found)
    (gradient,) = torch.autograd.grad((found * WEIGHTS).sum(), MEMORY)
    assert (gradient[~mask] == 0).all() and (gradient[mask] != 0).any()


def test_interpolation_is_equation_7() -> None:
    other = shares(B, H, N, seed=4)
    found = ops.interpolate(WEIGHTS, other, GATE)
    g = GATE[..., None]
    torch.testing.assert_close(found, g * WEIGHTS + (1 - g) * other, atol=1e-15, rtol=0)


@pytest.mark.parametrize("moves", [1, 3, 5])
def test_shift_is_equation_8(moves: int) -> None:
    shifts = shares(B, H, moves, seed=5)
    found = ops.shift(WEIGHTS, shifts)
    reach = moves // 2
    for i in range(N):
        expected = sum(
            shifts[..., j + reach] * WEIGHTS[..., (i - j) % N] for j in range(-reach, reach + 1)
        )
        torch.testing.assert_close(found[..., i], expected, atol=1e-15, rtol=0)


def test_shift_moves_forward_and_round_the_end() -> None:
    at_the_end = torch.eye(N)[None, -1:]
    forward = torch.tensor([[[0.0, 0.0, 1.0]]])
    assert torch.equal(ops.shift(at_the_end, forward), torch.eye(N)[None, :1])
    back = ops.shift(ops.shift(at_the_end, forward), forward.flip(-1))
    assert torch.equal(back, at_the_end)


def test_sharpening_is_equation_9() -> None:
    found = ops.sharpen(WEIGHTS, SHARPNESS)
    powers = WEIGHTS ** SHARPNESS[..., None]
    torch.testing.assert_close(found, powers / powers.sum(-1, keepdim=True), atol=1e-10, rtol=0)
    torch.testing.assert_close(ops.sharpen(WEIGHTS, torch.ones(B, H)), WEIGHTS, atol=1e-6, rtol=0)
    huge = ops.sharpen(WEIGHTS, torch.full((B, H), 1e4))  # where a power would underflow
    assert torch.equal(huge.argmax(-1), WEIGHTS.argmax(-1)) and huge.isfinite().all()


def test_writing_erases_then_adds() -> None:
    found = ops.write(MEMORY, WEIGHTS, ERASE, ADD)
    for n in range(N):
        kept = MEMORY[:, n]
        for h in range(H):
            kept = kept * (1 - WEIGHTS[:, h, n, None] * ERASE[:, h])
        added = sum(WEIGHTS[:, h, n, None] * ADD[:, h] for h in range(H))
        torch.testing.assert_close(found[:, n], kept + added, atol=1e-14, rtol=0)


def test_what_was_written_is_read_back() -> None:
    place = torch.eye(N, dtype=torch.float64)[2].expand(B, 1, N)
    whole = torch.ones(B, 1, W, dtype=torch.float64)
    memory = ops.write(MEMORY, place, whole, ADD[:, :1])
    torch.testing.assert_close(ops.read(memory, place), ADD[:, :1], atol=1e-14, rtol=0)
    others = [n for n in range(N) if n != 2]
    assert torch.equal(memory[:, others], MEMORY[:, others])


@pytest.mark.parametrize(
    ("call", "inputs"),
    [
        (ops.cosine_similarity, (MEMORY, KEYS)),
        (ops.content_weights, (MEMORY, KEYS, STRENGTHS)),
        (ops.interpolate, (WEIGHTS, shares(B, H, N, seed=4), GATE)),
        (
            lambda m, k, s: ops.content_weights(
                m, k, s, torch.tensor([[True, True, False, False, True]] * B)
            ),
            (MEMORY, KEYS, STRENGTHS),
        ),
        (ops.shift, (WEIGHTS, SHIFTS)),
        (ops.sharpen, (WEIGHTS, SHARPNESS)),
        (ops.read, (MEMORY, WEIGHTS)),
        (ops.write, (MEMORY, WEIGHTS, ERASE, ADD)),
    ],
)
def test_gradcheck(call: Callable[..., Tensor], inputs: tuple[Tensor, ...]) -> None:
    assert gradcheck(call, inputs)


def zeros(*size: int) -> Tensor:
    return torch.zeros(*size)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ops.cosine_similarity(zeros(2, 5), zeros(2, 1, 4)), "memory has shape (2, 5)"),
        (lambda: ops.cosine_similarity(zeros(2, 5, 4), zeros(2, 1, 3)), "keys has shape (2, 1, 3)"),
        (lambda: ops.content_weights(MEMORY, KEYS, zeros(B, 1)), "strengths has shape (2, 1)"),
        (lambda: ops.content_weights(MEMORY, KEYS, -STRENGTHS), "strengths=-"),
        (lambda: ops.content_weights(MEMORY, KEYS, STRENGTHS * torch.nan), "strengths=nan"),
        (
            lambda: ops.content_weights(MEMORY, KEYS, STRENGTHS, zeros(B, N).bool()),
            "mask is all False in row (0, 0)",
        ),
        (
            lambda: ops.content_weights(MEMORY, KEYS, STRENGTHS, zeros(B, 1).bool()),
            "mask has shape (2, 1)",
        ),
        (lambda: ops.interpolate(WEIGHTS, zeros(B, H, 4), GATE), "previous has shape"),
        (lambda: ops.interpolate(WEIGHTS, WEIGHTS, zeros(B, 1)), "gate has shape (2, 1)"),
        (lambda: ops.shift(WEIGHTS, zeros(B, H, 2)), "shifts has 2 moves: must be an odd number"),
        (lambda: ops.shift(WEIGHTS, zeros(B, H, 7)), "shifts has 7 moves: must be an odd number"),
        (lambda: ops.shift(WEIGHTS, zeros(B, 1, 3)), "shifts has shape (2, 1, 3)"),
        (lambda: ops.sharpen(WEIGHTS, SHARPNESS - 1), "sharpness="),
        (lambda: ops.read(MEMORY, zeros(B, H, 4)), "weights has shape (2, 3, 4)"),
        (lambda: ops.write(MEMORY, WEIGHTS, ERASE[:, :1], ADD), "erase has shape (2, 1, 4)"),
        (lambda: ops.write(MEMORY, WEIGHTS, ERASE, ADD[..., :1]), "add has shape (2, 3, 1)"),
    ],
)
def test_errors(call: Callable[[], Tensor], message: str) -> None:
    with pytest.raises(ValueError) as error:
        call()
    assert str(error.value).startswith(message)
