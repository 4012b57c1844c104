"""The controller of a network with a memory, and the loop over its steps.

A controller sees the input and what was read at the step before, and says what the heads do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from sab.checks import one_of, positive_int
from sab.models.lstm import check_input
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


class MemoryNetwork(nn.Module, Generic[State]):
    """A controller with a memory that it works step by step: what `NTM` and `DNC` share.

    A subclass sets ``config`` (it has an ``input_size``), ``controller`` and ``readout``, and says
    how a sequence starts (`start`) and what a step does (`_step`).

    Shapes: x (B, T, input_size) → logits (B, T, output_size) and the final state, detached.
    """

    config: Any
    controller: Controller
    readout: nn.Linear

    def start(self, batch: int, like: Tensor) -> State:
        """The state before the first step, of ``like``'s type and device."""
        raise NotImplementedError

    def _step(self, x: Tensor, state: State) -> tuple[Tensor, State, Any]:
        """One step from x (B, input_size): what the read-out sees, the new state, and why."""
        raise NotImplementedError

    def forward(
        self, x: Tensor, state: State | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """Logits (B, T, output_size) and the final state.

        Args:
            x: (B, T, input_size).
            state: where to start; it gets no gradient. ``None``: an empty memory.
            lengths: (B,) int64, valid steps of each sample; ``None``: all T. Behind them its state
                stays as it is, and its logits are those of zeros.

        Raises:
            ValueError: a shape or a length does not fit.
        """
        check_input(x, self.config.input_size, lengths)
        state = self.start(x.shape[0], x) if state is None else detached(state)
        out, state = unroll(lambda piece, at: self._step(piece, at)[:2], x, state, lengths)
        return self.readout(out), detached(state)

    def _walk(self, x: Tensor) -> Iterator[tuple[Tensor, State, Any]]:
        """The steps of x (B, T, input_size) from an empty memory, as `_step` returns them.

        Raises:
            ValueError: the shape does not fit.
        """
        check_input(x, self.config.input_size, None)
        state = self.start(x.shape[0], x)
        for piece in x.unbind(1):
            out, state, why = self._step(piece, state)
            yield out, state, why
