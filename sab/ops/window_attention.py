"""Attention within a window: each position sees those at most ``window`` steps away.

Two forms of one function. ``masked`` scores every pair and hides those outside the window: simple,
and as dear as full attention, O(N²). ``blocked`` cuts the sequence into blocks as long as the
window, so that a query needs its own block, the one before and (two-sided) the one after:
O(N · window) time and memory.

Shapes: ``q``, ``k``, ``v`` (B, H, N, d) for B sequences, H heads, N positions; ``keep`` (B, N) is
True at real positions and False at padding. A padded position is seen by nobody, whatever it holds
(NaN too), and its own output is zero, as is that of a row with nothing to attend to.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from sab.checks import dtype, one_of, positive_int, shape

FORMS = ("blocked", "masked")


def window_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    window: int,
    *,
    keep: Tensor | None = None,
    causal: bool = False,
    form: str = "blocked",
) -> Tensor:
    """Scaled dot-product attention of position i over all real j with ``|i - j| <= window``.

    Args:
        q: queries (B, H, N, d).
        k: keys, same shape.
        v: values, same shape.
        window: greatest distance in positions, at least 1. Padding *inside* a sequence counts here;
            `sab.models.rea_layer.REALayer` closes such gaps first.
        keep: (B, N) bool, True at real positions; ``None``: all are.
        causal: only j <= i.
        form: ``"blocked"`` or ``"masked"``; same values and gradients.

    Returns:
        (B, H, N, d); zeros at padding and where there is nothing to attend to.

    Raises:
        ValueError: a shape does not fit, the sequence is empty, or ``window`` is below 1.
    """
    check_heads(q, k, v, keep)
    positive_int("window", window)
    one_of("form", form, FORMS)
    if keep is None:
        keep = torch.ones(q.shape[0], q.shape[2], dtype=torch.bool, device=q.device)
    else:
        q, k, v = _cleared(keep, q, k, v)
    # Beyond the sequence there is nothing: a larger window is the same one.
    window = min(window, max(q.shape[2] - 1, 1))
    attend = _blocked if form == "blocked" else _masked
    return attend(q, k, v, window, keep, causal)


def full_attention(
    q: Tensor, k: Tensor, v: Tensor, *, keep: Tensor | None = None, causal: bool = False
) -> Tensor:
    """Attention over all real positions (``causal``: up to one's own), O(N²).

    Arguments, result and errors as :func:`window_attention`. Computed by
    ``scaled_dot_product_attention``, which need not keep the N × N scores.
    """
    check_heads(q, k, v, keep)
    if keep is None:
        return functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    q, k, v = _cleared(keep, q, k, v)
    # A padded query looks at all keys instead of none, which would be NaN; its output goes to zero.
    seen = keep[:, None, None, :] | ~keep[:, None, :, None]
    if causal:
        n = q.shape[2]
        seen = seen & torch.ones(n, n, dtype=torch.bool, device=q.device).tril()
    out = functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)
    return out * keep[:, None, :, None].to(out.dtype)


def _cleared(keep: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
    """Zeros at padding: a weight of zero does not silence a NaN, 0 · NaN is NaN."""
    return tuple(x.masked_fill(~keep[:, None, :, None], 0.0) for x in tensors)


def check_heads(q: Tensor, k: Tensor, v: Tensor, keep: Tensor | None) -> None:
    """Refuse tensors that are not (B, H, N, d) alike, an empty sequence, a mask that does not fit.

    Raises:
        ValueError: see above.
    """
    shape("q", q, (None, None, None, None))
    shape("k", k, tuple(q.shape))
    shape("v", v, tuple(q.shape))
    if 0 in q.shape:
        raise ValueError(f"q has shape {tuple(q.shape)}: no size may be 0 (an empty sequence?)")
    if keep is not None:
        shape("keep", keep, (q.shape[0], q.shape[2]))
        dtype("keep", keep, torch.bool)


def band(
    rows: int, columns: int, window: int, causal: bool, *, shift: int = 0, device: torch.device
) -> Tensor:
    """(rows, columns) bool: is column j within the window of row i + ``shift``?"""
    row = torch.arange(rows, device=device)[:, None] + shift
    distance = row - torch.arange(columns, device=device)[None, :]
    return (distance <= window) & (distance >= (0 if causal else -window))


def masked_weights(scores: Tensor, allowed: Tensor) -> Tensor:
    """Softmax over the last dimension of the allowed entries; a row without any gives zeros."""
    # A finite floor, not -inf: a row of -inf is NaN, forward and backward.
    floor = torch.finfo(scores.dtype).min
    weights = scores.masked_fill(~allowed, floor).softmax(-1)
    return weights.masked_fill(~allowed, 0.0)


def _masked(q: Tensor, k: Tensor, v: Tensor, window: int, keep: Tensor, causal: bool) -> Tensor:
    """Every pair is scored; the reference."""
    n = q.shape[2]
    allowed = band(n, n, window, causal, device=q.device)
    allowed = allowed & keep[:, None, None, :] & keep[:, None, :, None]  # (B, 1, N, N)
    scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5  # (B, H, N, N)
    return masked_weights(scores, allowed) @ v


def _blocked(q: Tensor, k: Tensor, v: Tensor, window: int, keep: Tensor, causal: bool) -> Tensor:
    """Blocks of ``window`` positions, each against its neighbours."""
    batch, heads, n, d = q.shape
    blocks = -(-n // window)
    spare = blocks * window - n
    after = 0 if causal else window
    span = 2 * window + after  # the positions that a block looks at: before, own, after
    q = functional.pad(q, (0, 0, 0, spare)).view(batch, heads, blocks, window, d)
    edges = (window, spare + after)
    k, v = (_around(functional.pad(x, (0, 0, *edges)), window, span) for x in (k, v))
    rows = functional.pad(keep, (0, spare)).view(batch, 1, blocks, window, 1)
    columns = _around(functional.pad(keep, edges)[:, None, :, None], window, span)
    # Row i of a block is position i + window of its span.
    near = band(window, span, window, causal, shift=window, device=q.device)
    allowed = near & rows & columns.transpose(-2, -1)  # (B, 1, blocks, window, span)
    scores = q @ k.transpose(-2, -1) * d**-0.5  # (B, H, blocks, window, span)
    out = masked_weights(scores, allowed) @ v
    return out.reshape(batch, heads, blocks * window, d)[:, :, :n]


def _around(x: Tensor, window: int, span: int) -> Tensor:
    """(B, H, L, d) → (B, H, blocks, span, d): from every multiple of ``window``, ``span`` rows."""
    return x.unfold(2, span, window).transpose(-2, -1)
