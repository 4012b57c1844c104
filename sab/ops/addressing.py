"""Where a neural Turing machine reads and writes: addressing by content and by place.

Shapes: batch B, heads H, slots N of width W. A head's weights (B, H, N) are at least 0 and sum to
1 over the slots. Source of all: Graves et al. 2014, sections 3.1-3.3.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sab.checks import shape
from sab.ops.attention import attention_weights

TINY = 1e-6  # under the root of a squared norm: an empty slot is unlike everything, not undefined


def at_least(name: str, values: Tensor, minimum: float) -> Tensor:
    """Return ``values`` if none is below ``minimum`` or NaN.

    Raises:
        ValueError: one is; the message has the smallest.
    """
    if not bool((values >= minimum).all()):
        raise ValueError(f"{name}={values.min().item()!r}: must be at least {minimum:g}")
    return values


def cosine_similarity(memory: Tensor, keys: Tensor) -> Tensor:
    """Cosine of the angle between each key and each slot.

    Args:
        memory: (B, N, W).
        keys: (B, H, W).

    Returns:
        (B, H, N), from -1 to 1, and 0 for a slot or a key of zeros.

    Raises:
        ValueError: a shape does not fit.

    Source: equation 6, with ``TINY`` added to both squared norms.
    """
    shape("memory", memory, (None, None, None))
    shape("keys", keys, (memory.shape[0], None, memory.shape[2]))
    slots = (memory.square().sum(-1) + TINY).rsqrt()
    lookers = (keys.square().sum(-1, keepdim=True) + TINY).rsqrt()
    return (keys * lookers) @ memory.transpose(1, 2) * slots[:, None]


def content_weights(
    memory: Tensor, keys: Tensor, strengths: Tensor, mask: Tensor | None = None
) -> Tensor:
    """Weights of the slots by likeness: ``softmax_n(β cos(k, m_n))``.

    Args:
        memory: (B, N, W).
        keys: (B, H, W).
        strengths: (B, H), β, at least 0; 0 gives uniform weights.
        mask: (B, N) bool, True where a slot may be addressed.

    Returns:
        (B, H, N).

    Raises:
        ValueError: a shape or the mask does not fit, a mask leaves no slot, a strength is negative.

    Source: equation 5.
    """
    likeness = cosine_similarity(memory, keys)
    shape("strengths", strengths, tuple(keys.shape[:2]))
    scores = at_least("strengths", strengths, 0.0)[..., None] * likeness
    if mask is None:
        return torch.softmax(scores, -1)
    shape("mask", mask, (memory.shape[0], memory.shape[1]))
    return attention_weights(scores, mask[:, None])


def interpolate(content: Tensor, previous: Tensor, gate: Tensor) -> Tensor:
    """Choose between content and the place of the step before: ``g w^c + (1 - g) w_{t-1}``.

    Args:
        content: (B, H, N).
        previous: (B, H, N).
        gate: (B, H), from 0 to 1.

    Raises:
        ValueError: a shape does not fit.

    Source: equation 7.
    """
    shape("content", content, (None, None, None))
    shape("previous", previous, tuple(content.shape))
    shape("gate", gate, tuple(content.shape[:2]))
    return torch.lerp(previous, content, gate[..., None])


def shift(weights: Tensor, shifts: Tensor) -> Tensor:
    """Move weights along the slots, round the ends: ``w̃_i = Σ_j s_j w_{i-j}``, j = -r … r.

    Args:
        weights: (B, H, N).
        shifts: (B, H, 2r + 1), a distribution over the moves -r … r; at most N of them.

    Returns:
        (B, H, N).

    Raises:
        ValueError: a shape does not fit, or the moves are not an odd number up to N.

    Source: equation 8.
    """
    shape("weights", weights, (None, None, None))
    shape("shifts", shifts, (*weights.shape[:2], None))
    count = shifts.shape[2]
    if count % 2 == 0 or count > weights.shape[2]:
        raise ValueError(
            f"shifts has {count} moves: must be an odd number of at most {weights.shape[2]}"
        )
    reach = count // 2
    share = shifts.split(1, -1)  # not indexed: one gradient for all of them
    moved = share[reach] * weights
    for j in range(1, reach + 1):
        moved = torch.addcmul(moved, share[reach + j], weights.roll(j, -1))
        moved = torch.addcmul(moved, share[reach - j], weights.roll(-j, -1))
    return moved


def sharpen(weights: Tensor, sharpness: Tensor) -> Tensor:
    """Undo the blur of many shifts: ``w_i = w̃_i^γ / Σ_j w̃_j^γ``.

    Args:
        weights: (B, H, N).
        sharpness: (B, H), γ, at least 1; 1 changes nothing but to normalise.

    Returns:
        (B, H, N).

    Raises:
        ValueError: a shape does not fit, or a γ is below 1.

    Source: equation 9, as a softmax of ``γ log(w̃ + 1e-12)``, so that no power underflows.
    """
    shape("weights", weights, (None, None, None))
    shape("sharpness", sharpness, tuple(weights.shape[:2]))
    at_least("sharpness", sharpness, 1.0)
    return torch.softmax(sharpness[..., None] * (weights + 1e-12).log(), -1)


def read(memory: Tensor, weights: Tensor) -> Tensor:
    """What the heads see: ``r = Σ_n w_n m_n``.

    Args:
        memory: (B, N, W).
        weights: (B, H, N).

    Returns:
        (B, H, W).

    Raises:
        ValueError: a shape does not fit.

    Source: equation 2.
    """
    shape("memory", memory, (None, None, None))
    shape("weights", weights, (memory.shape[0], None, memory.shape[1]))
    return weights @ memory


def write(memory: Tensor, weights: Tensor, erase: Tensor, add: Tensor) -> Tensor:
    """Erase, then add: ``m_n ← m_n ⊙ (1 - w_n e) + w_n a``; with several heads, all erase first.

    Args:
        memory: (B, N, W).
        weights: (B, H, N).
        erase: (B, H, W), from 0 (keep) to 1 (clear).
        add: (B, H, W).

    Returns:
        (B, N, W), a new memory.

    Raises:
        ValueError: a shape does not fit.

    Source: equations 3 and 4.
    """
    shape("memory", memory, (None, None, None))
    batch, slots, width = memory.shape
    shape("weights", weights, (batch, None, slots))
    shape("erase", erase, (batch, weights.shape[1], width))
    shape("add", add, tuple(erase.shape))
    places = weights.transpose(1, 2)  # (B, N, H)
    for where, what in zip(places.split(1, 2), erase.split(1, 1), strict=True):
        memory = torch.addcmul(memory, memory, where * what, value=-1)
    return torch.baddbmm(memory, places, add)
