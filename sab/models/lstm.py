"""LSTM with full or truncated backpropagation: the paper's baselines (section 4).

Computed by `torch.nn.LSTM`; truncation runs it block by block and detaches the state in between.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from sab.checks import dtype, finite_float, positive_int, shape

State = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class LSTMConfig:
    """Settings of `LSTM`.

    Attributes:
        input_size: width of the input.
        hidden_size: width n of the state.
        output_size: width of the read-out.
        k_trunc: steps of backpropagation; ``None`` is full BPTT, k is TBPTT-k in blocks 1…k,
            k+1…2k.
        forget_bias: added to the forget gate's bias at the start.
    """

    input_size: int = 10
    hidden_size: int = 128
    output_size: int = 10
    k_trunc: int | None = None
    forget_bias: float = 1.0

    def __post_init__(self) -> None:
        """Refuse sizes that are not positive integers and a bias not finite (ValueError)."""
        for name in ("input_size", "hidden_size", "output_size"):
            positive_int(name, getattr(self, name))
        if self.k_trunc is not None:
            positive_int("k_trunc", self.k_trunc)
        finite_float("forget_bias", self.forget_bias)


def add_forget_bias(bias: Tensor, value: float) -> None:
    """Add ``value`` to the forget gate's quarter of ``bias`` (4n,), in place."""
    n = bias.shape[0] // 4
    with torch.no_grad():
        bias[n : 2 * n] += value


def check_input(x: Tensor, input_size: int, lengths: Tensor | None) -> None:
    """Refuse an input of the wrong shape, an empty one, or lengths not int64 or out of range.

    Raises:
        ValueError: see above.
    """
    shape("x", x, (None, None, input_size))
    if x.shape[0] < 1 or x.shape[1] < 1:
        raise ValueError(f"x has shape {tuple(x.shape)}: needs at least one sequence and one step")
    if lengths is not None:
        shape("lengths", lengths, (x.shape[0],))
        dtype("lengths", lengths, torch.int64)
        if lengths.min() < 1 or lengths.max() > x.shape[1]:
            raise ValueError(f"lengths={lengths.tolist()}: each must be between 1 and {x.shape[1]}")


class LSTM(nn.Module):
    """LSTM with a linear read-out.

    Shapes: x (B, T, input_size) → logits (B, T, output_size) and the state (h, c), each
    (B, hidden_size), detached.
    """

    def __init__(self, config: LSTMConfig | None = None) -> None:
        """Build the layer and its read-out from ``config``."""
        super().__init__()
        self.config = config or LSTMConfig()
        self.lstm = nn.LSTM(self.config.input_size, self.config.hidden_size, batch_first=True)
        self.readout = nn.Linear(self.config.hidden_size, self.config.output_size)
        add_forget_bias(cast(Tensor, self.lstm.bias_ih_l0), self.config.forget_bias)

    def hidden(
        self, x: Tensor, state: State | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """Hidden states (B, T, hidden_size), zeros where padded, and the final state.

        Args:
            x: (B, T, input_size).
            state: where to start (zeros if ``None``); it gets no gradient.
            lengths: (B,) int64, valid steps of each sample; ``None``: all T.

        Raises:
            ValueError: a shape or a length does not fit.
        """
        check_input(x, self.config.input_size, lengths)
        batch, steps, _ = x.shape
        zeros = x.new_zeros(batch, self.config.hidden_size)
        h, c = (zeros, zeros) if state is None else (state[0].detach(), state[1].detach())
        block = self.config.k_trunc or steps
        outputs = []
        for start in range(0, steps, block):
            piece = x[:, start : start + block]
            left = None if lengths is None else (lengths - start).clamp(0, piece.shape[1])
            out, (h, c) = self._block(piece, (h.detach(), c.detach()), left)
            outputs.append(out)
        return torch.cat(outputs, 1), (h.detach(), c.detach())

    def _block(self, x: Tensor, state: State, lengths: Tensor | None) -> tuple[Tensor, State]:
        """One block without a cut inside."""
        if lengths is None:
            out, (h, c) = self.lstm(x, (state[0][None].contiguous(), state[1][None].contiguous()))
            return out, (h[0], c[0])
        alive = lengths > 0
        out = x.new_zeros(*x.shape[:2], self.config.hidden_size)
        if not alive.any():
            return out, state
        packed = pack_padded_sequence(
            x[alive], lengths[alive].cpu(), batch_first=True, enforce_sorted=False
        )
        packed_out, (h, c) = self.lstm(packed, (state[0][None, alive], state[1][None, alive]))
        live_out, _ = pad_packed_sequence(packed_out, batch_first=True, total_length=x.shape[1])
        where = alive.nonzero()[:, 0]
        return (
            out.index_copy(0, where, live_out),
            (state[0].index_copy(0, where, h[0]), state[1].index_copy(0, where, c[0])),
        )

    def forward(
        self, x: Tensor, state: State | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """Logits (B, T, output_size) and the final state; see `hidden` for arguments and errors."""
        out, state = self.hidden(x, state, lengths)
        return self.readout(out), state
