"""Associative recall: pairs of a key and a value, then questions by key.

Key and value come one after the other, so a model has to bind two neighbouring steps before it can
look one up by the other (after Ba et al. 2016, section 4.1; there one question, here one a pair).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from sab.checks import positive_int
from sab.tasks.base import Batch

IGNORED = -100  # a step that asks nothing


@dataclass(frozen=True)
class RecallTask:
    """Remember ``pairs`` of a key and a value, then say each key's value.

    Args:
        pairs: pairs of a sequence, and questions after them.
        keys: kinds of key; those of a sequence are all different.
        values: kinds of value; drawn anew for each pair.

    Raises:
        ValueError: a setting is out of range, or there are fewer keys than pairs.
    """

    pairs: int = 6
    keys: int = 12
    values: int = 8

    def __post_init__(self) -> None:
        positive_int("pairs", self.pairs)
        positive_int("values", self.values, 2)
        if positive_int("keys", self.keys) < self.pairs:
            raise ValueError(f"keys={self.keys!r}: must be at least pairs={self.pairs}")

    @property
    def input_size(self) -> int:
        """One feature a key, one a value, and one that marks a question."""
        return self.keys + self.values + 1

    @property
    def output_size(self) -> int:
        """One class a value."""
        return self.values

    @property
    def steps(self) -> int:
        """Two a pair, one a question."""
        return 3 * self.pairs

    @property
    def goal(self) -> tuple[str, str]:
        """Models are chosen by the share of questions answered right; more is better."""
        return ("accuracy", "max")

    def batch(self, batch_size: int, generator: torch.Generator) -> Batch:
        """Draw ``x (B, steps, input_size)`` float32 and ``y (B, steps)`` int64, on the CPU.

        Every key of a sequence is asked for once, in an order of its own; ``y`` is `IGNORED` where
        nothing is asked.

        Raises:
            ValueError: ``batch_size`` is not a positive integer.
        """
        positive_int("batch_size", batch_size)
        size = (batch_size, self.pairs)
        keys = torch.rand(batch_size, self.keys, generator=generator).argsort(1)[:, : self.pairs]
        values = torch.randint(0, self.values, size, generator=generator)
        order = torch.rand(size, generator=generator).argsort(1)
        x = torch.zeros(batch_size, self.steps, self.input_size)
        told, asked = 2 * self.pairs, keys.gather(1, order)
        x[:, 0:told:2].scatter_(2, keys[:, :, None], 1.0)
        x[:, 1:told:2].scatter_(2, values[:, :, None] + self.keys, 1.0)
        x[:, told:].scatter_(2, asked[:, :, None], 1.0)
        x[:, told:, -1] = 1.0
        y = torch.full((batch_size, self.steps), IGNORED)
        y[:, told:] = values.gather(1, order)
        return Batch(x, y)

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Cross-entropy in nats a question."""
        return functional.cross_entropy(outputs.flatten(0, 1), y.flatten(), ignore_index=IGNORED)

    def metrics(self, outputs: Tensor, y: Tensor) -> dict[str, float]:
        """Judge logits ``outputs (B, steps, values)``.

        Returns:
            ``accuracy``: share of questions answered right; ``sequence_accuracy``: share of
            sequences without a wrong answer.
        """
        right = outputs.argmax(-1)[:, -self.pairs :] == y[:, -self.pairs :]
        return {
            "accuracy": right.float().mean().item(),
            "sequence_accuracy": right.all(1).float().mean().item(),
        }

    def baselines(self) -> dict[str, float]:
        """Without memory every value is equally likely."""
        return {
            "accuracy": 1 / self.values,
            "sequence_accuracy": (1 / self.values) ** self.pairs,
        }

    def without_binding(self) -> float:
        """Accuracy of who knows which values were told, but not with which keys, in closed form.

        It always says the most frequent one: E[max] / pairs of a multinomial, from
        P(max ≤ m) = pairs! [z^pairs] (Σ_{k ≤ m} z^k / k!)^values / values^pairs.
        """
        expected = 0.0
        for m in range(self.pairs):
            whole = [1.0] + [0.0] * self.pairs
            for _ in range(self.values):
                whole = [
                    sum(whole[i - k] / math.factorial(k) for k in range(min(i, m) + 1))
                    for i in range(self.pairs + 1)
                ]
            below = math.factorial(self.pairs) * whole[self.pairs] / self.values**self.pairs
            expected += 1 - below
        return expected / self.pairs
