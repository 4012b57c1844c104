"""Attention against loops over its equations; masks, hard reads and their gradient."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from sab.ops.attention import (
    argmax_read,
    attention_weights,
    causal_mask,
    log_weights,
    padding_mask,
    reinforce_loss,
    sampled_read,
    scaled_dot_product,
    soft_read,
)
from sab.ops.scores import additive, bilinear, dot, scaled_dot

B, N, D, V = 3, 5, 4, 2
MASK = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 1, 0, 1, 0]], dtype=torch.bool)


def draw(*size: int, seed: int = 0) -> Tensor:
    source = torch.Generator().manual_seed(seed + sum(size))
    return torch.randn(*size, generator=source, dtype=torch.float64).requires_grad_()


SCORES, VALUES = draw(B, N), draw(B, N, V, seed=1)


def test_the_worked_example() -> None:
    x = torch.tensor([[[2.0, 0.0], [0.0, 2.0], [1.0, 1.0]]])
    output, weights = soft_read(dot(x, torch.tensor([[1.0, 0.0]])), x)
    torch.testing.assert_close(weights[0], torch.tensor([0.665, 0.090, 0.245]), atol=5e-4, rtol=0)
    torch.testing.assert_close(output[0], torch.tensor([1.575, 0.425]), atol=5e-4, rtol=0)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0])
def test_soft_read_is_the_equation(temperature: float) -> None:
    output, weights = soft_read(SCORES, VALUES, MASK, temperature)
    for b in range(B):
        kept = [n for n in range(N) if MASK[b, n]]
        total = sum(math.exp(SCORES[b, n].item() / temperature) for n in kept)
        alpha = {n: math.exp(SCORES[b, n].item() / temperature) / total for n in kept}
        for n in range(N):
            assert weights[b, n].item() == pytest.approx(alpha.get(n, 0.0), abs=1e-14)
        expected = sum(alpha[n] * VALUES[b, n].detach() for n in kept)
        torch.testing.assert_close(output[b].detach(), expected, atol=1e-14, rtol=0)


def test_every_score_can_be_read_through() -> None:
    memories, query = draw(B, N, D), draw(B, D)
    w1, w2, w3 = draw(6, D, seed=2), draw(6, D, seed=3), draw(6, seed=4)
    w = draw(D, D, seed=5)
    calls: list[Callable[..., Tensor]] = [
        lambda m, q: soft_read(dot(m, q), m, MASK).output,
        lambda m, q: soft_read(scaled_dot(m, q), m, MASK).output,
        lambda m, q: soft_read(bilinear(m, q, w), m, MASK).output,
        lambda m, q: soft_read(additive(m, q, w1, w2, w3), m, MASK).output,
    ]
    for call in calls:
        assert gradcheck(call, (memories, query))


def test_gradcheck() -> None:
    assert gradcheck(lambda s, v: soft_read(s, v, MASK, 0.7).output, (SCORES, VALUES))
    q, k, v = draw(2, 3, 4, 2), draw(2, 3, 5, 2), draw(2, 3, 5, 3)
    assert gradcheck(lambda *a: scaled_dot_product(*a).output, (q, k, v))
    square = causal_mask(4)
    assert gradcheck(lambda q, v: scaled_dot_product(q, q, v, square).output, (q, draw(2, 3, 4, 3)))
    assert gradcheck(lambda s: sampled_read(
        s, VALUES, MASK, generator=torch.Generator().manual_seed(0)).log_probability, (SCORES,)
    )  # fmt: skip


@pytest.mark.parametrize(
    ("call", "inputs"),
    [
        (lambda s: attention_weights(s, None, 0.7), (SCORES,)),
        (lambda s: attention_weights(s, MASK, 0.7), (SCORES,)),
        (lambda s: log_weights(s, None, 0.7), (SCORES,)),
        (lambda s: log_weights(s, MASK)[MASK], (SCORES,)),  # -inf has no finite difference
        (lambda s: argmax_read(s, VALUES, MASK).log_probability, (SCORES,)),
        (lambda v: argmax_read(SCORES, v, MASK).output, (VALUES,)),
        (lambda p: reinforce_loss(p, VALUES[0, :, 0], VALUES[0, :, 1]), (SCORES[0],)),
        (lambda p: reinforce_loss(p, VALUES[0, :, 0], 0.3), (SCORES[0],)),
    ],
)
def test_gradcheck_of_weights_and_hard_reads(
    call: Callable[..., Tensor], inputs: tuple[Tensor, ...]
) -> None:
    assert gradcheck(call, tuple(part.detach().requires_grad_() for part in inputs))


def test_scores_that_are_nan_or_all_minus_infinity_give_nan() -> None:
    """They are not refused: to look at them costs, and a run that diverges has to get that far."""
    for bad in (math.nan, -math.inf):
        weights = attention_weights(torch.tensor([[bad, bad], [0.0, 1.0]]))
        assert weights[0].isnan().all() and weights[1].isfinite().all()
    assert attention_weights(torch.tensor([-math.inf, 0.0])).tolist() == [0.0, 1.0]


def test_what_is_masked_neither_counts_nor_learns() -> None:
    values = VALUES.detach().clone()
    scores = SCORES.detach().clone()
    values[~MASK], scores[~MASK] = 1e30, 1e30
    values.requires_grad_(), scores.requires_grad_()
    output, weights = soft_read(scores, values, MASK)
    assert torch.equal(output, soft_read(SCORES, VALUES, MASK).output)
    output.square().sum().backward()
    assert scores.grad is not None and values.grad is not None
    assert (weights[~MASK] == 0).all()
    assert (scores.grad[~MASK] == 0).all() and (values.grad[~MASK] == 0).all()
    assert scores.grad.isfinite().all() and (scores.grad[MASK] != 0).any()


def test_memory_order_does_not_matter() -> None:
    turn = torch.randperm(N, generator=torch.Generator().manual_seed(0))
    moved = soft_read(SCORES[:, turn], VALUES[:, turn]).output
    torch.testing.assert_close(moved, soft_read(SCORES, VALUES).output, atol=1e-14, rtol=0)


def test_many_queries_are_each_a_read() -> None:
    q, k, v = draw(B, 6, D), draw(B, N, D), draw(B, N, V)
    outputs, weights = scaled_dot_product(q, k, v, MASK[:, None])
    for m in range(6):
        one = soft_read(scaled_dot(k, q[:, m]), v, MASK)
        torch.testing.assert_close(outputs[:, m], one.output, atol=1e-14, rtol=0)
        torch.testing.assert_close(weights[:, m], one.weights, atol=1e-14, rtol=0)


def test_variance_of_a_dot_product_is_its_width() -> None:
    source = torch.Generator().manual_seed(0)
    for width in (4, 64):
        q, k = (torch.randn(1, 20_000, width, generator=source) for _ in range(2))
        raw = (q * k).sum(-1).var().item()
        # the variance of a sample variance of 20,000 draws is about 2 (+ kurtosis) / 20,000
        assert raw == pytest.approx(width, rel=0.06)
        scaled = scaled_dot(k, q[:, 0]).var().item()
        assert scaled == pytest.approx(q[0, 0].square().mean().item(), rel=0.06)


def test_argmax_takes_the_best_that_may_be_read() -> None:
    read = argmax_read(SCORES, VALUES, MASK)
    for b in range(B):
        best = max((n for n in range(N) if MASK[b, n]), key=lambda n: SCORES[b, n].item())
        assert read.chosen[b] == best
        assert torch.equal(read.output[b], VALUES[b, best])
    tied = argmax_read(torch.zeros(1, 4), torch.arange(4.0).view(1, 4, 1))
    assert tied.chosen.tolist() == [0]


def test_soft_becomes_hard_as_the_temperature_falls() -> None:
    hard = argmax_read(SCORES, VALUES, MASK).output
    soft = soft_read(SCORES, VALUES, MASK, temperature=1e-3).output
    torch.testing.assert_close(soft, hard, atol=1e-6, rtol=0)


def test_samples_follow_the_weights() -> None:
    count = 20_000
    scores = SCORES.detach()[2:3].expand(count, N)
    mask = MASK[2:3].expand(count, N)
    source = torch.Generator().manual_seed(0)
    read = sampled_read(scores, torch.eye(N, dtype=torch.float64).expand(count, N, N), mask, 1.0,
                        source)  # fmt: skip
    share = read.output.mean(0)
    expected = attention_weights(SCORES.detach()[2], MASK[2])
    assert (share - expected).abs().max() < 5 * 0.5 / math.sqrt(count)
    assert (share[~MASK[2]] == 0).all()


def test_reinforce_is_unbiased_and_a_baseline_steadies_it() -> None:
    """Against the gradient of the expected reward, which five memories let us enumerate."""
    scores = draw(N, seed=9)
    reward = torch.tensor([3.0, 4.0, 3.5, 5.0, 3.0], dtype=torch.float64)
    exact = torch.autograd.grad(-(attention_weights(scores) * reward).sum(), scores)[0]
    count = 40_000
    variance = {}
    for baseline in (0.0, 3.7):
        rows = scores.detach().expand(count, N).clone().requires_grad_()
        source = torch.Generator().manual_seed(1)
        read = sampled_read(rows, reward.expand(count, N)[..., None], generator=source)
        loss = reinforce_loss(read.log_probability, read.output[:, 0], baseline) * count
        each = torch.autograd.grad(loss, rows)[0]
        error = each.std(0) / math.sqrt(count)
        assert ((each.mean(0) - exact).abs() < 5 * error).all()
        variance[baseline] = each.var(0).sum().item()
    assert variance[3.7] < variance[0.0] / 5


def test_the_output_of_a_hard_read_teaches_no_score() -> None:
    for read in (argmax_read(SCORES, VALUES), sampled_read(SCORES, VALUES)):
        grads = torch.autograd.grad(read.output.sum(), (SCORES, VALUES), allow_unused=True)
        assert grads[0] is None and grads[1].sum() == B * V


def test_masks() -> None:
    assert causal_mask(3).tolist() == [
        [True, False, False], [True, True, False], [True, True, True],
    ]  # fmt: skip
    assert padding_mask(torch.tensor([1, 3]), 3).tolist() == [[True, False, False], [True] * 3]


NOTHING = torch.zeros(B, N, dtype=torch.bool)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: soft_read(SCORES, VALUES, NOTHING), r"mask is all False in row \(0,\)"),
        (lambda: soft_read(SCORES, VALUES, MASK.float()), "mask has dtype torch.float32"),
        (lambda: soft_read(SCORES, VALUES, MASK[:2]), r"mask has shape \(2, 5\): must broadcast"),
        (lambda: soft_read(SCORES, VALUES, temperature=-1.0), r"temperature=-1.0: must be above 0"),
        (lambda: soft_read(SCORES, VALUES, temperature=0), "temperature=0: must be above 0"),
        (lambda: soft_read(SCORES, VALUES, temperature=math.nan), "temperature=nan"),
        (lambda: soft_read(SCORES[0], VALUES), "scores has shape"),
        (lambda: soft_read(SCORES, VALUES[:, 1:]), "values has shape"),
        (lambda: soft_read(SCORES[:, :0], VALUES[:, :0]), "needs a memory to read"),
        (lambda: argmax_read(SCORES, VALUES, NOTHING), "mask is all False"),
        (lambda: sampled_read(SCORES, VALUES, temperature=-2.0), "temperature=-2.0"),
        (lambda: reinforce_loss(SCORES[0], SCORES[0, 1:]), "reward has shape"),
        (lambda: reinforce_loss(SCORES[0], SCORES[0], SCORES[0, 1:]), "baseline has shape"),
        (lambda: causal_mask(0), "steps=0"),
        (lambda: padding_mask(torch.tensor([0, 2]), 3), r"lengths=\[0, 2\]: each must be between"),
        (lambda: padding_mask(torch.tensor([4]), 3), r"lengths=\[4\]"),
        (lambda: attention_weights(torch.tensor(1.0)), r"scores has shape \(\)"),
        (lambda: attention_weights(torch.tensor(1.0), torch.tensor(True)), "scores has shape"),
        (lambda: soft_read(SCORES, VALUES.float()), "values has dtype torch.float32"),
        (lambda: soft_read(SCORES.float(), VALUES), "values has dtype torch.float64"),
        (lambda: padding_mask(torch.tensor([1.0, 2.0]), 3), "lengths has dtype torch.float32"),
        (lambda: scaled_dot_product(VALUES, VALUES.float(), VALUES), "keys has dtype"),
        (lambda: scaled_dot_product(VALUES, VALUES, VALUES.float()), "values has dtype"),
        (lambda: scaled_dot_product(VALUES[0, 0], VALUES, VALUES), "queries has shape"),
        (lambda: scaled_dot_product(VALUES, draw(B, N, D), VALUES), "keys has shape"),
        (lambda: scaled_dot_product(VALUES, VALUES, VALUES[:, 1:]), "values has shape"),
    ],
)  # fmt: skip
def test_errors_name_the_argument(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
