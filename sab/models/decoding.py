"""What an encoder-decoder writes on its own: greedily, or with several answers kept in sight.

Source: Sutskever et al. 2014, section 3.2 (beam search); Wu et al. 2016, section 7 (length).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from sab.checks import finite_float, positive_int
from sab.models.seq2seq import BEGIN, END, PAD, Seq2Seq


class Decoded(NamedTuple):
    """Answers: ``symbols`` (B, S) int64, ``scores`` (B,), ``weights`` (B, S, N).

    ``symbols`` hold `PAD` after `END`; ``scores`` are log-probabilities in nats of the whole
    answers, divided by a power of their lengths if so asked; ``weights`` are the alignments, zeros
    after `END`.
    """

    symbols: Tensor
    scores: Tensor
    weights: Tensor


def _ranked(log_p: Tensor, lengths: Tensor, power: float) -> Tensor:
    """Log-probabilities divided by length to the ``power``."""
    return log_p / lengths.clamp_min(1).to(log_p) ** power


@torch.no_grad()
def greedy(
    model: Seq2Seq,
    x: Tensor,
    longest: int | None = None,
    lengths: Tensor | None = None,
    power: float = 0.0,
) -> Decoded:
    """Take the likeliest symbol at each step: a beam of width 1.

    Arguments and errors: as for `beam`.
    """
    return _search(model, x, 1, longest, lengths, power)


@torch.no_grad()
def beam(
    model: Seq2Seq,
    x: Tensor,
    width: int = 5,
    longest: int | None = None,
    lengths: Tensor | None = None,
    power: float = 0.0,
) -> Decoded:
    """Keep the ``width`` best beginnings at each step; return the best answer found.

    The search alone may lose the greedy answer and end with a worse one: its beginning can fall
    out of the beam. So the greedy answer takes part at the end, and the score is never below its.

    Args:
        model: in the mode it is wanted in (``eval`` for answers without dropout).
        x: (B, N) int64, the source.
        width: beginnings kept; there may be fewer, and then the best answer is found.
        longest: steps at most, `END` included; ``None``: the model's.
        lengths: (B,), real symbols of each source; ``None``: those before the first `PAD`.
        power: answers are ranked by log-probability / length^power; 0 favours short ones.

    Raises:
        ValueError: ``width`` or ``longest`` is not a positive integer, ``power`` is below 0, or a
            source does not fit.
    """
    positive_int("width", width)
    single = _search(model, x, 1, longest, lengths, power)
    if width == 1:
        return single
    found = _search(model, x, width, longest, lengths, power)
    worse = found.scores < single.scores
    return Decoded(
        torch.where(worse[:, None], single.symbols, found.symbols),
        torch.where(worse, single.scores, found.scores),
        torch.where(worse[:, None, None], single.weights, found.weights),
    )


def _search(
    model: Seq2Seq,
    x: Tensor,
    width: int,
    longest: int | None,
    lengths: Tensor | None,
    power: float,
) -> Decoded:
    """The beams of all sequences at once: row b · width + k is the k-th of sequence b."""
    steps = positive_int("longest", model.config.longest if longest is None else longest)
    finite_float("power", power, 0.0)
    source = model.encode(x, lengths).repeat(width)
    batch, count = len(x), model.config.output_size
    state, told = source.state, x.new_full((batch * width,), BEGIN)
    log_p = source.state.new_full((batch, width), -math.inf)
    log_p[:, 0] = 0.0
    sizes = torch.zeros_like(log_p, dtype=torch.int64)
    ended = torch.zeros_like(log_p, dtype=torch.bool)
    symbols = x.new_full((batch * width, steps), PAD)
    weights = source.state.new_zeros(batch * width, steps, x.shape[1])
    first = torch.arange(batch, device=x.device)[:, None] * width
    only_pad = source.state.new_full((count,), -math.inf)
    only_pad[PAD] = 0.0  # an ended answer goes on as it is
    for i in range(steps):
        found = model.step(told, state, source)
        here = torch.log_softmax(found.logits, 1).view(batch, width, count)
        here = torch.where(ended[:, :, None], only_pad, here)
        total = log_p[:, :, None] + here
        grown = sizes + (~ended).long()
        rank = _ranked(total, grown[:, :, None], power).flatten(1)
        best = rank.topk(width, 1).indices
        log_p = total.flatten(1).gather(1, best)
        parent, symbol = best // count, best % count
        rows = (first + parent).flatten()
        sizes, ended = grown.gather(1, parent), ended.gather(1, parent)
        looked = found.weights[rows].masked_fill(ended.flatten()[:, None], 0.0)
        symbols, weights = symbols[rows], weights[rows]
        symbols[:, i], weights[:, i] = symbol.flatten(), looked
        told, state = symbol.flatten(), found.state[rows]
        ended = ended | (symbol == END)
        if bool(ended.all()):
            break
    rank = _ranked(log_p, sizes, power)
    top = (first[:, 0] + rank.argmax(1)).tolist()
    return Decoded(symbols[top], rank.amax(1), weights[top])
