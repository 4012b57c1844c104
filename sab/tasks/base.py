"""What every task offers, and the batch it makes.

A task is a frozen dataclass: its fields are the settings, its properties the sizes a model needs,
its methods make data and judge answers. It knows nothing of models or training.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor


class Batch(NamedTuple):
    """Inputs ``x (B, steps, input_size)`` float32 and targets ``y``, shaped as the task says."""

    x: Tensor
    y: Tensor


@runtime_checkable
class Task(Protocol):
    """The interface that training and evaluation rely on."""

    @property
    def input_size(self) -> int:
        """Features of one input step."""

    @property
    def output_size(self) -> int:
        """Numbers the model puts out at each step."""

    @property
    def steps(self) -> int:
        """Length of a sequence in steps."""

    @property
    def goal(self) -> tuple[str, str]:
        """The metric models are chosen by, and ``"max"`` or ``"min"``."""

    def batch(self, batch_size: int, generator: torch.Generator) -> Batch:
        """Draw a batch; the same generator state gives the same batch."""

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Training loss, a scalar, from outputs ``(B, steps, output_size)``."""

    def metrics(self, outputs: Tensor, y: Tensor) -> dict[str, float]:
        """Mean metrics of a batch; each is a mean over sequences, so batches can be averaged."""

    def baselines(self) -> dict[str, float]:
        """What a model without memory reaches, in closed form, by metric name."""
