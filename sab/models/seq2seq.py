"""Encoder-decoder with attention: a GRU reads, another writes and looks back at what was read.

Source: Bahdanau et al. 2015, section 3 and appendix A. The encoder runs both ways, so that a
state knows what stands on either side of its symbol. Two simplifications: the answer's layer is a
tanh where the paper has a maxout, and it sees the new decoder state where the paper gives it the
one before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from sab.checks import finite_float, one_of, positive_int, shape
from sab.ops.attention import Read, padding_mask, soft_read

PAD, BEGIN, END = 0, 1, 2
"""Symbols with a meaning: padding, what the decoder is told first, what ends an answer."""


@dataclass(frozen=True)
class Seq2SeqConfig:
    """Settings of `Seq2Seq`.

    Attributes:
        input_size: kinds of source symbol, `PAD` among them.
        output_size: kinds of target symbol; `PAD`, `BEGIN` and `END` are the first three.
        embed_size: width of a symbol's vector.
        hidden_size: width of each direction of the encoder, of the decoder and of the score.
        longest: steps of an answer that the model gives on its own, `END` included.
        attention: ``False``: the decoder is given the same vector at each step, the encoder's last
            states (Cho et al. 2014), and has nothing to look at.
        dropout: share of the embeddings' and the answer's entries that training leaves out.
    """

    input_size: int = 16
    output_size: int = 16
    embed_size: int = 32
    hidden_size: int = 64
    longest: int = 16
    attention: bool = True
    dropout: float = 0.0

    def __post_init__(self) -> None:
        """Refuse sizes that are not positive integers and a share out of range (ValueError)."""
        for name in ("embed_size", "hidden_size", "longest"):
            positive_int(name, getattr(self, name))
        for name in ("input_size", "output_size"):
            positive_int(name, getattr(self, name), END + 2)
        one_of("attention", self.attention, (True, False))
        finite_float("dropout", self.dropout, 0.0, 0.95)


class Source(NamedTuple):
    """What the decoder looks at.

    ``states`` (B, N, 2 hidden), their ``keys`` ``W h`` (B, N, hidden), ``keep`` (B, N) bool, True
    at real symbols, the encoder's last states as one vector, ``whole`` (B, 2 hidden), and the
    decoder's first ``state`` (B, hidden).
    """

    states: Tensor
    keys: Tensor
    keep: Tensor
    whole: Tensor
    state: Tensor

    def repeat(self, times: int) -> Source:
        """Each sequence ``times`` times running, as a beam needs it."""
        return Source(*(part.repeat_interleave(times, 0) for part in self))


class Step(NamedTuple):
    """One step of the decoder: ``logits`` (B, symbols), ``state`` (B, hidden), ``weights`` (B, N).

    ``weights`` is the alignment: where it looked.
    """

    logits: Tensor
    state: Tensor
    weights: Tensor


class Seq2Seq(nn.Module):
    """From source symbols to target symbols, aligned softly.

    With encoder states h_j and decoder state s_i:
    ``e_ij = vᵀ tanh(W h_j + U s_{i-1})``, ``α_i = softmax(e_i)``, ``c_i = Σ_j α_ij h_j``,
    ``s_i = GRU([E y_{i-1}; c_i], s_{i-1})``, ``p(y_i) = softmax(V tanh(T [s_i; c_i; E y_{i-1}]))``.

    Shapes: x (B, N) int64 → logits (B, M, output_size), and ``None`` for the state.
    """

    def __init__(self, config: Seq2SeqConfig | None = None) -> None:
        """Build encoder, score, decoder and answer from ``config``."""
        super().__init__()
        self.config = config or Seq2SeqConfig()
        c = self.config
        self.embed_source = nn.Embedding(c.input_size, c.embed_size)
        self.embed_target = nn.Embedding(c.output_size, c.embed_size)
        self.encoder = nn.GRU(c.embed_size, c.hidden_size, batch_first=True, bidirectional=True)
        self.first = nn.Linear(c.hidden_size, c.hidden_size)
        self.w = nn.Linear(2 * c.hidden_size, c.hidden_size, bias=False)
        self.u = nn.Linear(c.hidden_size, c.hidden_size, bias=False)
        self.v = nn.Parameter(torch.randn(c.hidden_size) / math.sqrt(c.hidden_size))
        self.cell = nn.GRUCell(c.embed_size + 2 * c.hidden_size, c.hidden_size)
        self.inner = nn.Linear(3 * c.hidden_size + c.embed_size, c.hidden_size)
        self.answer = nn.Linear(c.hidden_size, c.output_size)
        self.dropout = nn.Dropout(c.dropout)

    def encode(self, x: Tensor, lengths: Tensor | None = None) -> Source:
        """Read the source.

        Args:
            x: (B, N) int64.
            lengths: (B,), real symbols of each sequence; ``None``: those before the first `PAD`.

        Raises:
            ValueError: a shape, a symbol or a length does not fit, or a sequence is empty.
        """
        shape("x", x, (None, None))
        _check_symbols("x", x, self.config.input_size)
        if x.shape[0] < 1 or x.shape[1] < 1:
            raise ValueError(f"x has shape {tuple(x.shape)}: needs a sequence and a symbol (empty)")
        if lengths is None:
            lengths = (x != PAD).long().cumprod(1).sum(1)
        keep = padding_mask(lengths, x.shape[1])
        embedded = self.dropout(self.embed_source(x))
        packed = pack_padded_sequence(embedded, lengths.cpu(), True, enforce_sorted=False)
        out, last = self.encoder(packed)
        states, _ = pad_packed_sequence(out, batch_first=True, total_length=x.shape[1])
        # The way back ends at the first symbol, and has seen all of them.
        state = torch.tanh(self.first(last[1]))
        return Source(states, self.w(states), keep, torch.cat([last[0], last[1]], 1), state)

    def _look(self, state: Tensor, source: Source) -> Read:
        """What a decoder state (B, hidden) reads, (B, 2 hidden), and the weights (B, N) behind it.

        `sab.ops.scores.additive`, with ``W h`` computed once. Without attention the weights are 0.
        """
        if not self.config.attention:
            return Read(source.whole, torch.zeros_like(source.keys[:, :, 0]))
        scores = torch.tanh(source.keys + self.u(state)[:, None]) @ self.v
        return soft_read(scores, source.states, source.keep)

    def _answered(self, states: Tensor, contexts: Tensor, told: Tensor) -> Tensor:
        """Logits from the last axis of all three; -inf where no answer may be."""
        hidden = torch.tanh(self.inner(torch.cat([states, contexts, told], -1)))
        logits = self.answer(self.dropout(hidden))
        never = torch.zeros_like(logits[..., :2]) - math.inf  # padding and the beginning
        return torch.cat([never, logits[..., 2:]], -1)

    def step(self, told: Tensor, state: Tensor, source: Source) -> Step:
        """Write one symbol, having been told the one before, ``told`` (B,) int64."""
        embedded = self.dropout(self.embed_target(told))
        context, weights = self._look(state, source)
        state = self.cell(torch.cat([embedded, context], 1), state)
        return Step(self._answered(state, context, embedded), state, weights)

    def forward(
        self,
        x: Tensor,
        targets: Tensor | None = None,
        lengths: Tensor | None = None,
        return_weights: bool = False,
    ) -> Any:
        """Logits of each target symbol, given the source and the symbols before it.

        Args:
            x: (B, N) int64, the source.
            targets: (B, M) int64, the right answers, padded with `PAD`: step i is told those before
                it ("teacher forcing"). ``None``: it is told its own choices, the likeliest at each
                step, for ``longest`` steps; after `END` they say nothing.
            lengths: (B,), real symbols of each source; ``None``: those before the first `PAD`.
            return_weights: also return the alignment (B, M, N).

        Returns:
            logits (B, M, output_size), ``None``[, weights]. `PAD` and `BEGIN` have -inf.

        Raises:
            ValueError: a shape, a symbol or a length does not fit, or a source is empty.
        """
        if targets is not None:
            shape("targets", targets, (x.shape[0], None))
            _check_symbols("targets", targets, self.config.output_size)
        source = self.encode(x, lengths)
        if targets is None:
            logits, weights = self._alone(source)
        else:
            logits, weights = self._told(targets, source)
        return (logits, None, weights) if return_weights else (logits, None)

    def _told(self, targets: Tensor, source: Source) -> tuple[Tensor, Tensor]:
        """All steps at the right symbols; the answer's layer, the widest, comes after the loop."""
        told = torch.cat([torch.full_like(targets[:, :1], BEGIN), targets[:, :-1]], 1)
        embedded = self.dropout(self.embed_target(told))
        state = source.state
        states, contexts, alignment = [], [], []
        for i in range(targets.shape[1]):
            context, weights = self._look(state, source)
            state = self.cell(torch.cat([embedded[:, i], context], 1), state)
            states.append(state)
            contexts.append(context)
            alignment.append(weights)
        logits = self._answered(torch.stack(states, 1), torch.stack(contexts, 1), embedded)
        return logits, torch.stack(alignment, 1)

    def _alone(self, source: Source) -> tuple[Tensor, Tensor]:
        """Step by step, each told what the one before found likeliest."""
        state = source.state
        told = torch.full_like(source.keep[:, 0], BEGIN, dtype=torch.int64)
        logits, alignment = [], []
        for _ in range(self.config.longest):
            found = self.step(told, state, source)
            state, told = found.state, found.logits.argmax(1)
            logits.append(found.logits)
            alignment.append(found.weights)
        return torch.stack(logits, 1), torch.stack(alignment, 1)


def _check_symbols(name: str, symbols: Tensor, count: int) -> None:
    if symbols.dtype != torch.int64 or bool((symbols < 0).any() | (symbols >= count).any()):
        raise ValueError(f"{name}: must be int64 symbols between 0 and {count - 1}")
