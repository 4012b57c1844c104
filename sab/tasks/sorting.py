"""Sorting as pointing: name the positions of the numbers in ascending order.

The answer is a sequence of positions in the input, so its classes are as many as the input is
long (Vinyals et al. 2016, "Order matters", the sorting experiment).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from sab.checks import positive_int
from sab.tasks.base import Batch


@dataclass(frozen=True)
class SortingTask:
    """Sort ``length`` numbers from U[0, 1).

    Raises:
        ValueError: ``length`` is not an integer of at least 2.
    """

    length: int = 10

    def __post_init__(self) -> None:
        positive_int("length", self.length, 2)

    @property
    def input_size(self) -> int:
        """The number."""
        return 1

    @property
    def output_size(self) -> int:
        """Elements to point at."""
        return self.length

    @property
    def steps(self) -> int:
        """Elements, and pointers."""
        return self.length

    @property
    def goal(self) -> tuple[str, str]:
        """Models are chosen by the share of right pointers; more is better."""
        return ("accuracy", "max")

    def batch(self, batch_size: int, generator: torch.Generator) -> Batch:
        """Draw ``x (B, length, 1)`` float32 and positions ``y (B, length)`` int64.

        Raises:
            ValueError: ``batch_size`` is not a positive integer.
        """
        positive_int("batch_size", batch_size)
        x = torch.rand(batch_size, self.length, generator=generator)
        return Batch(x[:, :, None], x.argsort(1))

    def teacher(self, y: Tensor) -> Tensor:
        """What a model may be told while it trains: the right positions (B, length)."""
        return y

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Cross-entropy in nats a pointer."""
        return functional.cross_entropy(outputs.flatten(0, 1), y.flatten())

    def metrics(self, outputs: Tensor, y: Tensor) -> dict[str, float]:
        """Judge logits ``outputs (B, length, length)`` against ``y (B, length)``.

        Returns:
            ``accuracy``: share of right pointers; ``sequence_accuracy``: share of sequences with
            every pointer right.
        """
        right = outputs.argmax(-1) == y
        return {
            "accuracy": right.float().mean().item(),
            "sequence_accuracy": right.all(1).float().mean().item(),
        }

    def baselines(self) -> dict[str, float]:
        """A guess that has not seen the numbers: 1/length, and 1/length! for the whole order."""
        return {
            "accuracy": 1 / self.length,
            "sequence_accuracy": 1 / math.factorial(self.length),
        }
