"""A simulation of register D5: on PyTorch 0.1.12 the sequences of a batch share their thresholds.

Inferred, not observed. The released program indexes the thresholds out of a matrix (B, k), which
leaves a vector (B,), and repeats it M times as if it were a column: a row of B · M numbers that
runs through the batch, over and over. Subtracting it from the scores (B, M) is an error today. Up
to PyTorch 0.1.12 two tensors of different shape and equally many elements were taken element by
element, in storage order (the backward-compatibility note of PyTorch's broadcasting page says so):
the score of memory i in sequence b then meets the threshold of sequence (b · M + i) mod B.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sab.checks import positive_int, shape
from sab.models.sab import SAB
from sab.ops.sab_scan.reference import lstm_cell
from sab.ops.scores import additive, separable
from sab.ops.sparse_weights import RELEASED_EPS, candidate_count, sparse_weights


def mixed(thresholds: Tensor, memories: int) -> Tensor:
    """Lay thresholds (B,) out over scores (B, M) as PyTorch 0.1.12 did.

    Returns:
        (B, M); entry (b, i) is the threshold of sequence (b · M + i) mod B.

    Raises:
        ValueError: ``thresholds`` is not a vector, or ``memories`` not a positive integer.
    """
    shape("thresholds", thresholds, (None,))
    return thresholds.repeat(positive_int("memories", memories)).view(len(thresholds), memories)


def foreign(batch: int, memories: int) -> float:
    """Share of the B · M scores that meet another sequence's threshold.

    Raises:
        ValueError: an argument is not a positive integer.
    """
    owner = mixed(torch.arange(positive_int("batch", batch)), memories)
    return float((owner != torch.arange(batch)[:, None]).double().mean())


def mixed_weights(
    scores: Tensor, k_top: int, threshold: str = "k_top+1", short_memory: str = "margin"
) -> Tensor:
    """Weights (B, M) of a read with thresholds mixed up across the batch.

    While M ≤ k_top there is no threshold to mix up: `sparse_weights` as it is. The sum is taken per
    sequence and has 1e-7 added, as in the released program.

    Raises:
        ValueError: as `sparse_weights`.
    """
    held = scores.shape[1]
    if held <= k_top:
        return sparse_weights(scores, k_top, threshold, short_memory).dense(held)
    limit = scores.topk(candidate_count(k_top, threshold), 1).values[:, -1]
    if threshold == "k_top":
        limit = limit + RELEASED_EPS
    margins = (scores - mixed(limit, held)).clamp(min=0)
    return margins / (margins.sum(1, keepdim=True) + RELEASED_EPS)


@dataclass(frozen=True)
class MixedRun:
    """What a model does with mixed thresholds.

    Attributes:
        logits: (B, T, output_size).
        read: (B, T) int64, how many memories each step reads with a weight above 0; −1 while the
            memory holds no more than k_top.
    """

    logits: Tensor
    read: Tensor


def run_mixed(model: SAB, x: Tensor, mix: bool = True) -> MixedRun:
    """Run ``model`` over ``x (B, T, input_size)``, with gradients as its options say.

    Args:
        model: SAB with block or no truncation and full replay.
        x: (B, T, input_size).
        mix: ``False``: each sequence keeps its own threshold, as in `SAB.forward`.

    Raises:
        ValueError: a shape does not fit, or the model has another truncation or replay.
    """
    layer, options = model.layer, model.layer.options
    shape("x", x, (None, None, layer.input_size))
    if options.truncation != "block" or options.replay != "full":
        raise ValueError(
            f"model has truncation={options.truncation!r}, replay={options.replay!r}: must be "
            "'block' and 'full'"
        )
    rule = (options.k_top, options.threshold, options.short_memory)
    score = additive if options.score == "additive" else separable
    gates = x @ layer.weight_ih.T + layer.bias
    state = layer.init_state(len(x))
    h, c = state.h, state.c
    memory = [state.memory[:, i] for i in range(state.memory.shape[1])]
    logits, read = [], []
    for t in range(1, x.shape[1] + 1):
        if options.k_trunc and (t - options.block_offset) % options.k_trunc == 0:
            h, c = h.detach(), c.detach()
        h, c = lstm_cell(gates[:, t - 1], h, c, layer.weight_hh)
        held = len(memory)
        s = torch.zeros_like(h)
        count = torch.full((len(x),), -1)
        if held:
            stored = torch.stack(memory, 1)
            seen, query = stored, h
            if options.score_gradient == "scorer":
                seen, query = stored.detach(), h.detach()
            scores = score(seen, query, *layer.weights.scorer)
            weights = (
                mixed_weights(scores, *rule) if mix else sparse_weights(scores, *rule).dense(held)
            )
            s = (weights[..., None] * stored).sum(1)
            count = (weights > 0).sum(1) if held > options.k_top else count
        h = h + s
        logits.append(model.v1(h) + model.v2(s))
        read.append(count)
        if t % options.k_att == 0:
            memory.append(h)
    return MixedRun(torch.stack(logits, 1), torch.stack(read, 1))
