"""How many patterns an associative memory holds: what is left of them after recall, by load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sab.checks import finite_float, positive_int
from sab.ops.hopfield import (
    Interaction,
    Recall,
    hebbian,
    modern_update,
    recall_async,
    recall_dense,
)
from sab.tasks.patterns import flip, random_patterns


@dataclass(frozen=True)
class Load:
    """Recall at one number of stored patterns.

    Attributes:
        patterns: stored.
        load: patterns a neuron.
        overlap: mean of ``x · s / M`` between each pattern and where its cue ended; 1 is perfect.
        exact: share of the patterns that came back without an error.
    """

    patterns: int
    load: float
    overlap: float
    exact: float


def hopfield_rule(patterns: Tensor, cues: Tensor, generator: torch.Generator) -> Tensor:
    """Recall with Hebb's weights, one neuron after the other."""
    return recall_async(hebbian(patterns), cues, generator=generator).states


@dataclass(frozen=True)
class DenseRule:
    """Recall with a dense associative memory of the given interaction."""

    interaction: Interaction

    def __call__(self, patterns: Tensor, cues: Tensor, generator: torch.Generator) -> Tensor:
        """Recall ``cues`` (B, M) from ``patterns`` (P, M)."""
        recall: Recall = recall_dense(patterns, cues, self.interaction, generator=generator)
        return recall.states


@dataclass(frozen=True)
class ModernRule:
    """One update of the modern network, then the sign of each component."""

    beta: float = 1.0

    def __call__(self, patterns: Tensor, cues: Tensor, generator: torch.Generator) -> Tensor:
        """Recall ``cues`` (B, M) from ``patterns`` (P, M); nothing is drawn."""
        return torch.where(modern_update(patterns, cues, self.beta) >= 0, 1.0, -1.0).to(cues)


def recall_at(
    rule: object,
    neurons: int,
    counts: Sequence[int],
    generator: torch.Generator,
    noise: float = 0.0,
    trials: int = 1,
    cues: int | None = None,
) -> list[Load]:
    """Store random patterns, start at each with some entries flipped, and see where it ends.

    Args:
        rule: ``rule(patterns, cues, generator)`` → states: `hopfield_rule`, `DenseRule`, ….
        neurons: M.
        counts: numbers of patterns to try.
        generator: draws patterns, noise and order.
        noise: share of a cue's entries that are flipped.
        trials: fresh sets of patterns a count.
        cues: test at most so many of the patterns; ``None``: all.

    Raises:
        ValueError: a size is not a positive integer, or ``noise`` lies outside 0 … 1.
    """
    positive_int("trials", trials)
    finite_float("noise", noise, 0.0, 1.0)
    if not callable(rule):
        raise ValueError(f"rule={rule!r}: must be callable")
    loads = []
    for count in counts:
        overlap, exact = 0.0, 0.0
        for _ in range(trials):
            patterns = random_patterns(count, neurons, generator)
            wanted = patterns[:cues]
            found = rule(patterns, flip(wanted, noise, generator), generator)
            overlap += float((found * wanted).mean()) / trials
            exact += float((found == wanted).all(1).double().mean()) / trials
        loads.append(Load(count, count / neurons, overlap, exact))
    return loads
