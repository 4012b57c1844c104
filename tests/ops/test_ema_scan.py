"""The running average: parallel and FFT forms against the loop; masks, gates, directions."""

from __future__ import annotations

import math
import time
from typing import Any

import pytest
import torch
from torch import Tensor

from sab.ops.ema_blocks import ema_blocks
from sab.ops.ema_scan import DIRECTIONS, ema_scan, half_life, linear_scan

LENGTHS = (1, 2, 3, 4, 5, 8, 31, 64, 65)


def numbers(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def shares(*shape: int, seed: int = 1, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(shape, generator=generator, dtype=dtype) * 0.9 + 0.05


@pytest.mark.parametrize("n", LENGTHS)
def test_parallel_is_the_loop_with_all_gradients(n: int) -> None:
    found = []
    for form in ("reference", "parallel"):
        decay, drive = shares(2, n, 3).requires_grad_(), numbers(2, n, 3).requires_grad_()
        start = numbers(2, 3, seed=2).requires_grad_()
        states = linear_scan(decay, drive, start, form)
        grads = torch.autograd.grad(
            (states * numbers(2, n, 3, seed=3)).sum(), (decay, drive, start)
        )
        found.append((states, *grads))
    for loop, fast in zip(*found, strict=True):
        torch.testing.assert_close(fast, loop, atol=1e-12, rtol=0)


def test_values_in_closed_form() -> None:
    """A constant input of 1 gives 1 - (1 - α)^t, an impulse α (1 - α)^(t - 1)."""
    alpha = torch.tensor([0.1, 0.5, 1.0], dtype=torch.float64)
    t = torch.arange(1, 21, dtype=torch.float64)[:, None]
    impulse = torch.zeros(1, 20, 3, dtype=torch.float64)
    impulse[:, 0] = 1
    for form in ("reference", "parallel", "fft"):
        states = ema_scan(torch.ones(1, 20, 3, dtype=torch.float64), alpha, form=form)
        torch.testing.assert_close(states[0], 1 - (1 - alpha) ** t, atol=1e-12, rtol=0)
        states = ema_scan(impulse, alpha, form=form)
        torch.testing.assert_close(states[0], alpha * (1 - alpha) ** (t - 1), atol=1e-12, rtol=0)


def test_gradient_is_the_derivative() -> None:
    x, alpha = numbers(2, 5, 2).requires_grad_(), shares(2).requires_grad_()
    start = numbers(2, 2, seed=5).requires_grad_()
    keep = torch.tensor([[True, False, True, True, False], [False, True, True, False, True]])
    for direction in DIRECTIONS:
        assert torch.autograd.gradcheck(
            lambda x, a, s, way=direction: ema_scan(x, a, initial=s, keep=keep, direction=way),
            (x, alpha, start),
        )


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("moving", [False, True])
@pytest.mark.parametrize("n", [1, 6, 17])
def test_every_setting_of_every_form(direction: str, masked: bool, moving: bool, n: int) -> None:
    x, start = numbers(2, n, 3), numbers(2, 3, seed=4)
    alpha = shares(2, n, 3) if moving else shares(3)
    keep = (numbers(2, n, seed=6) > 0) if masked else None
    forms = ["parallel"] if masked or moving else ["parallel", "fft"]
    settings: dict[str, Any] = {"initial": start, "keep": keep, "direction": direction}
    want = ema_scan(x, alpha, form="reference", **settings)
    for form in forms:
        torch.testing.assert_close(
            ema_scan(x, alpha, form=form, **settings), want, atol=1e-12, rtol=0
        )


def test_the_state_stands_still_at_padding() -> None:
    x, alpha = numbers(1, 9, 2), shares(2)
    alone = ema_scan(x, alpha)
    keep = torch.zeros(1, 15, dtype=torch.bool)
    keep[:, [1, 2, 3, 6, 7, 8, 9, 12, 13]] = True
    wide = torch.full((1, 15, 2), math.nan, dtype=torch.float64)
    wide[keep] = x[0]
    wide[~keep] = 1e9
    states = ema_scan(wide, alpha, keep=keep)
    torch.testing.assert_close(states[keep], alone[0], atol=1e-12, rtol=0)
    assert torch.equal(states[:, 4], states[:, 3]) and torch.equal(states[:, 14], states[:, 13])
    assert (states[:, 0] == 0).all()
    back = ema_scan(wide, alpha, keep=keep, direction="reverse")
    torch.testing.assert_close(
        back[keep], ema_scan(x, alpha, direction="reverse")[0], atol=1e-12, rtol=0
    )


@pytest.mark.parametrize("form", ["parallel", "reference", "blocks"])
@pytest.mark.parametrize("gates", [False, True])
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("rubbish", [math.nan, math.inf, 1e300])
def test_what_padding_holds_reaches_no_gradient(
    form: str, gates: bool, direction: str, rubbish: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of x, α and the initial state; gates a step may hold rubbish there as well."""
    if form == "blocks":
        monkeypatch.setattr("sab.ops.ema_scan.LONG", 1)
    keep = numbers(2, 11, seed=7) > 0
    gap = ~keep[:, :, None]
    found = []
    for fill in (0.0, rubbish):
        x = numbers(2, 11, 3).masked_fill(gap, fill).requires_grad_()
        alpha = numbers(2, 11, 3, seed=4).sigmoid() if gates else shares(3)
        alpha = (alpha.masked_fill(gap, fill) if gates else alpha).requires_grad_()
        first = numbers(2, 3, seed=5).requires_grad_()
        out = ema_scan(
            x, alpha, keep=keep, initial=first, direction=direction,
            form="parallel" if form == "blocks" else form,
        )  # fmt: skip
        found.append([out, *torch.autograd.grad(out.square().sum(), (x, alpha, first))])
    for clean, dirty in zip(*found, strict=True):
        assert torch.equal(clean, dirty) and torch.isfinite(dirty).all()


def test_the_future_changes_nothing() -> None:
    x, alpha = numbers(1, 20, 2), shares(2)
    changed = x.clone()
    changed[:, 12:] += 5
    before, after = (ema_scan(z, alpha)[:, :12] for z in (x, changed))
    assert torch.equal(before, after)


@pytest.mark.parametrize("long", [1, 2**40])
@pytest.mark.parametrize("masked", [False, True])
def test_float32_at_8192_steps(masked: bool, long: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slow, middling and fast channels; equal to the loop to 1e-5, and to the loop in float64.

    In blocks and by halving.
    """
    monkeypatch.setattr("sab.ops.ema_scan.LONG", long)
    n, alpha = 8192, torch.tensor([1e-4, 1e-3, 1e-2, 0.1, 0.5, 0.9])
    x = numbers(2, n, 6, dtype=torch.float32)
    keep = (numbers(2, n, seed=7) > -0.5) if masked else None
    exact = ema_scan(x.double(), alpha.double(), keep=keep, form="reference").float()
    loop = ema_scan(x, alpha, keep=keep, form="reference")
    forms = ["parallel"] if masked else ["parallel", "fft"]
    for form in forms:
        states = ema_scan(x, alpha, keep=keep, form=form)
        assert (states - loop).abs().max() < 1e-5
        assert (states - exact).abs().max() < 1e-5


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("block", [1, 4, 13, 50])
def test_blocks_are_the_loop_with_all_gradients(block: int, masked: bool) -> None:
    """Blocks that fit, that don't, of one step, and one longer than the sequence."""
    keep = (numbers(2, 39, seed=7) > -0.5) if masked else None
    found = []
    for blocked in (False, True):
        x, start = numbers(2, 39, 3).requires_grad_(), numbers(2, 3, seed=4).requires_grad_()
        alpha = shares(3).requires_grad_()
        if blocked:
            states = ema_blocks(x, alpha, start, keep, block)
        else:
            states = ema_scan(x, alpha, initial=start, keep=keep, form="reference")
        loss = (states * numbers(2, 39, 3, seed=3)).sum()
        found.append((states, *torch.autograd.grad(loss, (x, alpha, start))))
    for loop, fast in zip(*found, strict=True):
        torch.testing.assert_close(fast, loop, atol=1e-12, rtol=0)


def test_a_long_average_is_computed_in_blocks_and_never_looks_at_padding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, alpha = numbers(2, 200, 3, dtype=torch.float32), torch.tensor([0.9, 0.1, 1.0])
    keep = numbers(2, 200, seed=7) > -0.5
    want = {way: ema_scan(x, alpha, keep=keep, direction=way) for way in DIRECTIONS}
    monkeypatch.setattr("sab.ops.ema_scan.LONG", 1)
    for padding in (math.nan, math.inf, -3e38, 1e9):
        hidden = x.masked_fill(~keep[:, :, None], padding).requires_grad_()
        for way, states in want.items():
            fast = ema_scan(hidden, alpha, keep=keep, direction=way)
            torch.testing.assert_close(fast, states, atol=1e-6, rtol=0)
            assert not torch.equal(fast, states)  # another order of additions: another way
        (grad,) = torch.autograd.grad(fast.sum(), hidden)
        assert torch.isfinite(grad).all() and (grad[~keep] == 0).all()
    with pytest.raises(ValueError, match="initial has shape"):
        ema_scan(x, alpha, initial=torch.zeros(2, 4))


def test_the_textbook_short_cut_fails_where_this_does_not() -> None:
    """Dividing by the cumulative product: 0.9^N underflows in float32 at some thousand steps."""
    n, alpha = 2000, torch.tensor([0.1])
    x = numbers(1, n, 1, dtype=torch.float32)
    product = (1 - alpha).expand(n).cumprod(0)[:, None]
    shortcut = product * (alpha * x / product).cumsum(1)
    assert not torch.isfinite(shortcut).all()
    assert torch.isfinite(ema_scan(x, alpha)).all()


def test_parallel_is_faster_than_the_loop() -> None:
    """A loose bound for any machine; the benchmark measures the ratio."""
    x, alpha = numbers(2, 4096, 8, dtype=torch.float32).requires_grad_(), shares(8).float()
    seconds = {}
    for form in ("parallel", "reference"):
        best = math.inf
        for _ in range(2):
            begin = time.perf_counter()
            ema_scan(x, alpha, form=form).sum().backward()
            best = min(best, time.perf_counter() - begin)
        seconds[form] = best
    assert 2 * seconds["parallel"] < seconds["reference"]


def test_half_life() -> None:
    assert half_life(0.5) == pytest.approx(1)
    assert half_life(0.1) == pytest.approx(6.5788, abs=1e-4)
    for alpha in (0.0, 1.0, -1.0):
        with pytest.raises(ValueError, match="must be between 0 and 1"):
            half_life(alpha)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"alpha": torch.zeros(4)}, r"alpha has shape \(4,\): must be \(3\)"),
        ({"alpha": torch.zeros(2, 6, 1)}, "alpha has shape"),
        ({"initial": torch.zeros(2, 4)}, "initial has shape"),
        ({"initial": torch.zeros(2, 4), "form": "fft"}, "initial has shape"),
        ({"keep": torch.ones(2, 7, dtype=torch.bool)}, "keep has shape"),
        ({"keep": torch.ones(2, 6)}, "keep has dtype"),
        ({"keep": torch.ones(2, 6, dtype=torch.bool), "form": "fft"}, "needs one alpha a channel"),
        ({"direction": "sideways"}, "must be one of 'forward', 'reverse', 'both'"),
        ({"form": "chunks"}, "form='chunks': must be one of"),
        ({"x": torch.zeros(2, 0, 3)}, "an empty sequence"),
    ],
)
def test_what_is_refused(change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {
        "x": torch.zeros(2, 6, 3),
        "alpha": torch.full((3,), 0.1),
        **change,
    }
    with pytest.raises(ValueError, match=message):
        ema_scan(arguments.pop("x"), arguments.pop("alpha"), **arguments)
    with pytest.raises(ValueError, match="no size may be 0"):
        linear_scan(torch.zeros(1, 0, 2), torch.zeros(1, 0, 2))
