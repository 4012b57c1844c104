"""Write a string backwards: nothing but order, so the test of what a model knows of positions."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from sab.checks import positive_int
from sab.tasks.base import Batch


@dataclass(frozen=True)
class ReversalTask:
    """Reverse ``length`` random symbols.

    Args:
        length: N, symbols of a string.
        symbols: kinds of symbol.

    Raises:
        ValueError: a setting is out of range.
    """

    length: int = 6
    symbols: int = 10

    def __post_init__(self) -> None:
        positive_int("length", self.length)
        positive_int("symbols", self.symbols, 2)

    @property
    def input_size(self) -> int:
        """Kinds of symbol."""
        return self.symbols

    @property
    def output_size(self) -> int:
        """Kinds of symbol."""
        return self.symbols

    @property
    def steps(self) -> int:
        """Symbols of a string."""
        return self.length

    @property
    def goal(self) -> tuple[str, str]:
        """Models are chosen by the share of right symbols; more is better."""
        return ("accuracy", "max")

    def batch(self, batch_size: int, generator: torch.Generator) -> Batch:
        """Draw x and y (B, N) int64, y being x reversed.

        Raises:
            ValueError: ``batch_size`` is not a positive integer.
        """
        positive_int("batch_size", batch_size)
        x = torch.randint(0, self.symbols, (batch_size, self.length), generator=generator)
        return Batch(x, x.flip(1))

    def teacher(self, y: Tensor) -> Tensor:
        """What a model may be told while it trains: the right symbols."""
        return y

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Cross-entropy in nats a symbol, from logits (B, N, symbols)."""
        return functional.cross_entropy(outputs.flatten(0, 1), y.flatten())

    def metrics(self, outputs: Tensor, y: Tensor) -> dict[str, float]:
        """Judge logits ``outputs`` (B, N, symbols).

        Returns:
            ``accuracy``: share of right symbols; ``sequence_accuracy``: of strings without a wrong
            one.
        """
        right = outputs.argmax(-1) == y
        return {
            "accuracy": right.float().mean().item(),
            "sequence_accuracy": right.all(1).float().mean().item(),
        }

    def baselines(self) -> dict[str, float]:
        """A guess that has not seen the string."""
        return {"accuracy": 1 / self.symbols, "sequence_accuracy": self.symbols**-self.length}
