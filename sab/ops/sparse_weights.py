"""From scores to weights: softmax, hard, and the paper's sparse rule.

Shapes: batch B, memories M, candidates K. The sparse rule is Algorithm 1's, the lines from τ to ã.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sab.checks import one_of, positive_int, shape, within

THRESHOLDS = ("k_top+1", "k_top")
SHORT_MEMORY = ("margin", "softmax", "raw")
RELEASED_EPS = 1e-7  # the released code adds it to its threshold and to its sum


@dataclass(frozen=True)
class SparseWeights:
    """The outcome of one sparse read.

    Attributes:
        indices: (B, K) int64, the candidates, best first; −1 where there are fewer. With the
            paper's threshold K = k_top + 1 (the last candidate is the threshold itself), with the
            released one K = k_top.
        weights: (B, K), their weights; 0 for the threshold candidate.
        tied: (B,) bool, True where the weights do not depend on the scores: nothing to read, all
            candidates tied, or a single positive margin (its weight is the constant 1). No
            gradient reaches the scores there.
    """

    indices: Tensor
    weights: Tensor
    tied: Tensor

    def dense(self, size: int) -> Tensor:
        """The weights over all ``size`` memories: (B, size), zeros where a memory is not read."""
        out = self.weights.new_zeros(self.weights.shape[0], size + 1)
        slots = torch.where(self.indices < 0, size, self.indices)
        return out.scatter(1, slots, self.weights)[:, :size]


def softmax_weights(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Softmax over the memories. A row with nothing allowed gives zeros, not NaN.

    Args:
        scores: (B, M).
        mask: (B, M) bool, True where a memory may be read; ``None`` allows all.

    Returns:
        Weights (B, M) that sum to 1, or to 0 in an empty row.

    Raises:
        ValueError: a shape does not fit, or the mask is not boolean.
    """
    shape("scores", scores, (None, None))
    if mask is None:
        return torch.softmax(scores, dim=1)
    shape("mask", mask, tuple(scores.shape))
    if mask.dtype != torch.bool:
        raise ValueError(f"mask has dtype {mask.dtype}: must be torch.bool, True where read")
    lowest = torch.finfo(scores.dtype).min
    weights = torch.softmax(scores.masked_fill(~mask, lowest), dim=1)
    return weights * mask


def hard_weights(scores: Tensor) -> Tensor:
    """One-hot weights of the best score; of equal scores the first wins. No gradient.

    Args:
        scores: (B, M) with M ≥ 1.

    Returns:
        Weights (B, M).

    Raises:
        ValueError: ``scores`` has no memory or the wrong number of dimensions.
    """
    shape("scores", scores, (None, None))
    positive_int("number of memories", scores.shape[1])
    best = scores.sort(dim=1, descending=True, stable=True).indices[:, 0]
    return torch.nn.functional.one_hot(best, scores.shape[1]).to(scores)


def candidate_count(k_top: int, threshold: str) -> int:
    """Candidates of a read: k_top + 1 by the paper, k_top by the released code (D2)."""
    return k_top + 1 if threshold == "k_top+1" else k_top


def few_ulp(size: Tensor) -> Tensor:
    """Eight ulp of numbers of magnitude ``size``; never so little that its inverse overflows."""
    info = torch.finfo(size.dtype)
    return 8 * (info.eps * size + info.tiny)


def select(scores: Tensor, count: Tensor, width: int) -> Tensor:
    """Indices of the best ``width`` of the first ``count[b]`` memories.

    The order is by (score descending, index ascending).

    Args:
        scores: (B, M).
        count: (B,) int64, memories held by each sample.
        width: K ≥ 1.

    Returns:
        (B, K) int64, −1 where a sample holds fewer.
    """
    _, held = scores.shape
    allowed = torch.arange(held, device=scores.device) < count[:, None]
    ranked = scores.detach().masked_fill(~allowed, -torch.inf)
    order = ranked.sort(dim=1, descending=True, stable=True).indices[:, :width]
    order = torch.nn.functional.pad(order, (0, width - order.shape[1]), value=-1)
    return order.masked_fill(torch.arange(width, device=scores.device) >= count[:, None], -1)


def weigh(
    chosen: Tensor, indices: Tensor, count: Tensor, k_top: int, threshold: str, short_memory: str
) -> tuple[Tensor, Tensor]:
    """Weights of the selected candidates from their scores, differentiable where the rule is.

    Args:
        chosen: (B, K), scores of the candidates, best first (any value where ``indices`` is −1).
        indices: (B, K), as `select` gives them.
        count: (B,) int64, memories held by each sample.
        k_top: as in `sparse_weights`.
        threshold: as in `sparse_weights`.
        short_memory: as in `sparse_weights`.

    Returns:
        weights (B, K) and tied (B,), as in `SparseWeights`.
    """
    used = indices >= 0
    chosen = torch.where(used, chosen, 0.0)
    held = used.sum(1)
    last = (held - 1).clamp(min=0)
    tau = chosen.gather(1, last[:, None])
    if threshold == "k_top":
        margins = torch.relu(chosen - (tau + RELEASED_EPS)) * used
        weights = margins / (margins.sum(1, keepdim=True) + RELEASED_EPS)
        tied = (margins > 0).sum(1) == 0
    else:
        margins = torch.relu(chosen - tau) * used
        total = margins.sum(1, keepdim=True)
        size = torch.maximum(chosen[:, :1].abs(), tau.abs())
        spread = (total > few_ulp(size))[:, 0]
        # One positive margin has the constant weight 1; autograd would leave rounding noise.
        tied = ~spread | ((margins > 0).sum(1) == 1)
        ranks = torch.arange(indices.shape[1], device=chosen.device)
        read = torch.minimum(held, torch.full_like(held, k_top))[:, None]
        uniform = (ranks < read) / read.clamp(min=1).to(chosen.dtype)
        single = (ranks == 0).to(chosen.dtype).expand_as(uniform)
        fixed = torch.where(spread[:, None], single, uniform)
        weights = torch.where(
            tied[:, None], fixed, margins / torch.where(tied[:, None], 1.0, total)
        )
    if short_memory != "margin":
        short = (count <= k_top) & (count > 0)
        if short_memory == "softmax":
            shifted = torch.where(used, chosen - chosen[:, :1].detach(), -torch.inf)
            shifted = torch.where(short[:, None], shifted, 0.0)  # an empty row must not give NaN
            by_short = torch.softmax(shifted, dim=1)
        else:
            by_short = chosen
        weights = torch.where(short[:, None], by_short * used, weights)
        constant = (count == 1) if short_memory == "softmax" else torch.zeros_like(short)
        tied = torch.where(short, constant, tied)
    return weights * used, tied | (count == 0)


def check_rule(k_top: int, threshold: str, short_memory: str) -> None:
    """Refuse a sparse rule that does not exist.

    Raises:
        ValueError: ``k_top`` is not a positive integer, or a name is unknown.
    """
    positive_int("k_top", k_top)
    one_of("threshold", threshold, THRESHOLDS)
    one_of("short_memory", short_memory, SHORT_MEMORY)


def sparse_weights(
    scores: Tensor,
    k_top: int,
    threshold: str = "k_top+1",
    short_memory: str = "margin",
    count: Tensor | None = None,
) -> SparseWeights:
    """The paper's sparse weights: margins over the (k_top + 1)-th score, divided by their sum.

    The candidates C are the first min(k_top + 1, M) memories by (score descending, index
    ascending), and τ is the score of C's last. With Z = Σ_C relu(a − τ) above a few ulp,
    α = relu(a − τ)/Z. The paper leaves the other cases open. Here:

    - one memory, or all candidates tied: uniform weights over the first min(k_top, M) of C, and no
      gradient to the scores;
    - 2 … k_top memories: all are read but the weakest;
    - a single positive margin: its weight is the constant 1.

    relu′(0) = 0; τ's gradient goes to C's last.

    Args:
        scores: (B, M), unitless.
        k_top: memories read at most. It may be more than there are: a memory that grows begins
            short. What happens then, the cases above and ``short_memory`` say.
        threshold: ``"k_top+1"`` (the paper) or ``"k_top"`` (the released code, D2: τ is the
            k_top-th score + 1e-7 and the sum has 1e-7 added, so k_top − 1 are read at most).
        short_memory: while M ≤ k_top, ``"margin"`` (the rule above), ``"softmax"`` over all M, or
            ``"raw"`` (the released code, D3: the scores themselves are the weights).
        count: (B,) int64, how many of the M memories each sample holds; ``None``: all.

    Returns:
        SparseWeights.

    Raises:
        ValueError: an argument is out of range, a shape does not fit, or a count is not an int64
            from 0 to M.

    Source: paper, Algorithm 1, the lines from τ to ã.
    """
    check_rule(k_top, threshold, short_memory)
    shape("scores", scores, (None, None))
    if count is None:
        count = torch.full((scores.shape[0],), scores.shape[1], device=scores.device)
    else:
        shape("count", count, (scores.shape[0],))
        within("count", count, 0, scores.shape[1])
    indices = select(scores, count, candidate_count(k_top, threshold))
    if scores.shape[1] == 0:
        chosen = scores.new_zeros(indices.shape)
    else:
        chosen = scores.gather(1, indices.clamp(min=0))
    weights, tied = weigh(chosen, indices, count, k_top, threshold, short_memory)
    return SparseWeights(indices, weights, tied)
