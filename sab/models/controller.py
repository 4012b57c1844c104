"""The controller of a network with a memory, and the loop over its steps.

A controller sees the input and what was read at the step before, and says what the heads do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from sab.checks import one_of, positive_int
from sab.ops.attention import padding_mask

KINDS = ("lstm", "feedforward")


class Hidden(NamedTuple):
    """The controller's own state: h and c (B, hidden_size); a feed-forward one keeps neither."""

    h: Tensor
    c: Tensor


class Controller(nn.Module):
    """An LSTM cell, or one layer with tanh that remembers nothing by itself.

    Args:
        kind: ``"lstm"`` or ``"feedforward"``.
        input_size: width of what it sees at a step.
        hidden_size: width of what it says.

    Raises:
        ValueError: a setting is out of range.
    """

    def __init__(self, kind: str, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.kind = one_of("kind", kind, KINDS)
        positive_int("input_size", input_size)
        self.hidden_size = positive_int("hidden_size", hidden_size)
        self.layer: nn.Module = (
            nn.LSTMCell(input_size, hidden_size)
            if kind == "lstm"
            else nn.Linear(input_size, hidden_size)
        )

    def start(self, batch: int, like: Tensor) -> Hidden:
        """Zeros, of ``like``'s type and device."""
        zeros = like.new_zeros(batch, self.hidden_size)
        return Hidden(zeros, zeros)

    def forward(self, x: Tensor, state: Hidden) -> Hidden:
        """One step: x (B, input_size) and the state before it give the state after; h is said."""
        if self.kind == "lstm":
            return Hidden(*self.layer(x, (state.h, state.c)))
        return Hidden(torch.tanh(self.layer(x)), state.c)


State = TypeVar("State", bound=tuple)
Step = Callable[[Tensor, State], tuple[Tensor, State]]


def frozen(alive: Tensor, new: State, old: State) -> State:
    """``new`` where ``alive`` (B,), ``old`` elsewhere: tensors (B, …), also in nested tuples."""
    parts = [
        frozen(alive, a, b)
        if isinstance(a, tuple)
        else torch.where(alive.view(-1, *[1] * (a.dim() - 1)), a, b)
        for a, b in zip(new, old, strict=True)
    ]
    return type(new)(*parts)


def detached(state: State) -> State:
    """The same values without their history."""
    parts = [detached(part) if isinstance(part, tuple) else part.detach() for part in state]
    return type(state)(*parts)


def unroll(
    step: Step[State], x: Tensor, state: State, lengths: Tensor | None
) -> tuple[Tensor, State]:
    """Follow ``step`` over x (B, T, input_size).

    Args:
        step: (B, input_size), state → outputs (B, D), state.
        x: (B, T, input_size).
        state: where to start.
        lengths: (B,) int64, valid steps of each sample. Behind them its state stays as it is, and
            its outputs are zeros; what the padding holds has no influence.

    Returns:
        outputs (B, T, D) and the final state.

    Raises:
        ValueError: a length lies outside 1 … T.
    """
    keep = None if lengths is None else padding_mask(lengths, x.shape[1])
    if keep is not None:
        x = x.masked_fill(~keep[..., None], 0.0)
    outputs = []
    for t, piece in enumerate(x.unbind(1)):
        out, new = step(piece, state)
        if keep is None:
            state = new
        else:
            out = out * keep[:, t, None]
            state = frozen(keep[:, t], new, state)
        outputs.append(out)
    return torch.stack(outputs, 1), state
