"""The adding task: the sum of two marked numbers (paper, section 4, section 7.1 and Table 2, left).

Each step has a value from U[0,1] and a mark that is 1 at two steps, one in each half of the
sequence. The answer is read at the last step. The paper calls its loss a cross-entropy without
saying how a real number becomes a class; here it is the mean squared error.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sab.checks import positive_int
from sab.tasks.base import Batch


@dataclass(frozen=True)
class AddingTask:
    """Add the two marked values of a sequence of ``T`` steps.

    Raises:
        ValueError: ``T`` is not an integer of at least 2 (each half needs a step to mark).
    """

    T: int = 200

    def __post_init__(self) -> None:
        positive_int("T", self.T, 2)

    @property
    def input_size(self) -> int:
        """The value and the mark."""
        return 2

    @property
    def output_size(self) -> int:
        """The sum."""
        return 1

    @property
    def steps(self) -> int:
        """Length of a sequence."""
        return self.T

    @property
    def goal(self) -> tuple[str, str]:
        """Models are chosen by the mean squared error; less is better."""
        return ("mse", "min")

    def batch(self, batch_size: int, generator: torch.Generator) -> Batch:
        """Draw ``x (B, T, 2)`` float32 (value, mark) and ``y (B,)`` float32, on the CPU.

        Raises:
            ValueError: ``batch_size`` is not a positive integer.
        """
        positive_int("batch_size", batch_size)
        half = self.T // 2
        x = torch.zeros(batch_size, self.T, 2)
        x[:, :, 0] = torch.rand(batch_size, self.T, generator=generator)
        rows = torch.arange(batch_size)
        first = torch.randint(0, half, (batch_size,), generator=generator)
        second = torch.randint(half, self.T, (batch_size,), generator=generator)
        x[rows, first, 1] = 1.0
        x[rows, second, 1] = 1.0
        return Batch(x, x[rows, first, 0] + x[rows, second, 0])

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Mean squared error of the last step's output ``(B, T, 1)`` against ``y (B,)``."""
        return (outputs[:, -1, 0] - y).square().mean()

    def metrics(self, outputs: Tensor, y: Tensor) -> dict[str, float]:
        """``mse``, and ``within_004``: the fraction of answers less than 0.04 off."""
        error = outputs[:, -1, 0] - y
        return {
            "mse": error.square().mean().item(),
            "within_004": (error.abs() < 0.04).float().mean().item(),
        }

    def baselines(self) -> dict[str, float]:
        """Always answering the mean, 1: the variance of a sum of two U[0,1], 2 · 1/12 = 1/6.

        ``within_004``: the sum's density is 1 - |s - 1|, so P(|s - 1| < e) = 2e - e².
        """
        return {"mse": 1 / 6, "within_004": 2 * 0.04 - 0.04**2}
