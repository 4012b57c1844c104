"""Windowed attention: both forms against a loop over positions, and at every edge."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from sab.ops.window_attention import full_attention, window_attention

FORMS = ("blocked", "masked")


def inputs(
    n: int, batch: int = 2, heads: int = 3, d: int = 4, dtype: torch.dtype = torch.float64
) -> list[Tensor]:
    generator = torch.Generator().manual_seed(n)
    shape = (batch, heads, n, d)
    return [torch.randn(shape, generator=generator, dtype=dtype).requires_grad_() for _ in range(3)]


def mask_of(kind: str, n: int, batch: int = 2) -> Tensor | None:
    """Sequences of different lengths, padded on the right or left, with gaps, or all padding."""
    if kind == "none":
        return None
    keep = torch.ones(batch, n, dtype=torch.bool)
    if kind == "right":
        keep[0, n // 2 + 1 :] = False
    elif kind == "left":
        keep[0, : n // 2] = False
    elif kind == "gaps":
        keep[0, 1::3] = False
        keep[1, n // 3 : 2 * n // 3] = False
    elif kind == "empty":
        keep[0] = False
    return keep


def by_hand(
    q: Tensor, k: Tensor, v: Tensor, window: int, keep: Tensor | None, causal: bool
) -> Tensor:
    """One position at a time, only over those it may see."""
    batch, heads, n, d = q.shape
    out = torch.zeros(q.shape, dtype=q.dtype)
    for b in range(batch):
        for i in range(n):
            seen = [
                j
                for j in range(n)
                if abs(i - j) <= window
                and (j <= i or not causal)
                and (keep is None or bool(keep[b, j] and keep[b, i]))
            ]
            for h in range(heads if seen else 0):
                scores = torch.stack([q[b, h, i] @ k[b, h, j] for j in seen]) / math.sqrt(d)
                out[b, h, i] = scores.softmax(0) @ v[b, h, seen]
    return out


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", ["none", "right", "left", "gaps", "empty"])
@pytest.mark.parametrize(("n", "window"), [(1, 1), (7, 2), (9, 3), (8, 8), (5, 40)])
def test_values(form: str, causal: bool, kind: str, n: int, window: int) -> None:
    q, k, v = (x.detach() for x in inputs(n))
    keep = mask_of(kind, n)
    found = window_attention(q, k, v, window, keep=keep, causal=causal, form=form)
    torch.testing.assert_close(found, by_hand(q, k, v, window, keep, causal), atol=1e-12, rtol=0)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", ["none", "right", "gaps", "empty"])
@pytest.mark.parametrize(("n", "window"), [(1, 3), (50, 4), (33, 16), (12, 64)])
def test_gradients_of_both_forms_agree(causal: bool, kind: str, n: int, window: int) -> None:
    keep = mask_of(kind, n)
    found = []
    for form in FORMS:
        q, k, v = inputs(n)
        out = window_attention(q, k, v, window, keep=keep, causal=causal, form=form)
        weight = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)
        found.append([out, *torch.autograd.grad((out * weight).sum(), (q, k, v))])
        assert all(torch.isfinite(x).all() for x in found[-1])
    for blocked, masked in zip(*found, strict=True):
        torch.testing.assert_close(blocked, masked, atol=1e-12, rtol=0)


@pytest.mark.parametrize("form", FORMS)
def test_gradient_is_the_derivative(form: str) -> None:
    q, k, v = inputs(7, 2, 1, 2)
    keep = mask_of("gaps", 7)
    assert torch.autograd.gradcheck(
        lambda q, k, v: window_attention(q, k, v, 2, keep=keep, form=form), (q, k, v)
    )


@pytest.mark.parametrize("form", FORMS)
def test_padding_is_zero_and_nan_in_it_stays_there(form: str) -> None:
    q, k, v = (x.detach() for x in inputs(10, dtype=torch.float32))
    keep = mask_of("right", 10)
    assert keep is not None
    out = window_attention(q, k, v, 3, keep=keep, form=form)
    assert (out[0, :, ~keep[0]] == 0).all() and (out[0, :, keep[0]] != 0).all()


@pytest.mark.parametrize("rubbish", [math.nan, math.inf, 1e30])
@pytest.mark.parametrize("kind", ["right", "left", "gaps", "empty"])
@pytest.mark.parametrize("causal", [False, True])
def test_what_padding_holds_reaches_nobody(rubbish: float, kind: str, causal: bool) -> None:
    """Values and gradients, of all three; a weight of zero would not silence a NaN."""
    keep = mask_of(kind, 10)
    assert keep is not None
    gap = ~keep[:, None, :, None]
    calls: list[Callable[[Tensor, Tensor, Tensor], Tensor]] = [
        lambda q, k, v: window_attention(q, k, v, 3, keep=keep, causal=causal),
        lambda q, k, v: window_attention(q, k, v, 3, keep=keep, causal=causal, form="masked"),
        lambda q, k, v: full_attention(q, k, v, keep=keep, causal=causal),
    ]
    for call in calls:
        found = []
        for fill in (0.0, rubbish):
            qkv = [x.detach().masked_fill(gap, fill).requires_grad_() for x in inputs(10)]
            out = call(*qkv)
            found.append([out, *torch.autograd.grad(out.square().sum(), qkv)])
        for clean, dirty in zip(*found, strict=True):
            assert torch.equal(clean, dirty)


@pytest.mark.parametrize("form", FORMS)
def test_the_batch_changes_nothing(form: str) -> None:
    """Each of two lengths as it is alone, with the padding on either side."""
    q, k, v = (x.detach() for x in inputs(12, 1))
    alone = window_attention(q, k, v, 3, form=form)
    for before, after in ((0, 9), (9, 0), (4, 5)):
        a, b, c = (torch.nn.functional.pad(x, (0, 0, before, after), value=7.0) for x in (q, k, v))
        keep = torch.zeros(1, 21, dtype=torch.bool)
        keep[:, before : before + 12] = True
        out = window_attention(a, b, c, 3, keep=keep, form=form)[:, :, before : before + 12]
        torch.testing.assert_close(out, alone, atol=1e-12, rtol=0)


def test_a_wide_window_is_full_attention() -> None:
    for causal in (False, True):
        for kind in ("none", "left", "gaps", "empty"):
            q, k, v = inputs(9)
            keep = mask_of(kind, 9)
            wide = window_attention(q, k, v, 9, keep=keep, causal=causal)
            full = full_attention(q, k, v, keep=keep, causal=causal)
            if keep is not None and causal:  # a padded query has its own key to look at, or none
                full = full * keep[:, None, :, None]
            torch.testing.assert_close(full, wide, atol=1e-12, rtol=0)
            grads = [torch.autograd.grad(x.square().sum(), (q, k, v)) for x in (wide, full)]
            for one, other in zip(*grads, strict=True):
                torch.testing.assert_close(one, other, atol=1e-12, rtol=0)


def test_memory_of_the_blocked_form_grows_with_the_length_not_its_square() -> None:
    kept = {}
    for form in FORMS:
        for n in (256, 512):
            q, k, v = inputs(n, 1, 1, 4, torch.float32)
            total = 0

            def pack(x: Tensor) -> Tensor:
                nonlocal total
                total += x.numel() * x.element_size()
                return x

            with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
                window_attention(q, k, v, 16, form=form)
            kept[form, n] = total
    assert kept["blocked", 512] == pytest.approx(2 * kept["blocked", 256], rel=0.02)
    assert kept["masked", 512] > 3.5 * kept["masked", 256]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"window": 0}, "window=0: must be an integer of at least 1"),
        ({"form": "sliced"}, "form='sliced': must be one of 'blocked', 'masked'"),
        ({"keep": torch.ones(2, 5, dtype=torch.bool)}, r"keep has shape \(2, 5\)"),
        ({"keep": torch.ones(2, 6)}, "keep has dtype"),
        ({"k": torch.zeros(2, 3, 5, 4)}, "k has shape"),
        ({name: torch.zeros(2, 3, 0, 4) for name in "qkv"}, "no size may be 0"),
    ],
)
def test_what_is_refused(change: dict[str, Any], message: str) -> None:
    q, k, v = inputs(6)
    arguments: dict[str, Any] = {"q": q, "k": k, "v": v, "window": 2, **change}
    with pytest.raises(ValueError, match=message):
        window_attention(**arguments)
