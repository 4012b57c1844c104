"""Associative memory: patterns stored in weights or kept as rows, recalled by going downhill.

Shapes: patterns P, neurons M, batch B. Binary states are -1 or +1, in a floating-point tensor.
Three memories: Hopfield's (a matrix of weights), the dense one (the patterns, an interaction
function F), and the modern one (the patterns, continuous states, a softmax).

Where the patterns are the memory, a ``mask``, boolean and broadcastable to (B, P), says ``True``
where a state may recall a pattern. A pattern that no state may recall can hold anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from sab.checks import dtype, finite_float, one_of, positive_int, shape
from sab.ops.attention import attention_weights, check_mask

SCALES = ("patterns", "neurons")


class Recall(NamedTuple):
    """Where the dynamics of a batch of states ended.

    Attributes:
        states: (B, M), the last states.
        energies: (sweeps + 1, B), before the first sweep and after each.
        settled: (B,) bool, whether the last sweep changed nothing.
    """

    states: Tensor
    energies: Tensor
    settled: Tensor


def check_binary(name: str, states: Tensor) -> Tensor:
    """Return ``states`` (any, M) if all its entries are -1 or +1.

    Raises:
        ValueError: it is not a matrix, is empty, or holds another number.
    """
    shape(name, states, (None, None))
    if states.numel() == 0:
        raise ValueError(f"{name} has shape {tuple(states.shape)}: must not be empty")
    if not states.is_floating_point() or not bool((states.abs() == 1).all()):
        raise ValueError(f"{name}: must hold -1.0 and +1.0 only, as floating-point numbers")
    return states


def hebbian(patterns: Tensor, scale: str = "patterns", diagonal: bool = False) -> Tensor:
    """Weights ``w_ij = (1/P) Σ_n x_i x_j``: what fires together is wired together.

    Args:
        patterns: (P, M) of -1 and +1.
        scale: divide by the number of ``"patterns"`` or of ``"neurons"``. Without a bias only the
            sign of the field counts, and the two recall the same.
        diagonal: keep Hebb's self-connections instead of setting ``w_ii = 0``.

    Returns:
        Symmetric weights (M, M).

    Raises:
        ValueError: a pattern is not binary, or the scale is unknown.

    Source: Hopfield 1982, equation 2.
    """
    check_binary("patterns", patterns)
    one_of("scale", scale, SCALES)
    w = patterns.T @ patterns / patterns.shape[0 if scale == "patterns" else 1]
    return w if diagonal else w.fill_diagonal_(0.0)


def hetero_hebbian(keys: Tensor, values: Tensor) -> Tensor:
    """Weights (L, M) that answer a key (M) with its value (L): hetero-association.

    Raises:
        ValueError: a pattern is not binary, or the numbers or types of keys and values differ.

    Source: Kohonen 1972, the correlation matrix memory.
    """
    check_binary("keys", keys)
    check_binary("values", values)
    shape("values", values, (keys.shape[0], None))
    dtype("values", values, keys.dtype)
    return values.T @ keys / keys.shape[1]


def _check_network(w: Tensor, states: Tensor, bias: Tensor | None) -> None:
    check_binary("states", states)
    size = states.shape[1]
    shape("w", w, (size, size))
    dtype("w", w, states.dtype)
    if bias is not None:
        shape("bias", bias, (size,))
        dtype("bias", bias, states.dtype)


def energy(w: Tensor, states: Tensor, bias: Tensor | None = None) -> Tensor:
    """Energy ``-½ Σ_ij w_ij s_i s_j - Σ_i b_i s_i`` of each state (B, M) → (B,).

    Raises:
        ValueError: a shape or a type does not fit, or a state is not binary.

    Source: Hopfield 1982, equation 7, with a bias.
    """
    _check_network(w, states, bias)
    value = -0.5 * ((states @ w.T) * states).sum(1)
    return value if bias is None else value - states @ bias


def _sign(field: Tensor) -> Tensor:
    """+1 where the field is at least 0, else -1."""
    return torch.where(field >= 0, 1.0, -1.0).to(field.dtype)


def recall_async(
    w: Tensor,
    states: Tensor,
    bias: Tensor | None = None,
    sweeps: int = 50,
    generator: torch.Generator | None = None,
) -> Recall:
    """Update one neuron after the other until a whole sweep changes nothing.

    Each sweep visits every neuron once, in a new random order that the batch shares. With
    symmetric weights without self-connections the energy never rises.

    Args:
        w: (M, M).
        states: (B, M), where to start; left as they are.
        bias: (M,).
        sweeps: at most so many.
        generator: decides the order.

    Raises:
        ValueError: a shape or a type does not fit, a state is not binary, or ``sweeps`` is below 1.

    Source: Hopfield 1982, equation 1.
    """
    positive_int("sweeps", sweeps)
    _check_network(w, states, bias)
    s = states.clone()
    size = s.shape[1]
    offset = s.new_zeros(size) if bias is None else bias

    def visit() -> None:
        for i in torch.randperm(size, generator=generator).tolist():
            s[:, i] = _sign(s @ w[i] + offset[i])

    return _run(s, visit, lambda: energy(w, s, bias), sweeps)


def recall_sync(w: Tensor, states: Tensor, bias: Tensor | None = None, sweeps: int = 50) -> Recall:
    """Update all neurons at once, again and again; may end in a cycle of two states.

    Args and errors: as for `recall_async`.

    Source: Little 1974.
    """
    positive_int("sweeps", sweeps)
    _check_network(w, states, bias)
    s = states.clone()

    def visit() -> None:
        field = s @ w.T
        s.copy_(_sign(field if bias is None else field + bias))

    return _run(s, visit, lambda: energy(w, s, bias), sweeps)


def _run(
    s: Tensor, visit: Callable[[], None], measure: Callable[[], Tensor], sweeps: int
) -> Recall:
    """Sweep over ``s`` in place until nothing changes."""
    energies = [measure()]
    settled = torch.zeros(len(s), dtype=torch.bool)
    for _ in range(sweeps):
        before = s.clone()
        visit()
        energies.append(measure())
        settled = (s == before).all(1)
        if bool(settled.all()):
            break
    return Recall(s, torch.stack(energies), settled)


Interaction = Callable[[Tensor], Tensor]


def polynomial(degree: int) -> Interaction:
    """Return ``F(x) = x^degree``; 2 gives Hopfield's memory back.

    Raises:
        ValueError: the degree is not an integer of at least 2.
    """
    positive_int("degree", degree, 2)
    return lambda overlap: overlap**degree


def _real(patterns: Tensor, states: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """The patterns with zeros where none may be recalled, and the mask as (B, P).

    Raises:
        ValueError: a shape, a type or the mask does not fit.
    """
    shape("patterns", patterns, (None, None))
    if len(patterns) == 0:
        raise ValueError(f"patterns has shape {tuple(patterns.shape)}: needs a pattern to recall")
    shape("states", states, (None, patterns.shape[1]))
    dtype("states", states, patterns.dtype)
    if mask is None:
        return patterns, None
    like = patterns.new_empty(1).expand(len(states), len(patterns))
    check_mask(like, mask)
    whole = mask.expand(like.shape)
    return patterns.masked_fill(~whole.any(0)[:, None], 0.0), whole


def _real_binary(
    patterns: Tensor, states: Tensor, mask: Tensor | None, interaction: Interaction
) -> tuple[Tensor, Tensor | None]:
    """As `_real`, for patterns and states of -1 and +1; a pattern that is not recalled gets +1."""
    if not callable(interaction):
        raise ValueError(f"interaction={interaction!r}: must be a function, as polynomial(3) is")
    patterns, seen = _real(patterns, states, mask)
    if seen is not None:
        patterns = patterns.masked_fill(~seen.any(0)[:, None], 1.0)
    check_binary("patterns", patterns)
    check_binary("states", states)
    return patterns, seen


def dense_energy(
    patterns: Tensor, states: Tensor, interaction: Interaction, mask: Tensor | None = None
) -> Tensor:
    """Energy ``-Σ_μ F(x^μ · s)`` of each state (B, M) → (B,), over the patterns it may recall.

    Raises:
        ValueError: a shape, a type or the mask does not fit, an entry is not -1 or +1, or F is no
            function.

    Source: Krotov and Hopfield 2016, section 2; exponential: Demircigil et al. 2017.
    """
    patterns, seen = _real_binary(patterns, states, mask, interaction)
    terms = interaction(states @ patterns.T)
    return -(terms if seen is None else terms.masked_fill(~seen, 0.0)).sum(1)


def recall_dense(
    patterns: Tensor,
    states: Tensor,
    interaction: Interaction,
    sweeps: int = 50,
    generator: torch.Generator | None = None,
    mask: Tensor | None = None,
) -> Recall:
    """Dense associative memory: each neuron takes the sign that has the lower energy.

    Args:
        patterns: (P, M) of -1 and +1; they are the memory, there are no weights.
        states: (B, M), where to start; left as they are.
        interaction: F, elementwise: ``polynomial(n)`` or ``torch.exp`` (float64: overlaps reach M).
        sweeps: at most so many.
        generator: decides the order in which neurons are visited.
        mask: broadcastable to (B, P), which patterns a state may recall; ``None``: all.

    Raises:
        ValueError: a shape, a type or the mask does not fit, an entry is not -1 or +1, ``sweeps``
            is below 1, or F is no function or overflows.

    Source: Krotov and Hopfield 2016, section 2.
    """
    positive_int("sweeps", sweeps)
    patterns, seen = _real_binary(patterns, states, mask, interaction)
    size = patterns.shape[1]
    largest = interaction(patterns.new_tensor([float(size)])) * len(patterns)
    if not bool(largest.isfinite().all()):
        raise ValueError(f"interaction: overflows at overlap {size} in {patterns.dtype}")
    s = states.clone()
    overlaps = s @ patterns.T

    def visit() -> None:
        for i in torch.randperm(size, generator=generator).tolist():
            column = patterns[:, i]
            others = overlaps - s[:, i : i + 1] * column
            gain = interaction(others + column) - interaction(others - column)
            if seen is not None:
                gain = gain.masked_fill(~seen, 0.0)
            s[:, i] = _sign(gain.sum(1))
            overlaps.copy_(others + s[:, i : i + 1] * column)

    return _run(s, visit, lambda: dense_energy(patterns, s, interaction, seen), sweeps)


def modern_update(
    patterns: Tensor, states: Tensor, beta: float = 1.0, mask: Tensor | None = None
) -> Tensor:
    """One update of the modern Hopfield network: ``softmax(β s Xᵀ) X``.

    That is attention with the states as queries, the patterns as keys and values, dot scores and
    temperature 1/β.

    Args:
        patterns: (P, M), any real numbers.
        states: (B, M).
        beta: inverse temperature, above 0.
        mask: broadcastable to (B, P), which patterns a state may recall; ``None``: all.

    Returns:
        New states (B, M), each a weighted mean of the patterns.

    Raises:
        ValueError: a shape, a type or the mask does not fit, or ``beta`` is not above 0.

    Source: Ramsauer et al. 2021, equation 3.
    """
    patterns, scores, seen = _modern(patterns, states, beta, mask)
    return attention_weights(scores, seen) @ patterns


def modern_energy(
    patterns: Tensor, states: Tensor, beta: float = 1.0, mask: Tensor | None = None
) -> Tensor:
    """Energy ``-lse(β, X s) + ½ s·s + log(P)/β + ½ max|x|²`` (B,); never below 0.

    P and the maximum are of the patterns that a state may recall.

    Args and errors: as for `modern_update`.

    Source: Ramsauer et al. 2021, equation 2.
    """
    patterns, scores, seen = _modern(patterns, states, beta, mask)
    largest = patterns.square().sum(1)
    if seen is None:
        count, largest = scores.new_tensor(float(len(patterns))), largest.max()
    else:
        count = seen.sum(1).to(scores.dtype)
        scores = scores.masked_fill(~seen, -math.inf)
        largest = largest.expand(seen.shape).masked_fill(~seen, 0.0).amax(1)
    free = (torch.logsumexp(scores, 1) - count.log()) / beta
    return -free + 0.5 * states.square().sum(1) + 0.5 * largest


def _modern(
    patterns: Tensor, states: Tensor, beta: float, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Patterns, scores (B, P) and the mask as `_real` gives them."""
    if finite_float("beta", beta) <= 0:
        raise ValueError(f"beta={beta!r}: must be above 0")
    patterns, seen = _real(patterns, states, mask)
    return patterns, beta * (states @ patterns.T), seen
