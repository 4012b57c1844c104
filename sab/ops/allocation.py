"""What a differentiable neural computer adds: free slots, and the order in which they were written.

Shapes: batch B, reading heads R, slots N. One head writes. Source of all: Graves et al. 2016,
Methods, "Dynamic memory allocation" and "Temporal memory linkage".
"""

from __future__ import annotations

import torch
from torch import Tensor

from sab.checks import one_of, shape

SMALLEST = 1e-6  # a usage is at least that, so that the product's gradient has no 0/0


def retention(free: Tensor, reading: Tensor) -> Tensor:
    """How much of each slot is kept after it was read: ``ψ_n = Π_r (1 - f_r w^r_n)``.

    Args:
        free: (B, R), from 0 (keep) to 1 (what was read is free).
        reading: (B, R, N), weights of the step before.

    Returns:
        (B, N).

    Raises:
        ValueError: a shape does not fit, or no head reads.
    """
    shape("reading", reading, (None, None, None))
    if reading.shape[1] < 1:
        raise ValueError(f"reading has shape {tuple(reading.shape)}: needs a reading head")
    shape("free", free, tuple(reading.shape[:2]))
    kept = 1 - free[..., None] * reading
    out = kept[:, 0]
    for r in range(1, kept.shape[1]):
        out = out * kept[:, r]
    return out


def used(usage: Tensor, writing: Tensor, kept: Tensor) -> Tensor:
    """Usage of the slots: ``u ← (u + w - u w) ψ``, from 0 (free) to 1.

    Args:
        usage: (B, N), of the step before.
        writing: (B, N), where was written at the step before.
        kept: (B, N), see `retention`.

    Raises:
        ValueError: a shape does not fit.
    """
    shape("usage", usage, (None, None))
    shape("writing", writing, tuple(usage.shape))
    shape("kept", kept, tuple(usage.shape))
    return (usage + writing - usage * writing) * kept


def allocation(usage: Tensor) -> Tensor:
    """Weights of the free slots, the freest first: ``a_φj = (1 - u_φj) Π_{i<j} u_φi``.

    φ lists the slots by rising usage. The order has no gradient, the usages have.

    Args:
        usage: (B, N), from 0 to 1.

    Returns:
        (B, N), with a sum of at most 1; near 0 if every slot is used.

    Raises:
        ValueError: not a matrix, or a usage lies outside 0 … 1.
    """
    shape("usage", usage, (None, None))
    if not bool(((usage >= 0) & (usage <= 1 + 1e-5)).all()):
        raise ValueError("usage: must be from 0 to 1")
    usage = SMALLEST + (1 - SMALLEST) * usage
    rising, order = usage.sort(dim=1, stable=True)
    before = torch.cat([torch.ones_like(rising[:, :1]), rising[:, :-1]], 1).cumprod(1)
    found = (1 - rising) * before
    return torch.zeros_like(found).scatter(1, order, found)


def precedence(previous: Tensor, writing: Tensor) -> Tensor:
    """How far each slot is the one written last: ``p ← (1 - Σ w) p + w``; all (B, N).

    Raises:
        ValueError: a shape does not fit.
    """
    shape("previous", previous, (None, None))
    shape("writing", writing, tuple(previous.shape))
    return (1 - writing.sum(1, keepdim=True)) * previous + writing


def link(links: Tensor, previous: Tensor, writing: Tensor) -> Tensor:
    """How far slot i was written right after slot j: ``L_ij ← (1 - w_i - w_j) L_ij + w_i p_j``.

    Args:
        links: (B, N, N), zeros at the start.
        previous: (B, N), `precedence` before this write.
        writing: (B, N).

    Returns:
        (B, N, N), with zeros on the diagonal.

    Raises:
        ValueError: a shape does not fit.
    """
    shape("links", links, (None, None, None))
    batch, slots, _ = shape("links", links, (None, None, links.shape[1])).shape
    shape("previous", previous, (batch, slots))
    shape("writing", writing, (batch, slots))
    i, j = writing[:, :, None], writing[:, None]
    new = (1 - i - j) * links + i * previous[:, None]
    return new * (1 - torch.eye(slots, dtype=new.dtype, device=new.device))


def follow(links: Tensor, reading: Tensor, way: str) -> Tensor:
    """Move reading heads along the order of writing: ``L w`` forward, ``Lᵀ w`` backward.

    Args:
        links: (B, N, N).
        reading: (B, R, N), of the step before.
        way: ``"forward"`` or ``"backward"``.

    Returns:
        (B, R, N).

    Raises:
        ValueError: a shape does not fit, or an unknown way.
    """
    one_of("way", way, ("forward", "backward"))
    shape("reading", reading, (None, None, None))
    shape("links", links, (reading.shape[0], reading.shape[2], reading.shape[2]))
    return reading @ (links.transpose(1, 2) if way == "forward" else links)
