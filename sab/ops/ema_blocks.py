"""The running average block by block: fewer passes over memory than halving, for long sequences.

N steps are M blocks of C. All blocks go through their steps side by side, each from zero: C
operations on (B, M, D), of which only the last state is kept. M operations carry it from block to
block, where a block leaves (1 - α)^real of what it starts from, real being its real steps. Then all
blocks go through their steps again, each from its own start. Products of factors in [0, 1] only; no
division, so nothing can overflow.

Shapes: B sequences, N steps, D channels; inside, (B, M, C, D).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

BLOCK = 64
HUGE = 1e18  # differences of numbers below it are finite in float32


def ema_blocks(
    x: Tensor, alpha: Tensor, initial: Tensor, keep: Tensor | None, block: int = BLOCK
) -> Tensor:
    """``s_t = (1 - α) s_{t-1} + α x_t``; where ``keep`` is False the state stands still.

    Args:
        x: (B, N, D).
        alpha: (D,), between 0 and 1.
        initial: s_0, (B, D).
        keep: (B, N) bool, or ``None``: all steps are real.
        block: C, steps of a block.

    Returns:
        s_1 … s_N, (B, N, D). It can be differentiated once.
    """
    n = x.shape[1]
    if keep is None and n % block:
        keep = torch.ones(1, n, dtype=torch.bool, device=x.device)  # the last block is filled up
    states: Tensor = _Average.apply(x, alpha, initial, keep, block)
    return states


def _cut(x: Tensor, block: int) -> Tensor:
    """(B, N, D) → (B, M, C, D), filled up with zeros."""
    spare = -x.shape[1] % block
    if spare:  # padding by nothing would still copy
        x = functional.pad(x, (0, 0, 0, spare))
    return x.unflatten(1, (-1, block))


class _Steps:
    """The steps of all blocks: how much each takes of its input and leaves of the state."""

    def __init__(self, alpha: Tensor, keep: Tensor | None, block: int) -> None:
        self.alpha, self.block = alpha, block
        self.real: Tensor | None = None  # (B, M, C, 1): 1 at real steps, 0 at padding
        if keep is not None:
            self.real = _cut(keep[:, :, None].to(alpha.dtype), block)

    def inputs(self, x: Tensor, keep: Tensor | None) -> Tensor:
        """The input in blocks, (B, M, C, D), finite at padding whatever stands there.

        A step that takes nothing multiplies its input by zero, which only a number survives.
        """
        if keep is not None and len(keep) == len(x):
            rows, gaps = x.flatten(0, 1), (~keep).flatten().nonzero()[:, 0]
            if len(gaps) and not rows[gaps].abs().amax() < HUGE:  # not: NaN is not less either
                x = rows.index_fill(0, gaps, 0.0).view_as(x)
        return _cut(x, self.block)

    def take(self, c: int) -> Tensor:
        """What step ``c`` takes of its input: (D,) or (B, M, D)."""
        return self.alpha if self.real is None else self.alpha * self.real[:, :, c]

    def all_left(self, blocks: int) -> Tensor:
        """What a whole block leaves of the state, (1 or B, M, D)."""
        if self.real is None:
            return ((1 - self.alpha) ** self.block).expand(1, blocks, -1)
        return (1 - self.alpha) ** self.real.sum(2)


class _Average(torch.autograd.Function):
    """Forward, and the same recurrence in reverse for the gradients.

    With r_t the gradient that reaches s_t by all ways, ``r_t = ∂L/∂s_t + h_{t+1}``, where a step
    hands ``h_t = (1 - α) r_t`` to the one before it; that of x_t is α r_t, and that of α the sum of
    (x_t - s_{t-1}) r_t, over real steps.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, alpha: Tensor, initial: Tensor, keep: Tensor | None, block: int
    ) -> Tensor:
        steps = _Steps(alpha, keep, block)
        inputs = steps.inputs(x, keep)
        states = torch.empty_like(inputs)
        now = torch.zeros_like(inputs[:, :, 0])
        for c in range(block):
            now = torch.lerp(now, inputs[:, :, c], steps.take(c).expand_as(now))
        left, carry, starts = steps.all_left(states.shape[1]), initial, []
        for m in range(states.shape[1]):
            starts.append(carry)
            carry = torch.addcmul(now[:, m], left[:, m], carry)
        now = torch.stack(starts, 1)
        for c in range(block):
            take = steps.take(c).expand_as(now)
            now = torch.lerp(now, inputs[:, :, c], take, out=states[:, :, c])
        ctx.save_for_backward(inputs, alpha, initial, keep, states)
        ctx.block = block
        return states.flatten(1, 2)[:, : x.shape[1]]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        inputs, alpha, initial, keep, states = ctx.saved_tensors
        block, blocks = ctx.block, states.shape[1]
        steps, grads = _Steps(alpha, keep, block), _cut(grad, block)
        handed = torch.zeros_like(inputs[:, :, 0])
        for c in reversed(range(block)):
            handed = (grads[:, :, c] + handed) * (1 - steps.take(c))
        left, carry, ends = steps.all_left(blocks), torch.zeros_like(initial), []
        for m in reversed(range(blocks)):
            ends.append(carry)
            carry = torch.addcmul(handed[:, m], left[:, m], carry)
        handed = torch.stack(ends[::-1], 1)
        before = torch.cat([initial[:, None], states[:, :-1, -1]], 1)
        to_alpha, to_x = torch.zeros_like(before), torch.empty_like(inputs)
        for c in reversed(range(block)):
            reach = grads[:, :, c] + handed
            handed = reach - torch.mul(reach, steps.take(c), out=to_x[:, :, c])
            if steps.real is not None:
                reach *= steps.real[:, :, c]
            last = states[:, :, c - 1] if c else before
            to_alpha.addcmul_(inputs[:, :, c] - last, reach)
        to_x = to_x.flatten(1, 2)[:, : grad.shape[1]]
        return to_x, to_alpha.sum((0, 1)), carry, None, None
