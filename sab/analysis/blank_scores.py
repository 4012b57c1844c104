"""Why the copy task's blanks do or don't drown its symbols: scores of stored states at the answers.

All functions work without a graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sab.checks import finite_float, positive_int, shape
from sab.models.sab import SABLayer
from sab.ops.scores import additive
from sab.ops.sparse_weights import softmax_weights, sparse_weights


@dataclass(frozen=True)
class AnswerReads:
    """What the last steps of a sequence find in the memory.

    Attributes:
        scores: (B, A, M), the score of every memory at each of the last A steps; −∞ where it was
            not yet written.
        weights: (B, A, M), what was read.
        written: (M,) int64, the 1-based step at which each memory was written.
        h: (B, T, n), the hidden states of the whole sequence.
    """

    scores: Tensor
    weights: Tensor
    written: Tensor
    h: Tensor

    def weight(self, first: int, last: int) -> Tensor:
        """Weight (B, A) on the memories written from step ``first`` to step ``last``."""
        inside = (self.written >= first) & (self.written <= last)
        return self.weights[..., inside].sum(-1)

    def highest(self, first: int, last: int) -> Tensor:
        """Highest score (B, A) among the memories written from step ``first`` to ``last``.

        −∞ where there are none.
        """
        inside = (self.written >= first) & (self.written <= last)
        least = self.scores.new_full((*self.scores.shape[:2], 1), -torch.inf)
        return torch.cat([self.scores[..., inside], least], -1).amax(-1)

    def threshold(self, k_top: int) -> Tensor:
        """The (k_top+1)-th score (B, A), or the lowest where fewer memories are held."""
        ranked = self.scores.sort(-1, descending=True).values
        held = self.scores.isfinite().sum(-1, keepdim=True)
        return ranked.gather(-1, (held - 1).clamp(0, k_top))[..., 0]

    def overtaken(self, cut: int, last: int) -> tuple[Tensor, Tensor]:
        """How often the best of the memories up to ``cut`` is outscored by one of those after it.

        Returns:
            steps (L,) of the memories written after ``cut`` up to ``last``, and for each the share
            (L,) of the B · A reads in which a memory of ``cut`` < step ≤ it has a higher score
            than every memory up to ``cut``. It can only rise.

        Raises:
            ValueError: no memory lies on one of the two sides.
        """
        after = (self.written > cut) & (self.written <= last)
        before = self.written <= cut
        if not after.any() or not before.any():
            raise ValueError(f"cut={cut!r}, last={last!r}: must leave memories on both sides")
        best = self.scores[..., before].amax(-1, keepdim=True)
        above = self.scores[..., after].cummax(-1).values > best
        return self.written[after], above.double().mean((0, 1))


@torch.no_grad()
def answer_reads(layer: SABLayer, x: Tensor, answers: int) -> AnswerReads:
    """Run ``layer`` over ``x (B, T, input_size)`` and score its memories at the last steps.

    The query ĥ is h − s, and a memory is the hidden state of its step, so nothing is computed that
    the layer does not compute itself (up to rounding).

    Raises:
        ValueError: ``answers`` is not between 1 and T, the score is not additive, or the memory
            starts with a zero state.
    """
    shape("x", x, (None, None, layer.input_size))
    positive_int("answers", answers)
    if answers > x.shape[1]:
        raise ValueError(f"answers={answers!r}: must be at most the {x.shape[1]} steps")
    options = layer.options
    if options.score != "additive" or options.initial_memory != "empty":
        raise ValueError(
            f"layer has score={options.score!r}, initial_memory={options.initial_memory!r}: must "
            "be 'additive' and 'empty'"
        )
    h, s, _, recall = layer(x, return_recall=True)
    total, every = x.shape[1], options.k_att
    memories = h[:, every - 1 :: every]
    written = torch.arange(every, total + 1, every, device=x.device)
    first = total - answers
    scores = []
    for t in range(first, total):  # 0-based; the step is t + 1 and holds what was written up to t
        a = additive(memories, h[:, t] - s[:, t], *layer.weights.scorer)
        scores.append(a.masked_fill(written > t, -torch.inf))
    used = recall.indices[:, first:].clamp(min=0)
    weights = h.new_zeros(len(x), answers, len(written))
    weights.scatter_add_(2, used, recall.weights[:, first:])
    return AnswerReads(torch.stack(scores, 1), weights, written, h)


def settling(h: Tensor) -> Tensor:
    """Distance (B, T−1) between successive states of ``h (B, T, n)``.

    Raises:
        ValueError: ``h`` has another number of dimensions, or one step.
    """
    shape("h", h, (None, None, None))
    if h.shape[1] < 2:
        raise ValueError(f"h has {h.shape[1]} steps: must have at least 2")
    return (h[:, 1:] - h[:, :-1]).norm(dim=-1)


def period(h: Tensor, longest: int = 200, tolerance: float = 1e-2) -> Tensor:
    """With which period the states ``h (B, T, n)`` come back, at the end of the sequence.

    Returns:
        (B,) int64: the smallest p ≤ ``longest`` such that over the last 2 · ``longest`` steps no
        state is further than ``tolerance`` from that p steps before. 1 is a fixed point, 0 none.

    Raises:
        ValueError: T is below 3 · ``longest``, or an argument is out of range.
    """
    shape("h", h, (None, None, None))
    positive_int("longest", longest)
    finite_float("tolerance", tolerance, 0.0)
    if h.shape[1] < 3 * longest:
        raise ValueError(f"h has {h.shape[1]} steps: must have at least {3 * longest}")
    tail = h[:, -2 * longest :]
    found = torch.zeros(len(h), dtype=torch.int64, device=h.device)
    for p in range(longest, 0, -1):
        before = h[:, -2 * longest - p : -p]
        back = (tail - before).norm(dim=-1).amax(1) <= tolerance
        found = torch.where(back, p, found)
    return found


@torch.no_grad()
def crowd(
    scores: Tensor, blank: Tensor, copies: Sequence[int], k_top: int
) -> tuple[Tensor, Tensor]:
    """Weight left for ``scores (B, M)`` when a memory of score ``blank (B,)`` stands beside them.

    ``copies`` times, exactly the same each time. A sparse read looks at k_top + 1 candidates, so
    more copies than that cannot change it; a softmax feels every one.

    Returns:
        (B, len(copies)) under the sparse rule of Algorithm 1, and under a softmax.

    Raises:
        ValueError: a shape does not fit, or a number is not positive.
    """
    shape("scores", scores, (None, None))
    shape("blank", blank, (len(scores),))
    positive_int("k_top", k_top)
    sparse, soft = [], []
    for count in copies:
        positive_int("copies", count)
        beside = blank[:, None].expand(-1, min(count, k_top + 1))
        # the copies come first: where scores tie, the older memory wins, and the test is hardest
        whole = torch.cat([beside, scores], 1)
        read = sparse_weights(whole, k_top).dense(whole.shape[1])
        sparse.append(read[:, beside.shape[1] :].sum(1))
        summed = torch.cat([scores, (blank + torch.tensor(count).log())[:, None]], 1)
        soft.append(softmax_weights(summed)[:, :-1].sum(1))
    return torch.stack(sparse, 1), torch.stack(soft, 1)
