"""Each score against an explicit loop over its equation, and its gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
import torch
from torch import Tensor

from sab.ops.scores import additive, bilinear, dot, scaled_dot, separable

B, M, N, P, D = 2, 4, 3, 5, 6


def draw(*size: int, seed: int = 0) -> Tensor:
    source = torch.Generator().manual_seed(seed + sum(size))
    return torch.randn(*size, generator=source, dtype=torch.float64).requires_grad_()


MEMORIES = draw(B, M, N)
Q_SAME, Q_OTHER = draw(B, N, seed=1), draw(B, P, seed=2)
W1, W2, W3 = draw(D, N, seed=3), draw(D, P, seed=4), draw(D, seed=5)
W, W_MEMORY, W_QUERY = draw(N, P, seed=6), draw(N, seed=7), draw(P, seed=8)

Score = Callable[..., Tensor]


def total(terms: Iterable[Tensor]) -> Tensor:
    return sum(terms, torch.zeros((), dtype=torch.float64))


CASES: dict[str, tuple[Score, tuple[Tensor, ...], Score]] = {
    # name: (function, its arguments, the same for one memory m and one query q)
    "additive": (
        additive,
        (MEMORIES, Q_OTHER, W1, W2, W3),
        lambda m, q: total(
            W3[j] * torch.tanh(total(W1[j] * m) + total(W2[j] * q)) for j in range(D)
        ),
    ),
    "dot": (dot, (MEMORIES, Q_SAME), lambda m, q: total(m * q)),
    "scaled_dot": (scaled_dot, (MEMORIES, Q_SAME), lambda m, q: total(m * q) / N**0.5),
    "bilinear": (
        bilinear,
        (MEMORIES, Q_OTHER, W),
        lambda m, q: total(m[i] * W[i, j] * q[j] for i in range(N) for j in range(P)),
    ),
    "separable": (
        separable,
        (MEMORIES, Q_OTHER, W_MEMORY, W_QUERY),
        lambda m, q: total(W_MEMORY[i] * torch.tanh(m[i]) for i in range(N))
        + total(W_QUERY[j] * torch.tanh(q[j]) for j in range(P)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values_are_the_equation_s(name: str) -> None:
    function, arguments, equation = CASES[name]
    scores = function(*arguments)
    memories, query = (v.detach() for v in arguments[:2])
    with torch.no_grad():
        expected = torch.tensor(
            [[equation(memories[b, i], query[b]).item() for i in range(M)] for b in range(B)],
            dtype=torch.float64,
        )
    torch.testing.assert_close(scores.detach(), expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", CASES)
def test_gradient_is_the_values_(name: str) -> None:
    function, arguments, _ = CASES[name]
    assert torch.autograd.gradcheck(function, arguments)


@pytest.mark.parametrize("name", CASES)
def test_no_memories_give_no_scores(name: str) -> None:
    function, (memories, *rest), _ = CASES[name]
    assert function(memories[:, :0], *rest).shape == (B, 0)


def test_separable_cannot_ask_a_question() -> None:
    """The query moves all scores by the same amount (discrepancy D1); the additive score's order
    can change.
    """
    other = draw(B, P, seed=20)
    shift = separable(MEMORIES, other, W_MEMORY, W_QUERY) - separable(*CASES["separable"][1])
    torch.testing.assert_close(shift, shift[:, :1].expand(-1, M), rtol=0, atol=1e-14)
    moved = additive(MEMORIES, other, W1, W2, W3) - additive(*CASES["additive"][1])
    assert (moved - moved[:, :1]).abs().max() > 0.1


@pytest.mark.parametrize(
    ("call", "name", "wanted"),
    [
        (lambda: dot(MEMORIES[0], Q_SAME), "memories", "(any, any, any)"),
        (lambda: dot(MEMORIES, Q_SAME[0]), "query", "(2, any)"),
        (lambda: dot(MEMORIES, Q_SAME[:1]), "query", "(2, any)"),
        (lambda: dot(MEMORIES, Q_OTHER), "query", "(2, 3)"),
        (lambda: scaled_dot(MEMORIES, Q_OTHER), "query", "(2, 3)"),
        (lambda: additive(MEMORIES, Q_OTHER, W2, W2, W3), "w1", "(any, 3)"),
        (lambda: additive(MEMORIES, Q_OTHER, W1, W1, W3), "w2", "(6, 5)"),
        (lambda: additive(MEMORIES, Q_OTHER, W1, W2, W3[1:]), "w3", "(6)"),
        (lambda: bilinear(MEMORIES, Q_OTHER, W.T), "w", "(3, 5)"),
        (lambda: separable(MEMORIES, Q_OTHER, W_QUERY, W_QUERY), "w_memory", "(3)"),
        (lambda: separable(MEMORIES, Q_OTHER, W_MEMORY, W_MEMORY), "w_query", "(5)"),
    ],
)  # fmt: skip
def test_wrong_shapes_are_refused(call: Callable[[], Tensor], name: str, wanted: str) -> None:
    with pytest.raises(ValueError) as error:
        call()
    assert str(error.value).startswith(f"{name} has shape (")
    assert str(error.value).endswith(f"must be {wanted}")
