"""Sequences of different lengths in one batch: which steps are real, and what follows from it.

``keep`` (B, N) bool is True at real steps. Padding may stand on the right, on the left or between.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sab.checks import dtype, one_of, shape

POOLS = ("mean", "max", "last")


def real_rows(x: Tensor) -> Tensor:
    """Which rows of ``x`` (B, N, D) hold anything but zeros: (B, N) bool."""
    return x.ne(0).any(-1)


def check_keep(keep: Tensor, like: Tensor) -> Tensor:
    """Return ``keep`` if it fits ``like`` (B, N, …) and every sequence has a real step.

    Raises:
        ValueError: its shape or type differs, or a sequence is empty.
    """
    shape("keep", keep, tuple(like.shape[:2]))
    dtype("keep", keep, torch.bool)
    empty = (~keep.any(1)).nonzero()[:, 0].tolist()
    if empty:
        raise ValueError(f"keep: sequence {empty[0]} of the batch has no real step (empty)")
    return keep


def mask_of(x: Tensor, keep: Tensor | None, padding: str, width: int) -> Tensor | None:
    """The mask in force: ``keep`` if given, what the input says, or ``None`` (all steps are real).

    Args:
        x: (B, N, width), the batch.
        keep: (B, N) bool, True at real steps.
        padding: ``"zero_rows"``: without ``keep``, an input row of zeros is padding.
        width: what x must have.

    Raises:
        ValueError: a shape does not fit, the batch is empty, or a sequence has no real step.
    """
    shape("x", x, (None, None, width))
    if x.shape[0] < 1 or x.shape[1] < 1:
        raise ValueError(f"x has shape {tuple(x.shape)}: needs a sequence and a step (empty?)")
    if keep is None and padding == "zero_rows":
        keep = real_rows(x)
    return None if keep is None else check_keep(keep, x)


def compact(x: Tensor, keep: Tensor) -> Tensor:
    """Move the real steps of ``x`` (B, N, D) to the front, in their order; zeros behind them."""
    x = x.masked_fill(~keep[:, :, None], 0.0)
    order = (~keep).to(torch.int8).argsort(dim=1, stable=True)
    return x.gather(1, order[:, :, None].expand_as(x))


def spread(x: Tensor, keep: Tensor) -> Tensor:
    """Undo `compact` for states: each step gets that of the last real step so far, at first zeros.

    Shapes: ``x`` (B, N, D) → (B, N, D).
    """
    before = torch.cat([torch.zeros_like(x[:, :1]), x], 1)
    return before.gather(1, keep.cumsum(1)[:, :, None].expand_as(x))


def pool(x: Tensor, keep: Tensor | None, kind: str) -> Tensor:
    """Reduce ``x`` (B, N, D) over the real steps: (B, D).

    Args:
        x: (B, N, D).
        keep: (B, N) bool; ``None``: all steps are real.
        kind: ``"mean"``, ``"max"`` or ``"last"``.

    Raises:
        ValueError: ``kind`` is unknown.
    """
    one_of("kind", kind, POOLS)
    if keep is None:
        keep = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
    gap = ~keep[:, :, None]
    if kind == "mean":
        return x.masked_fill(gap, 0.0).sum(1) / keep.sum(1, keepdim=True)
    if kind == "max":
        return x.masked_fill(gap, -torch.inf).amax(1)
    steps = torch.arange(x.shape[1], device=x.device)
    last = steps.masked_fill(~keep, -1).amax(1)
    return x[torch.arange(x.shape[0], device=x.device), last]
