"""Pointer network: attention as the answer (Vinyals et al. 2015, section 2.3).

An LSTM reads the elements, another one points at them, one a step. The output layer *is* the
attention distribution, so its width is the input's length.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sab.checks import positive_int, shape, within
from sab.models.lstm import check_input
from sab.ops.attention import padding_mask

State = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class PointerConfig:
    """Settings of `Pointer`.

    Attributes:
        input_size: features of an element.
        hidden_size: width of both LSTMs and of the score.
        output_size: not used (a run fills it in): a pointer has as many classes as its input has
            elements.
        distinct: an element that was pointed at may not be again.
    """

    input_size: int = 1
    hidden_size: int = 64
    output_size: int = 1
    distinct: bool = True

    def __post_init__(self) -> None:
        """Refuse sizes that are not positive integers (ValueError)."""
        for name in ("input_size", "hidden_size", "output_size"):
            positive_int(name, getattr(self, name))


class Pointer(nn.Module):
    """``p(c_m | c_<m, x) = softmax_n(vᵀ tanh(W e_n + U h_m))``, as many steps as elements.

    Shapes: x (B, N, input_size) → logits (B, N steps, N elements), and ``None`` for the state.
    """

    def __init__(self, config: PointerConfig | None = None) -> None:
        """Build encoder, decoder and the additive score from ``config``."""
        super().__init__()
        self.config = config or PointerConfig()
        size = self.config.hidden_size
        self.encoder = nn.LSTM(self.config.input_size, size, batch_first=True)
        self.decoder = nn.LSTM(self.config.input_size, size, batch_first=True)
        self.start = nn.Parameter(torch.zeros(self.config.input_size))
        self.w = nn.Linear(size, size, bias=False)
        self.u = nn.Linear(size, size, bias=False)
        self.v = nn.Parameter(torch.randn(size) / math.sqrt(size))

    def _encode(self, x: Tensor, lengths: Tensor | None) -> tuple[Tensor, State]:
        """Keys ``W e`` (B, N, hidden) and the state after each sequence's last element."""
        states, (h, c) = self.encoder(x)
        if lengths is not None:
            packed = nn.utils.rnn.pack_padded_sequence(
                x, lengths.cpu(), batch_first=True, enforce_sorted=False
            )
            _, (h, c) = self.encoder(packed)
        return self.w(states), (h, c)

    def _scores(self, keys: Tensor, hidden: Tensor) -> Tensor:
        """Additive scores (B, S, N) of keys (B, N, hidden) for decoder states (B, S, hidden)."""
        return torch.tanh(keys[:, None] + self.u(hidden)[:, :, None]) @ self.v

    def forward(
        self, x: Tensor, targets: Tensor | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, None]:
        """Logits of each pointer; ``-inf`` where it may not point.

        Args:
            x: (B, N, input_size).
            targets: (B, N) int64, the right elements: step m is told those before it ("teacher
                forcing"). ``None``: it is told its own choices, the likeliest at each step.
            lengths: (B,), elements of each sample; the others are padding and may hold anything. A
                sample's logits beyond its own number of steps say nothing.

        Raises:
            ValueError: a shape, a length or a target does not fit, or a target is padding.
        """
        check_input(x, self.config.input_size, lengths)
        batch, count, _ = x.shape
        valid = x.new_ones(batch, count, dtype=torch.bool)
        if lengths is not None:
            valid = padding_mask(lengths, count)
            x = x.masked_fill(~valid[:, :, None], 0.0)
        keys, state = self._encode(x, lengths)
        begin = self.start.expand(batch, 1, -1)
        if targets is None:
            return self._follow(x, keys, state, begin, valid), None
        shape("targets", targets, (batch, count))
        within("targets", targets, 0, count - 1)
        if lengths is not None and bool((valid & (targets >= lengths[:, None])).any()):
            raise ValueError("targets: must not point at padding within a sample's own steps")
        told = x.gather(1, targets[:, :-1, None].expand(-1, -1, x.shape[2]))
        hidden, _ = self.decoder(torch.cat([begin, told], 1), state)
        chosen = nn.functional.one_hot(targets, count).bool()
        before = torch.cat([torch.zeros_like(chosen[:, :1]), chosen[:, :-1]], 1)
        taken = before.long().cumsum(1) > 0
        return self._masked(self._scores(keys, hidden), taken, valid), None

    def _masked(self, scores: Tensor, taken: Tensor, valid: Tensor) -> Tensor:
        """Forbid padding and, if asked, what was taken; a finished sample may point anywhere."""
        allowed = valid[:, None].expand_as(scores)
        if self.config.distinct:
            left = allowed & ~taken
            allowed = torch.where(left.any(-1, keepdim=True), left, allowed)
        return scores.masked_fill(~allowed, -math.inf)

    def _follow(self, x: Tensor, keys: Tensor, state: State, told: Tensor, valid: Tensor) -> Tensor:
        """Decode step by step, each told the element that the one before pointed at."""
        taken = torch.zeros_like(valid)
        rows = torch.arange(len(x), device=x.device)
        steps = []
        for _ in range(x.shape[1]):
            hidden, state = self.decoder(told, state)
            logits = self._masked(self._scores(keys, hidden), taken[:, None], valid)
            steps.append(logits)
            choice = logits[:, 0].argmax(1)
            taken = taken.clone()
            taken[rows, choice] = True
            told = x[rows, choice][:, None]
        return torch.cat(steps, 1)
