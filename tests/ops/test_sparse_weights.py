"""The sparse rule: the worked example, every case the paper leaves open, and its gradient."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor

from sab.ops.sparse_weights import (
    RELEASED_EPS,
    SHORT_MEMORY,
    THRESHOLDS,
    SparseWeights,
    candidate_count,
    select,
    sparse_weights,
)

EPS = torch.finfo(torch.float64).eps


def scores(*rows: list[float]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64).requires_grad_()


def dense(a: Tensor, k_top: int, **rule: Any) -> Tensor:
    return sparse_weights(a, k_top, **rule).dense(a.shape[1])


def gradient(a: Tensor, read: SparseWeights, seed: int = 0) -> Tensor:
    """Gradient of a random reading of the weights; exact zeros where they do not depend on the
    scores.
    """
    source = torch.Generator().manual_seed(seed)
    values = torch.randn(read.weights.shape, generator=source, dtype=a.dtype)
    if not read.weights.requires_grad:
        return torch.zeros_like(a)
    (found,) = torch.autograd.grad((read.weights * values).sum(), a)
    return found


# -- the rule --------------------------------------------------------------------------------------


def test_worked_example() -> None:
    read = sparse_weights(scores([4, 3, 1, 0]), k_top=2)
    assert read.indices.tolist() == [[0, 1, 2]]
    torch.testing.assert_close(read.weights.tolist(), [[0.6, 0.4, 0.0]])
    torch.testing.assert_close(read.dense(4).tolist(), [[0.6, 0.4, 0.0, 0.0]])
    assert not read.tied.any()


def test_worked_example_does_not_depend_on_order_shift_or_scale() -> None:
    for order in itertools.permutations(range(4)):
        a = torch.tensor([4.0, 3.0, 1.0, 0.0], dtype=torch.float64)[list(order)]
        expected = torch.tensor([0.6, 0.4, 0.0, 0.0], dtype=torch.float64)[list(order)]
        for moved in (a, a + 100, a - 100, 7 * a):
            torch.testing.assert_close(dense(moved[None], 2)[0], expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("k_top", [1, 2, 3, 5, 8])
def test_at_most_k_top_are_read_and_sum_to_one(k_top: int) -> None:
    a = torch.randn(50, 7, generator=torch.Generator().manual_seed(k_top), dtype=torch.float64)
    weights = dense(a, k_top)
    assert (weights >= 0).all()
    torch.testing.assert_close(weights.sum(1), torch.ones(50, dtype=torch.float64))
    # with no (k_top + 1)-th score the weakest memory is the threshold, and is not read
    assert ((weights > 0).sum(1) == min(k_top, 6)).all()
    # a better score never weighs less
    assert (weights.gather(1, a.argsort(1, descending=True)).diff(dim=1) <= 0).all()


def test_order_is_score_descending_then_index_ascending() -> None:
    a = scores([1, 2, 2, 0, 2, 1])
    assert sparse_weights(a, 5).indices.tolist() == [[1, 2, 4, 0, 5, 3]]
    assert sparse_weights(a, 1).indices.tolist() == [[1, 2]]
    source = torch.Generator().manual_seed(0)
    many = torch.randint(
        0, 4, (200, 40), generator=source
    ).double()  # many ties, past any small-sort limit
    found = select(many, torch.full((200,), 40), 9)
    for row, chosen in zip(many.tolist(), found.tolist(), strict=True):
        assert chosen == sorted(range(40), key=lambda i: (-row[i], i))[:9]


def test_candidate_count() -> None:
    assert [candidate_count(k, t) for t in THRESHOLDS for k in (1, 5)] == [2, 6, 1, 5]


# -- the cases the paper leaves open ---------------------------------------------------------------


@pytest.mark.parametrize("threshold", THRESHOLDS)
@pytest.mark.parametrize("short_memory", SHORT_MEMORY)
def test_empty_memory_reads_nothing(threshold: str, short_memory: str) -> None:
    read = sparse_weights(torch.zeros(2, 0), 3, threshold, short_memory)
    width = candidate_count(3, threshold)
    assert read.indices.tolist() == [[-1] * width] * 2
    assert read.weights.tolist() == [[0.0] * width] * 2
    assert read.tied.all()
    assert read.dense(0).shape == (2, 0)


@pytest.mark.parametrize("value", [0.0, -3.0, 1e30])
@pytest.mark.parametrize("k_top", [1, 2, 5])
def test_one_memory_is_read_with_weight_one(k_top: int, value: float) -> None:
    a = scores([value])
    read = sparse_weights(a, k_top)
    assert read.indices.tolist() == [[0] + [-1] * k_top]
    assert read.weights.tolist() == [[1.0] + [0.0] * k_top]
    assert read.tied.all()
    assert (gradient(a, read) == 0).all()


@pytest.mark.parametrize("held", [2, 3, 4])
def test_two_to_k_top_memories_are_all_read_but_the_weakest(held: int) -> None:
    a = scores([5.0, 2.0, 4.0, 1.0][:held])
    expected = torch.relu(a - a.min()) / (a - a.min()).sum()
    assert (expected > 0).sum() == held - 1
    torch.testing.assert_close(dense(a, 4), expected)


@pytest.mark.parametrize(("held", "k_top"), [(2, 1), (2, 2), (4, 2), (5, 9), (150, 5)])
def test_all_tied_reads_the_first_k_top_uniformly(held: int, k_top: int) -> None:
    for value in (0.0, 0.1, -7.3):
        a = scores([value] * held)
        read = sparse_weights(a, k_top)
        weights = read.dense(held)[0].tolist()
        number = min(k_top, held)
        assert weights == [1 / number] * number + [0.0] * (held - number)
        assert read.tied.all()
        assert (gradient(a, read) == 0).all()


def test_ties_at_the_threshold_are_not_read() -> None:
    """They have margin 0: fewer than k_top are read, and relu'(0) = 0 keeps them out of the
    gradient.
    """
    a = scores([2, 5, 2, 3, 2])
    read = sparse_weights(a, 4)
    assert read.dense(5).tolist() == [[0, 0.75, 0, 0.25, 0]]
    assert read.indices.tolist() == [[1, 3, 0, 2, 4]]
    found = gradient(a, read)[0]
    assert found[0] == 0 and found[2] == 0
    assert found[1] != 0 and found[3] != 0 and found[4] != 0, "τ's share goes to C's last"
    assert found.sum().abs() < 1e-15


def test_ties_among_the_candidates_share() -> None:
    weights = dense(scores([3, 1, 3, 3, 0]), 4)
    torch.testing.assert_close(weights.tolist(), [[0.3, 0.1, 0.3, 0.3, 0.0]])


def test_one_tied_group_above_the_threshold() -> None:
    """All of C tied, one below it left out: uniform over the first k_top, by index."""
    assert dense(scores([1, 4, 4, 4, 0]), 2).tolist() == [[0, 0.5, 0.5, 0, 0]]


@pytest.mark.parametrize("held", [1, 2, 3, 10])
def test_k_top_one_has_a_constant_weight_and_no_gradient(held: int) -> None:
    """The weight is margin / margin: exactly 1, and the scorer learns nothing, not even rounding
    noise.
    """
    for seed in range(20):
        source = torch.Generator().manual_seed(seed)
        a = torch.randn(1, held, generator=source, dtype=torch.float64).requires_grad_()
        read = sparse_weights(a, 1)
        assert read.weights[0].tolist() == [1.0, 0.0]
        assert read.tied.all()
        assert (gradient(a, read, seed) == 0).all()


def test_two_memories_are_k_top_one() -> None:
    a = scores([1.0, 3.0])
    read = sparse_weights(a, 5)
    assert read.dense(2).tolist() == [[0.0, 1.0]]
    assert read.tied.all() and (gradient(a, read) == 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("base", [1.0, -1.0, 1000.0, 3e-5])
def test_a_spread_of_a_few_ulp_is_a_tie(dtype: torch.dtype, base: float) -> None:
    """Rounding decides such an order: it must not decide the weights."""
    ulp = torch.finfo(dtype).eps * abs(base)
    few = torch.tensor([[base, base + 2 * ulp, base + ulp, base]], dtype=dtype, requires_grad=True)
    read = sparse_weights(few, 3)
    assert read.tied.all()
    assert sorted(read.weights[0].tolist()) == pytest.approx([0, 1 / 3, 1 / 3, 1 / 3])
    assert (gradient(few, read) == 0).all()
    clear = torch.tensor([[base, base + 40 * ulp, base + 20 * ulp, base]], dtype=dtype)
    read = sparse_weights(clear, 3)
    assert not read.tied.any()
    torch.testing.assert_close(
        read.dense(4), torch.tensor([[0, 2 / 3, 1 / 3, 0]], dtype=dtype), rtol=0, atol=0.06
    )


@pytest.mark.parametrize("threshold", THRESHOLDS)
@pytest.mark.parametrize("short_memory", SHORT_MEMORY)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_never_nan(threshold: str, short_memory: str, dtype: torch.dtype) -> None:
    rows = [
        [0, 0, 0, 0], [1, 1, 1, 1], [1e-300, 0, 0, 0], [1e30, 1e30, -1e30, 0],
        [5, 5, 5, 1], [1, 0, 0, 0], [-1, -2, -2, -2], [1e-36, 2e-36, 0, 1e-36],
        [1e-40, 2e-40, 0, 1e-40],
    ]  # fmt: skip
    for held, k_top in itertools.product(range(5), (1, 2, 3, 4, 6)):
        a = torch.tensor(rows, dtype=dtype, requires_grad=True)
        count = torch.full((len(rows),), held)
        read = sparse_weights(a, k_top, threshold, short_memory, count)
        assert read.weights.isfinite().all()
        assert gradient(a, read).isfinite().all()
        assert (read.dense(4)[:, held:] == 0).all()


def test_per_sample_count() -> None:
    """What is not held is never read, however well it scores; each row equals itself cut to its
    count.
    """
    a = torch.randn(6, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    a[:, 4] += 10
    count = torch.tensor([0, 1, 2, 3, 4, 5])
    for threshold, short_memory in itertools.product(THRESHOLDS, SHORT_MEMORY):
        both = sparse_weights(a, 2, threshold, short_memory, count)
        for b in range(6):
            alone = sparse_weights(a[b : b + 1, : count[b]], 2, threshold, short_memory)
            for name in ("indices", "weights", "tied"):
                assert torch.equal(getattr(both, name)[b : b + 1], getattr(alone, name))


def test_dense_puts_each_weight_in_its_slot() -> None:
    read = SparseWeights(
        torch.tensor([[2, 0, -1], [-1, -1, -1]]),
        torch.tensor([[0.7, 0.3, 0.0], [0.0, 0.0, 0.0]]),
        torch.tensor([False, True]),
    )
    torch.testing.assert_close(read.dense(3), torch.tensor([[0.3, 0.0, 0.7], [0.0, 0.0, 0.0]]))


# -- the released code's switches ------------------------------------------------------------------


def test_released_threshold_reads_one_fewer() -> None:
    """τ is the k_top-th score + 1e-7 (D2)."""
    read = sparse_weights(scores([4, 3, 1, 0]), 2, threshold="k_top")
    assert read.indices.tolist() == [[0, 1]]
    margin = 1 - RELEASED_EPS
    torch.testing.assert_close(
        read.weights.tolist(), [[margin / (margin + RELEASED_EPS), 0.0]], rtol=0, atol=1e-15
    )
    assert not read.tied.any(), "1e-7 in the sum leaves a gradient"
    three = sparse_weights(scores([4, 3, 1, 0]), 3, threshold="k_top").weights
    torch.testing.assert_close(three.tolist(), [[0.6, 0.4, 0.0]], rtol=0, atol=1e-6)


def test_released_threshold_with_k_top_one_or_ties_reads_none() -> None:
    for a, k_top in ((scores([4, 3, 1]), 1), (scores([2, 2, 2]), 2)):
        read = sparse_weights(a, k_top, threshold="k_top")
        assert (read.weights == 0).all() and read.tied.all()
        assert (gradient(a, read) == 0).all()


def test_short_memory_softmax() -> None:
    a = scores([4, 3, 1, 0])
    short = sparse_weights(a, 4, short_memory="softmax")
    torch.testing.assert_close(short.dense(4), torch.softmax(a, 1))
    assert not short.tied.any()
    for k_top in (1, 2, 3):  # more memories than k_top: the usual rule
        torch.testing.assert_close(dense(a, k_top, short_memory="softmax"), dense(a, k_top))
    one = sparse_weights(scores([9.0]), 2, short_memory="softmax")
    assert one.weights.tolist() == [[1.0, 0.0, 0.0]] and one.tied.all()
    large = sparse_weights(scores([1000.0, -1000.0]), 2, short_memory="softmax")
    assert large.dense(2).tolist() == [[1.0, 0.0]]


def test_short_memory_raw_uses_the_scores_themselves() -> None:
    """The released code (D3): not normalised, and negative where the score is."""
    a = scores([4, -3, 1])
    raw = sparse_weights(a, 3, short_memory="raw")
    assert raw.dense(3).tolist() == [[4, -3, 1]]
    assert not raw.tied.any()
    torch.testing.assert_close(dense(a, 2, short_memory="raw"), dense(a, 2))


# -- gradient --------------------------------------------------------------------------------------


@pytest.mark.parametrize("threshold", THRESHOLDS)
@pytest.mark.parametrize("short_memory", SHORT_MEMORY)
@pytest.mark.parametrize("held", [1, 2, 3, 6])
def test_gradient_equals_finite_differences_where_smooth(
    held: int, short_memory: str, threshold: str
) -> None:
    a = scores([4, 3, 1, 0, -2.5, -4][:held], [-1, 2, 0.5, 7, 5, 3][:held])

    def weights(a: Tensor) -> Tensor:
        return sparse_weights(a, 3, threshold, short_memory).dense(held)

    assert torch.autograd.gradcheck(weights, (a,), eps=1e-6, atol=1e-7, rtol=1e-6)


def test_threshold_s_gradient_goes_to_the_last_candidate() -> None:
    """α₀ = (a₀ − τ)/(a₀ + a₁ − 2τ) at (4, 3, τ = 1): derivatives 2/25, −3/25 and, for τ, 1/25."""
    a = scores([4, 3, 1, 0])
    (found,) = torch.autograd.grad(sparse_weights(a, 2).weights[0, 0], a)
    torch.testing.assert_close(found.tolist(), [[0.08, -0.12, 0.04, 0.0]])
    tied = scores([1, 4, 1, 3])
    (found,) = torch.autograd.grad(sparse_weights(tied, 3).weights[0, 0], tied)
    torch.testing.assert_close(found.tolist(), [[0.0, 0.08, 0.04, -0.12]])


def test_scale_changes_the_gradient_and_not_the_weights() -> None:
    """The gradient grows like one over the sum of margins: why training explodes with exact score
    gradients.
    """
    for scale in (1.0, 1e-3, 1e-6):
        a = (scale * scores([4, 3, 1, 0]).detach()).requires_grad_()
        (found,) = torch.autograd.grad(sparse_weights(a, 2).weights[0, 0], a)
        torch.testing.assert_close(found[0, 0].item() * scale, 0.08, rtol=1e-6, atol=0)
