"""Models that count: what a character language model has to beat.

An n-gram model tells the next character from the n − 1 before it, by how often each followed them
in the training part. Contexts that were rarely seen fall back on shorter ones by Witten and Bell's
rule, down to a uniform guess, so that no character has probability 0.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from sab.checks import positive_int, shape


def _keys(codes: np.ndarray, symbols: int, order: int, start: int) -> np.ndarray:
    """Each character and the ``order`` − 1 before it as a number (N,) to the base ``symbols``."""
    padded = np.concatenate([np.full(order - 1, start, np.int64), codes])
    keys = np.zeros(len(codes), np.int64)
    for i in range(order):
        keys = keys * symbols + padded[i : i + len(codes)]
    return keys


def _found(known: np.ndarray, values: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The value of each wanted key, 0 for one that is not known; ``known`` is sorted."""
    place = np.searchsorted(known, wanted).clip(max=len(known) - 1)
    return np.where(known[place] == wanted, values[place], 0)


def ngram_bits(train: Tensor, test: Tensor, symbols: int, order: int, start: int = 0) -> Tensor:
    """Bits of each character of ``test`` for models of orders 1 to ``order`` counted on ``train``.

    With n(c) the times a context c was seen and k(c) the kinds of characters after it,

        p(x | c) = (n(c x) + k(c) p(x | c without its first)) / (n(c) + k(c)),

    and a context never seen leaves the shorter one's answer.

    Args:
        train: (M,) codes from 0 to ``symbols`` − 1.
        test: (N,) codes.
        symbols: size of the alphabet.
        order: the highest: 1 for single characters, 2 for pairs, and so on.
        start: what stands before each part.

    Returns:
        (order, N) float64, −log2 p, a row an order; a row's mean is its model's bits a character.

    Raises:
        ValueError: a shape or number does not fit, or a context does not fit 63 bits.

    Source: Witten and Bell (1991); BPC as in the paper, section 4.
    """
    shape("train", train, (None,))
    shape("test", test, (None,))
    positive_int("order", order)
    if positive_int("symbols", symbols) ** order >= 2**63:
        raise ValueError(f"order={order!r}: {order} of {symbols} symbols do not fit 63 bits")
    past, codes = (part.numpy().astype(np.int64) for part in (train, test))
    chance = np.full(len(codes), 1 / symbols)
    bits = np.empty((order, len(codes)))
    for length in range(1, order + 1):
        strings, counts = np.unique(_keys(past, symbols, length, start), return_counts=True)
        contexts, first = np.unique(strings // symbols, return_index=True)
        total = np.add.reduceat(counts, first)
        kinds = np.diff(np.append(first, len(strings)))
        wanted = _keys(codes, symbols, length, start)
        here = _found(strings, counts, wanted)
        seen, after = (_found(contexts, v, wanted // symbols) for v in (total, kinds))
        known = seen > 0
        mixed = (here + after * chance) / np.maximum(seen + after, 1)
        chance = np.where(known, mixed, chance)
        bits[length - 1] = -np.log2(chance)
    return torch.from_numpy(bits)
