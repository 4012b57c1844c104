"""The memory management of Graves et al. 2016 against loops over its equations."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from sab.ops import allocation as ops

B, R, N = 2, 2, 4


def uniform(*size: int, seed: int = 0) -> Tensor:
    source = torch.Generator().manual_seed(seed + sum(size))
    return torch.rand(*size, generator=source, dtype=torch.float64).requires_grad_()


def weights(*size: int, seed: int = 0) -> Tensor:
    return torch.softmax(3 * uniform(*size, seed=seed).detach(), -1).requires_grad_()


FREE, READING = uniform(B, R), weights(B, R, N)
USAGE, WRITING, KEPT = uniform(B, N, seed=1), weights(B, N, seed=2), uniform(B, N, seed=3)
LINKS, BEFORE = 0.2 * uniform(B, N, N).detach(), weights(B, N, seed=4)


def test_usage() -> None:
    kept = ops.retention(FREE, READING)
    found = ops.used(USAGE, WRITING, KEPT)
    for b in range(B):
        for n in range(N):
            product = 1.0
            for r in range(R):
                product *= 1 - FREE[b, r].item() * READING[b, r, n].item()
            assert kept[b, n].item() == pytest.approx(product)
            u, w = USAGE[b, n].item(), WRITING[b, n].item()
            assert found[b, n].item() == pytest.approx((u + w - u * w) * KEPT[b, n].item())


def test_allocation_is_equation_1() -> None:
    found = ops.allocation(USAGE)
    for b in range(B):
        before = 1.0
        for n in sorted(range(N), key=lambda n: USAGE[b, n].item()):
            u = USAGE[b, n].item()
            assert found[b, n].item() == pytest.approx((1 - u) * before, abs=1e-5)
            before *= u


def test_the_freest_slot_is_taken_first_and_a_full_memory_gives_none() -> None:
    taken = ops.allocation(torch.tensor([[1.0, 0.0, 0.0, 1.0], [1.0, 1.0, 1.0, 1.0]]))
    torch.testing.assert_close(taken[0], torch.tensor([0.0, 1.0, 0.0, 0.0]), atol=1e-5, rtol=0)
    assert taken[1].sum() < 1e-5


def test_links_follow_the_order_of_writing() -> None:
    """Written to 2, 0, 3: reading moves 2 → 0 → 3 forward, and back again."""
    links, before = torch.zeros(1, N, N), torch.zeros(1, N)
    for slot in (2, 0, 3):
        writing = torch.eye(N)[slot][None]
        links = ops.link(links, before, writing)
        before = ops.precedence(before, writing)
    at = torch.eye(N)[2].view(1, 1, N)
    there = ops.follow(links, ops.follow(links, at, "forward"), "forward")
    assert torch.equal(there[0, 0], torch.eye(N)[3])
    again = ops.follow(links, ops.follow(links, there, "backward"), "backward")
    assert torch.equal(again, at)
    assert torch.equal(before[0], torch.eye(N)[3])
    assert not ops.follow(links, there, "forward").any()  # nothing came after


def test_link_and_precedence_are_the_equations() -> None:
    links, before = ops.link(LINKS, BEFORE, WRITING), ops.precedence(BEFORE, WRITING / 2)
    for b in range(B):
        w, p = WRITING[b].tolist(), BEFORE[b].tolist()
        for i in range(N):
            assert before[b, i].item() == pytest.approx((1 - sum(w) / 2) * p[i] + w[i] / 2)
            for j in range(N):
                expected = (1 - w[i] - w[j]) * LINKS[b, i, j].item() + w[i] * p[j]
                assert links[b, i, j].item() == pytest.approx(0.0 if i == j else expected)


@pytest.mark.parametrize(
    ("call", "inputs"),
    [
        (ops.retention, (FREE, READING)),
        (ops.used, (USAGE, WRITING, KEPT)),
        (ops.allocation, (USAGE,)),
        (ops.precedence, (BEFORE, WRITING)),
        (ops.link, (LINKS.requires_grad_(), BEFORE, WRITING)),
        (lambda links, w: ops.follow(links, w, "forward"), (LINKS, READING)),
        (lambda links, w: ops.follow(links, w, "backward"), (LINKS, READING)),
    ],
)
def test_gradcheck(call: Callable[..., Tensor], inputs: tuple[Tensor, ...]) -> None:
    assert gradcheck(call, inputs)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ops.retention(FREE[:, :1], READING), "free has shape (2, 1)"),
        (lambda: ops.retention(FREE[:, :0], READING[:, :0]), "reading has shape (2, 0, 4): needs"),
        (lambda: ops.used(USAGE, WRITING[:, :2], KEPT), "writing has shape (2, 2)"),
        (lambda: ops.allocation(USAGE + 1), "usage: must be from 0 to 1"),
        (lambda: ops.allocation(USAGE[0]), "usage has shape (4,)"),
        (lambda: ops.precedence(BEFORE, WRITING[:1]), "writing has shape (1, 4)"),
        (lambda: ops.link(LINKS[:, :2], BEFORE, WRITING), "links has shape (2, 2, 4)"),
        (lambda: ops.follow(LINKS, READING, "up"), "way='up': must be one of"),
        (lambda: ops.follow(LINKS, torch.tensor(1.0), "forward"), "reading has shape ()"),
        (lambda: ops.follow(LINKS, READING[..., :2], "forward"), "links has shape (2, 4, 4)"),
    ],
)
def test_errors(call: Callable[[], Tensor], message: str) -> None:
    with pytest.raises(ValueError) as error:
        call()
    assert str(error.value).startswith(message)
