"""The copy task: repeat ten symbols after a delay (paper, section 4 and Table 1).

Layout with the paper's numbers: 10 symbols from 1-8, T-1 blanks (0), the marker (9), 10 blanks:
T+20 steps. The target is blank everywhere but on the last 10 steps, where it is the 10 symbols in
their order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from sab.checks import one_of, positive_int
from sab.tasks.base import Batch

ENCODINGS = ("onehot", "scalar")


@dataclass(frozen=True)
class CopyTask:
    """Copy ``length`` symbols out of ``symbols`` kinds after a delay of ``T`` steps.

    Args:
        T: steps from the last symbol to the marker (T-1 blanks and the marker), at least 1.
        symbols: kinds of symbol; the classes are blank, the symbols and the marker.
        length: symbols in a string.
        encoding: ``"onehot"`` feeds one feature a class; ``"scalar"`` feeds the digit as one
            float, as the authors' released program does.

    Raises:
        ValueError: a setting is out of range.
    """

    T: int = 100
    symbols: int = 8
    length: int = 10
    encoding: str = "onehot"

    def __post_init__(self) -> None:
        positive_int("T", self.T)
        positive_int("symbols", self.symbols, 2)
        positive_int("length", self.length)
        one_of("encoding", self.encoding, ENCODINGS)

    @property
    def output_size(self) -> int:
        """Classes: blank, the symbols, the marker."""
        return self.symbols + 2

    @property
    def input_size(self) -> int:
        """Features of one input step."""
        return self.output_size if self.encoding == "onehot" else 1

    @property
    def steps(self) -> int:
        """Length of a sequence: T + 2 · length."""
        return self.T + 2 * self.length

    @property
    def goal(self) -> tuple[str, str]:
        """Models are chosen by the accuracy on the copied symbols; more is better."""
        return ("accuracy", "max")

    def batch(self, batch_size: int, generator: torch.Generator) -> Batch:
        """Draw ``x (B, steps, input_size)`` float32 and ``y (B, steps)`` int64, on the CPU.

        Raises:
            ValueError: ``batch_size`` is not a positive integer.
        """
        positive_int("batch_size", batch_size)
        string = torch.randint(1, self.symbols + 1, (batch_size, self.length), generator=generator)
        tokens = torch.zeros(batch_size, self.steps, dtype=torch.int64)
        tokens[:, : self.length] = string
        tokens[:, -self.length - 1] = self.symbols + 1
        y = torch.zeros_like(tokens)
        y[:, -self.length :] = string
        if self.encoding == "scalar":
            return Batch(tokens.unsqueeze(2).float(), y)
        x = torch.zeros(batch_size, self.steps, self.input_size)
        x.scatter_(2, tokens.unsqueeze(2), 1.0)
        return Batch(x, y)

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Cross-entropy in nats over all steps and classes, as the paper's CE."""
        return functional.cross_entropy(outputs.flatten(0, 1), y.flatten())

    def metrics(self, outputs: Tensor, y: Tensor) -> dict[str, float]:
        """Judge logits ``outputs (B, steps, classes)`` against ``y (B, steps)``.

        Returns:
            ``accuracy``: fraction of the copied *symbols* that are right (argmax over all classes);
            ``string_accuracy``: fraction of strings with every symbol right;
            ``ce10``, ``ce``: cross-entropy in nats, mean over the copied symbols and over all
                steps. ``ce`` is
            mostly easy blanks, so it cannot stand in for ``ce10``.
        """
        tail = outputs[:, -self.length :]
        target = y[:, -self.length :]
        right = tail.argmax(-1) == target
        return {
            "accuracy": right.float().mean().item(),
            "string_accuracy": right.all(1).float().mean().item(),
            "ce10": functional.cross_entropy(tail.flatten(0, 1), target.flatten()).item(),
            "ce": self.loss(outputs, y).item(),
        }

    def positions(self, outputs: Tensor, y: Tensor) -> list[float]:
        """Accuracy of each copied symbol by its place in the string, ``length`` numbers."""
        right = outputs[:, -self.length :].argmax(-1) == y[:, -self.length :]
        return [float(value) for value in right.float().mean(0)]

    def baselines(self) -> dict[str, float]:
        """What a model without memory reaches, in closed form.

        It knows when to answer but not what: every symbol has probability 1/symbols, every blank 1.
        """
        nats = math.log(self.symbols)
        return {
            "accuracy": 1 / self.symbols,
            "string_accuracy": (1 / self.symbols) ** self.length,
            "ce10": nats,
            "ce": self.length * nats / self.steps,
        }
