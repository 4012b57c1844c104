"""Sentences as vectors: word vectors added up, plainly or so that their order counts."""

from __future__ import annotations

import torch
from torch import Tensor

from sab.checks import dtype, positive_int, shape, within


def _check_present(present: Tensor, width: int) -> None:
    if present.dim() == 0:
        raise ValueError("present has shape (): must be (…, W)")
    if present.dtype != torch.bool:
        raise ValueError(f"present has dtype {present.dtype}: must be torch.bool, True at words")
    positive_int("width", width)


def position_weights(present: Tensor, width: int) -> Tensor:
    """Weights for which a sum of word vectors tells word order: ``l_kj`` for word j, entry k.

    ``l_kj = (1 - j/J) - (k/d)(1 - 2j/J)`` with j = 1 … J words and k = 1 … d entries.

    Args:
        present: (…, W) bool, True at a sentence's words, which stand first; J is their number.
        width: d.

    Returns:
        (…, W, d) float32; 0 where there is no word.

    Raises:
        ValueError: ``present`` is not boolean or has no axis of words, or ``width`` is not a
            positive integer.

    Source: Sukhbaatar et al. 2015, section 4.1.
    """
    _check_present(present, width)
    count = present.sum(-1, keepdim=True).clamp(min=1)
    place = torch.arange(1, present.shape[-1] + 1, device=present.device) / count  # j/J
    entry = torch.arange(1, width + 1, device=present.device) / width  # k/d
    weights = (1 - place)[..., None] - entry * (1 - 2 * place)[..., None]
    return weights * present[..., None]


def bag_weights(present: Tensor, width: int) -> Tensor:
    """As `position_weights`, but every word counts 1: a bag of words (section 4.1 there)."""
    _check_present(present, width)
    return present[..., None].float().expand(*present.shape, width)


def sentence_vectors(words: Tensor, table: Tensor, weights: Tensor) -> Tensor:
    """Weighted sums of word vectors: ``Σ_j l_j ⊙ table[x_j]``.

    Args:
        words: (…, W) int64, numbers of words.
        table: (V, c · d), c word vectors of width d side by side.
        weights: (…, W, d).

    Returns:
        (…, c, d).

    Raises:
        ValueError: a shape or a type does not fit, or a number lies outside 0 … V - 1.
    """
    if words.dim() == 0:
        raise ValueError("words has shape (): must be (…, W)")
    shape("weights", weights, (*words.shape, None))
    shape("table", table, (None, None))
    width = positive_int("width of the weights", weights.shape[-1])
    if table.shape[1] % width:
        raise ValueError(f"table has width {table.shape[1]}: must be a multiple of {width}")
    within("words", words, 0, table.shape[0] - 1)
    dtype("weights", weights, table.dtype)
    found = torch.nn.functional.embedding(words, table)
    found = found.view(*words.shape, -1, width)
    return torch.einsum("...jcd,...jd->...cd", found, weights)
