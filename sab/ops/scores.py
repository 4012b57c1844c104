"""Scoring functions: how well a memory answers a query.

Shapes: batch B, memories M, width n, score width d. Every function takes ``memories`` (B, M, n)
and ``query`` (B, n), and returns unnormalised scores (B, M). None of them normalises or masks.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from sab.checks import shape


def _check(memories: Tensor, query: Tensor) -> tuple[int, int]:
    shape("memories", memories, (None, None, None))
    batch, _, width = memories.shape
    shape("query", query, (batch, None))
    return width, query.shape[1]


def additive(memories: Tensor, query: Tensor, w1: Tensor, w2: Tensor, w3: Tensor) -> Tensor:
    """Score ``w3ᵀ tanh(W1 m + W2 q)``: the paper's.

    Args:
        memories: (B, M, n).
        query: (B, n).
        w1: (d, n), for the memories.
        w2: (d, n), for the query.
        w3: (d,).

    Returns:
        Scores (B, M), unitless.

    Raises:
        ValueError: a shape does not fit.

    Source: paper, Algorithm 1, the two lines that define d and a.
    """
    width, query_width = _check(memories, query)
    shape("w1", w1, (None, width))
    shape("w2", w2, (w1.shape[0], query_width))
    shape("w3", w3, (w1.shape[0],))
    return torch.tanh(memories @ w1.T + (query @ w2.T)[:, None]) @ w3


def dot(memories: Tensor, query: Tensor) -> Tensor:
    """Score ``mᵀ q`` (Luong et al. 2015).

    Args:
        memories: (B, M, n).
        query: (B, n).

    Returns:
        Scores (B, M).

    Raises:
        ValueError: a shape does not fit.
    """
    width, _ = _check(memories, query)
    shape("query", query, (memories.shape[0], width))
    return (memories @ query[:, :, None])[:, :, 0]


def scaled_dot(memories: Tensor, query: Tensor) -> Tensor:
    """Score ``mᵀ q / √n`` (Vaswani et al. 2017, equation 1).

    The division gives the score variance 1 where the entries are independent, of mean 0 and
    variance 1.

    Args:
        memories: (B, M, n).
        query: (B, n).

    Returns:
        Scores (B, M).

    Raises:
        ValueError: a shape does not fit.
    """
    return dot(memories, query) / math.sqrt(memories.shape[-1])


def bilinear(memories: Tensor, query: Tensor, w: Tensor) -> Tensor:
    """Score ``mᵀ W q`` (Luong et al. 2015, "general").

    Args:
        memories: (B, M, n).
        query: (B, p).
        w: (n, p).

    Returns:
        Scores (B, M).

    Raises:
        ValueError: a shape does not fit.
    """
    width, query_width = _check(memories, query)
    shape("w", w, (width, query_width))
    return dot(memories, query @ w.T)


def separable(memories: Tensor, query: Tensor, w_memory: Tensor, w_query: Tensor) -> Tensor:
    """Score ``w_memoryᵀ tanh(m) + w_queryᵀ tanh(q)``: the released code's (discrepancy D1).

    The query's term is the same for every memory, so it cancels wherever only differences of
    scores count.

    Args:
        memories: (B, M, n).
        query: (B, p).
        w_memory: (n,).
        w_query: (p,).

    Returns:
        Scores (B, M).

    Raises:
        ValueError: a shape does not fit.
    """
    width, query_width = _check(memories, query)
    shape("w_memory", w_memory, (width,))
    shape("w_query", w_query, (query_width,))
    return torch.tanh(memories) @ w_memory + (torch.tanh(query) @ w_query)[:, None]
