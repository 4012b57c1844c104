"""The linear recurrence ``s_t = a_t s_{t-1} + b_t``, and the running average made of it.

``reference`` is the loop. ``parallel`` halves the sequence log₂ N times: two neighbouring steps are
one step of the same kind, ``(a₂ a₁, a₂ b₁ + b₂)``, so the odd positions form a recurrence half as
long, and the even ones follow from them in one operation. All in all some 3 N multiplications, no
division and no logarithm. (Dividing by the cumulative product of a, the textbook short cut, fails
in float32: 0.9^N is below the least number after a thousand steps.) ``fft`` is a convolution and
serves where a is the same at every step. A long running average with one α a channel is computed in
blocks by `sab.ops.ema_blocks`, which is as exact and passes over memory less often.

Shapes: B sequences, N steps, D channels.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from sab.checks import dtype, one_of, shape
from sab.ops.ema_blocks import ema_blocks

LONG = 2**19  # numbers in x from which blocks are faster than halving
FORMS = ("parallel", "reference", "fft")
DIRECTIONS = ("forward", "reverse", "both")


def linear_scan(
    decay: Tensor, drive: Tensor, initial: Tensor | None = None, form: str = "parallel"
) -> Tensor:
    """Solve ``s_t = decay_t · s_{t-1} + drive_t`` for t = 1 … N.

    Args:
        decay: (B, N, D).
        drive: (B, N, D).
        initial: s_0 (B, D); zeros if ``None``.
        form: ``"parallel"`` or ``"reference"``; same values and gradients.

    Returns:
        s_1 … s_N, (B, N, D).

    Raises:
        ValueError: a shape does not fit or the sequence is empty.
    """
    shape("drive", drive, (None, None, None))
    shape("decay", decay, tuple(drive.shape))
    if 0 in drive.shape:
        raise ValueError(f"drive has shape {tuple(drive.shape)}: no size may be 0 (no steps?)")
    one_of("form", form, FORMS[:2])
    if initial is None:
        initial = drive.new_zeros(drive.shape[0], drive.shape[2])
    shape("initial", initial, (drive.shape[0], drive.shape[2]))
    if form == "parallel":
        result: Tensor = _Scan.apply(decay, drive, initial)
        return result
    state, states = initial, []
    for a, b in zip(decay.unbind(1), drive.unbind(1), strict=True):
        state = a * state + b
        states.append(state)
    return torch.stack(states, 1)


class _Scan(torch.autograd.Function):
    """The parallel form with its own backward pass, which is the same recurrence in reverse.

    With g_t the gradient that reaches s_t by all ways: ``g_t = ∂L/∂s_t + decay_{t+1} g_{t+1}``.
    """

    @staticmethod
    def forward(ctx: Any, decay: Tensor, drive: Tensor, initial: Tensor) -> Tensor:
        first = decay[:, :1] * initial[:, None] + drive[:, :1]
        states = _solve(decay, torch.cat([first, drive[:, 1:]], 1))
        ctx.save_for_backward(decay, states, initial)
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        decay, states, initial = ctx.saved_tensors
        # Reversed in time, the step from t+1 to t multiplies by decay_{t+1}; the first by nothing.
        back = torch.cat([decay[:, 1:], torch.zeros_like(decay[:, :1])], 1).flip(1)
        reach = _solve(back, grad.flip(1)).flip(1)
        before = torch.cat([initial[:, None], states[:, :-1]], 1)
        return reach * before, reach, reach[:, 0] * decay[:, 0]


def _solve(decay: Tensor, drive: Tensor) -> Tensor:
    """All states from s_0 = 0, by halving; ``decay`` of the first step does not matter."""
    n = drive.shape[1]
    if n == 1:
        return drive
    half = n // 2
    a1, a2 = decay[:, 0 : 2 * half : 2], decay[:, 1::2]
    b1, b2 = drive[:, 0 : 2 * half : 2], drive[:, 1::2]
    second = _solve(a1 * a2, torch.addcmul(b2, a2, b1))  # the states after each pair
    states = torch.empty_like(drive)
    states[:, 1::2] = second
    states[:, 0] = drive[:, 0]
    rest = (n - 1) // 2  # the first of each further pair, and an odd one out
    if rest:
        states[:, 2::2] = torch.addcmul(drive[:, 2::2], decay[:, 2::2], second[:, :rest])
    return states


def ema_scan(
    x: Tensor,
    alpha: Tensor,
    *,
    initial: Tensor | None = None,
    keep: Tensor | None = None,
    direction: str = "forward",
    form: str = "parallel",
) -> Tensor:
    """Running average ``s_t = (1 - α) s_{t-1} + α x_t``, channel by channel.

    Args:
        x: (B, N, D).
        alpha: share of the new input, between 0 and 1: (D,), or (B, N, D) where it changes in time.
        initial: state to start from (B, D); zeros if ``None``. Each direction starts from it.
        keep: (B, N) bool; where it is False the state stands still and x is not looked at.
        direction: ``"forward"``, ``"reverse"`` (from the end), or ``"both"``: half their sum.
        form: ``"parallel"``, ``"reference"``, or ``"fft"`` (α per channel and no ``keep``).

    Returns:
        (B, N, D).

    Raises:
        ValueError: a shape does not fit, the sequence is empty, or the form cannot do this.
    """
    shape("x", x, (None, None, None))
    if 0 in x.shape:
        raise ValueError(f"x has shape {tuple(x.shape)}: no size may be 0 (an empty sequence?)")
    one_of("direction", direction, DIRECTIONS)
    one_of("form", form, FORMS)
    if alpha.dim() == 1:
        shape("alpha", alpha, (x.shape[2],))
    else:
        shape("alpha", alpha, tuple(x.shape))
    if keep is not None:
        shape("keep", keep, tuple(x.shape[:2]))
        dtype("keep", keep, torch.bool)
    if form == "fft" and (keep is not None or alpha.dim() != 1):
        raise ValueError("form='fft': needs one alpha a channel and no keep; take 'parallel'")
    settings: dict[str, Any] = {"initial": initial, "keep": keep, "form": form}
    if direction == "both":
        ways = [ema_scan(x, alpha, direction=way, **settings) for way in DIRECTIONS[:2]]
        return (ways[0] + ways[1]) / 2
    if direction == "reverse":
        settings["keep"] = None if keep is None else keep.flip(1)
        alpha = alpha if alpha.dim() == 1 else alpha.flip(1)
        return ema_scan(x.flip(1), alpha, **settings).flip(1)
    if form == "fft":
        return _convolved(x, alpha, initial)
    if form == "parallel" and alpha.dim() == 1 and x.numel() >= LONG:
        if initial is None:
            initial = x.new_zeros(x.shape[0], x.shape[2])
        shape("initial", initial, (x.shape[0], x.shape[2]))
        return ema_blocks(x, alpha, initial, keep)
    if keep is None:
        return linear_scan((1 - alpha).expand_as(x), alpha * x, initial, form)
    gap = ~keep[:, :, None]
    # Before the product: a NaN hidden behind it would still reach the gradient of α.
    alpha, x = alpha.expand_as(x).masked_fill(gap, 0.0), x.masked_fill(gap, 0.0)
    return linear_scan(1 - alpha, alpha * x, initial, form)


def _convolved(x: Tensor, alpha: Tensor, initial: Tensor | None) -> Tensor:
    """The average as a convolution with α (1 - α)^t."""
    n = x.shape[1]
    powers = (1 - alpha) ** torch.arange(n, device=x.device)[:, None]  # (N, D): (1 - α)^t
    size = 2 * n  # so that the end does not wrap round to the start
    spectrum = torch.fft.rfft(x, size, 1) * torch.fft.rfft(alpha * powers, size, 0)
    states = torch.fft.irfft(spectrum, size, 1)[:, :n]
    if initial is None:
        return states
    shape("initial", initial, (x.shape[0], x.shape[2]))
    return states + (1 - alpha) * powers * initial[:, None]


def half_life(alpha: float) -> float:
    """Steps after which half of an input is gone: ln ½ / ln(1 - α).

    Raises:
        ValueError: ``alpha`` is not between 0 and 1 (both excluded).
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha={alpha!r}: must be between 0 and 1, both excluded")
    return math.log(0.5) / math.log1p(-alpha)
