"""Attention: scores become weights, weights become a read; soft, hard, key-value, many queries.

Shapes: batch B, queries M, memories N, heads H, widths d (keys) and v (values). Scores come from
`sab.ops.scores`. A mask is boolean and says ``True`` where a memory may be read. What it forbids
gets weight and gradient exactly 0, so padding never changes a read as long as it is finite; the
models put zeros where padding stands, so that there it may hold anything.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from sab.checks import dtype, finite_float, positive_int, shape


class Read(NamedTuple):
    """What a soft read returns: ``output`` (…, v) and the ``weights`` (…, N) behind it."""

    output: Tensor
    weights: Tensor


class HardRead(NamedTuple):
    """What a hard read returns.

    Attributes:
        output: (B, v), the value of the one memory that was taken.
        chosen: (B,) int64, which one.
        log_probability: (B,), the log of the weight it had; carries the scores' gradient.
        weights: (B, N), the attention distribution.
    """

    output: Tensor
    chosen: Tensor
    log_probability: Tensor
    weights: Tensor


def check_mask(scores: Tensor, mask: Tensor | None) -> None:
    """Refuse a mask that does not fit ``scores`` (…, N), or that leaves a row nothing to read.

    Raises:
        ValueError: it is not boolean, does not broadcast to the scores, or masks a whole row; or
            the scores have no axis of memories, or no memory.
    """
    if scores.dim() == 0:
        raise ValueError("scores has shape (): must be (…, N), with a memory to read")
    if mask is None:
        if scores.shape[-1] == 0:
            raise ValueError(f"scores has shape {tuple(scores.shape)}: needs a memory to read")
        return
    if mask.dtype != torch.bool:
        raise ValueError(f"mask has dtype {mask.dtype}: must be torch.bool, True where read")
    try:
        whole = mask.expand(scores.shape)
    except RuntimeError:
        raise ValueError(
            f"mask has shape {tuple(mask.shape)}: must broadcast to {tuple(scores.shape)}"
        ) from None
    empty = ~whole.any(-1)
    if bool(empty.any()):
        row = tuple(empty.nonzero()[0].tolist())
        raise ValueError(f"mask is all False in row {row}: each row must leave something to read")


def log_weights(scores: Tensor, mask: Tensor | None = None, temperature: float = 1.0) -> Tensor:
    """Return the logarithm of `attention_weights`; ``-inf`` where masked. Same arguments."""
    check_mask(scores, mask)
    if finite_float("temperature", temperature) <= 0:
        raise ValueError(f"temperature={temperature!r}: must be above 0")
    scores = scores / temperature
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return torch.log_softmax(scores, -1)


def attention_weights(
    scores: Tensor, mask: Tensor | None = None, temperature: float = 1.0
) -> Tensor:
    """Softmax over the memories that may be read: the attention distribution.

    Args:
        scores: (…, N), unitless. Their values are not looked at: a NaN among them, or a row of
            -inf alone, gives a row of NaN, so that training finds out that it diverged.
        mask: boolean, broadcastable to the scores.
        temperature: what the scores are divided by; near 0 the choice becomes hard.

    Returns:
        Weights (…, N): each row sums to 1.

    Raises:
        ValueError: the mask does not fit or empties a row, or the temperature is not above 0.

    Source: Bahdanau et al. 2015, equation 6.
    """
    return log_weights(scores, mask, temperature).exp()


def _check_values(scores: Tensor, values: Tensor) -> None:
    shape("scores", scores, (None, None))
    shape("values", values, (scores.shape[0], scores.shape[1], None))


def soft_read(
    scores: Tensor, values: Tensor, mask: Tensor | None = None, temperature: float = 1.0
) -> Read:
    """Weighted mean of the values: ``Σ_n softmax(scores)_n v_n``.

    With scores of the *keys* it is key-value attention; with the memories as both keys and values
    it is plain attention.

    Args:
        scores: (B, N).
        values: (B, N, v).
        mask: (B, N), or broadcastable to it.
        temperature: as in `attention_weights`.

    Raises:
        ValueError: a shape, a type, the mask or the temperature does not fit.

    Source: Bahdanau et al. 2015, equation 5; key-value: Miller et al. 2016, section 3.1.
    """
    _check_values(scores, values)
    weights = attention_weights(scores, mask, temperature)
    dtype("values", values, weights.dtype)
    return Read((weights[:, None] @ values)[:, 0], weights)


def _take(scores: Tensor, values: Tensor, index: Tensor, log_p: Tensor) -> HardRead:
    output = values[torch.arange(len(index), device=index.device), index]
    taken = log_p.gather(1, index[:, None])[:, 0]
    return HardRead(output, index, taken, log_p.exp())


def argmax_read(scores: Tensor, values: Tensor, mask: Tensor | None = None) -> HardRead:
    """Take the value of the memory with the highest score; of equal ones the first.

    Args and errors: as for `soft_read`. The output has no gradient towards the scores.

    Source: Xu et al. 2015, section 4.1, with the mode in place of a sample.
    """
    _check_values(scores, values)
    log_p = log_weights(scores, mask)
    return _take(scores, values, log_p.argmax(1), log_p)


def sampled_read(
    scores: Tensor,
    values: Tensor,
    mask: Tensor | None = None,
    temperature: float = 1.0,
    generator: torch.Generator | None = None,
) -> HardRead:
    """Take the value of one memory, drawn from the attention distribution.

    Args and errors: as for `soft_read`. ``generator`` decides the draw. The output has no gradient
    towards the scores; train them with `reinforce_loss`.

    Source: Xu et al. 2015, section 4.1.
    """
    _check_values(scores, values)
    log_p = log_weights(scores, mask, temperature)
    index = torch.multinomial(log_p.detach().exp(), 1, generator=generator)[:, 0]
    return _take(scores, values, index, log_p)


def reinforce_loss(
    log_probability: Tensor, reward: Tensor, baseline: Tensor | float = 0.0
) -> Tensor:
    """Loss whose gradient is the score-function estimate of that of ``-E[reward]``.

    A baseline that does not depend on the draw leaves the mean of the estimate as it is and can
    make its variance smaller.

    Args:
        log_probability: (B,), of what was drawn.
        reward: (B,), more is better; gets no gradient.
        baseline: a number or (B,); gets no gradient.

    Returns:
        A scalar, ``-mean((reward - baseline) log_probability)``.

    Raises:
        ValueError: the shapes differ.

    Source: Williams 1992.
    """
    shape("log_probability", log_probability, (None,))
    shape("reward", reward, (log_probability.shape[0],))
    if isinstance(baseline, Tensor) and baseline.dim() > 0:
        shape("baseline", baseline, (log_probability.shape[0],))
    return -((reward - baseline).detach() * log_probability).mean()


def causal_mask(steps: int, device: torch.device | None = None) -> Tensor:
    """Boolean (steps, steps): query m may read memories 0 … m.

    Raises:
        ValueError: ``steps`` is not a positive integer.
    """
    positive_int("steps", steps)
    return torch.ones(steps, steps, dtype=torch.bool, device=device).tril()


def padding_mask(lengths: Tensor, steps: int) -> Tensor:
    """Boolean (B, steps): ``True`` on each sequence's first ``lengths`` steps.

    Raises:
        ValueError: the lengths are not int64, or one lies outside 1 … ``steps``.
    """
    positive_int("steps", steps)
    shape("lengths", lengths, (None,))
    dtype("lengths", lengths, torch.int64)
    if bool((lengths < 1).any() | (lengths > steps).any()):
        raise ValueError(f"lengths={lengths.tolist()}: each must be between 1 and {steps}")
    return torch.arange(steps, device=lengths.device) < lengths[:, None]


def scaled_dot_product(
    queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None
) -> Read:
    """Key-value attention for many queries at once: ``softmax(Q Kᵀ / √d) V``.

    Args:
        queries: (…, M, d).
        keys: (…, N, d).
        values: (…, N, v).
        mask: boolean, broadcastable to (…, M, N).

    Returns:
        Outputs (…, M, v) and weights (…, M, N).

    Raises:
        ValueError: a shape, a type or the mask does not fit.

    Source: Vaswani et al. 2017, equation 1.
    """
    leading = tuple(queries.shape[:-2])
    if queries.dim() < 2:
        raise ValueError(f"queries has shape {tuple(queries.shape)}: must be (…, M, d)")
    shape("keys", keys, (*leading, None, queries.shape[-1]))
    shape("values", values, (*leading, keys.shape[-2], None))
    dtype("keys", keys, queries.dtype)
    dtype("values", values, queries.dtype)
    scores = queries @ keys.transpose(-1, -2) / math.sqrt(queries.shape[-1])
    weights = attention_weights(scores, mask)
    return Read(weights @ values, weights)
