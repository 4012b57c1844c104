"""Logistic regression on how often each event occurs: no order, no positions, no memory."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sab.checks import positive_int
from sab.ops.padding import mask_of


@dataclass(frozen=True)
class BagConfig:
    """Settings of `Bag`.

    Attributes:
        input_size: kinds of event.
        output_size: classes.
    """

    input_size: int = 10
    output_size: int = 2

    def __post_init__(self) -> None:
        """Refuse sizes that are not positive integers (ValueError)."""
        for name in ("input_size", "output_size"):
            positive_int(name, getattr(self, name))


class Bag(nn.Module):
    """Shapes: x (B, N, input_size), rows one-hot or zero → logits (B, N, output_size), ``None``.

    The logits are a linear map of ln(1 + count) of each event and stand at every position. A row of
    zeros counts for nothing, so padding needs no mask.
    """

    def __init__(self, config: BagConfig | None = None) -> None:
        """Build the model from ``config``."""
        super().__init__()
        self.config = config = config or BagConfig()
        self.readout = nn.Linear(config.input_size, config.output_size)

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        """One answer a sequence, repeated at each position.

        Raises:
            ValueError: the shape does not fit, or a sequence has no event.
        """
        mask_of(x, None, "zero_rows", self.config.input_size)
        answer = self.readout(torch.log1p(x.sum(1)))
        return answer[:, None].expand(-1, x.shape[1], -1), None
