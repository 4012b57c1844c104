"""A stacked bidirectional LSTM: the usual classifier of event sequences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sab.checks import one_of, positive_int
from sab.ops.padding import compact, mask_of, pool, spread


@dataclass(frozen=True)
class BiLSTMConfig:
    """Settings of `BiLSTM`.

    Attributes:
        input_size: width of the input.
        hidden_size: width of each direction.
        output_size: width of the read-out.
        layers: how many, one on the other.
        readout: ``"each"``: logits at every position; ``"mean"``, ``"max"``: one answer from all
            real positions, repeated at each.
        padding: ``"zero_rows"``: an input row of zeros is padding, where no mask is given.
    """

    input_size: int = 10
    hidden_size: int = 64
    output_size: int = 10
    layers: int = 2
    readout: str = "each"
    padding: str = "none"

    def __post_init__(self) -> None:
        """Refuse values out of range (ValueError)."""
        for name in ("input_size", "hidden_size", "output_size", "layers"):
            positive_int(name, getattr(self, name))
        one_of("readout", self.readout, ("each", "mean", "max"))
        one_of("padding", self.padding, ("none", "zero_rows"))


class BiLSTM(nn.Module):
    """Shapes: x (B, N, input_size) → logits (B, N, output_size) and ``None``."""

    def __init__(self, config: BiLSTMConfig | None = None) -> None:
        """Build the model from ``config``."""
        super().__init__()
        self.config = config = config or BiLSTMConfig()
        self.lstm = nn.LSTM(
            config.input_size, config.hidden_size, config.layers, batch_first=True,
            bidirectional=True,
        )  # fmt: skip
        self.readout = nn.Linear(2 * config.hidden_size, config.output_size)

    def forward(self, x: Tensor, keep: Tensor | None = None) -> tuple[Tensor, None]:
        """Logits at every position; those at padding mean nothing.

        Args:
            x: (B, N, input_size).
            keep: (B, N) bool, True at real steps; ``None``: as the setting ``padding`` says.

        Raises:
            ValueError: a shape does not fit, or a sequence has no real step.
        """
        keep = mask_of(x, keep, self.config.padding, self.config.input_size)
        hidden = self._run(x, keep)
        if self.config.readout == "each":
            return self.readout(hidden), None
        answer = self.readout(pool(hidden, keep, self.config.readout))
        return answer[:, None].expand(-1, x.shape[1], -1), None

    def _run(self, x: Tensor, keep: Tensor | None) -> Tensor:
        """Hidden states of both directions, (B, N, 2 · hidden_size)."""
        if keep is None:
            hidden: Tensor = self.lstm(x)[0]
            return hidden
        hidden = compact(x, keep)
        for layer in range(self.config.layers):
            forward, backward = self.lstm.all_weights[2 * layer : 2 * layer + 2]
            turned = _run(_turn(hidden, keep), backward)
            hidden = torch.cat([_run(hidden, forward), _turn(turned, keep)], -1)
        return spread(hidden, keep)


def _turn(x: Tensor, keep: Tensor) -> Tensor:
    """Turn round the real steps, which stand at the front of ``x`` (B, N, D); its own inverse."""
    step, length = torch.arange(x.shape[1], device=x.device), keep.sum(1, keepdim=True)
    source = torch.where(step < length, length - 1 - step, step)
    return x.gather(1, source[:, :, None].expand_as(x))


def _run(x: Tensor, weights: Sequence[Tensor]) -> Tensor:
    """One direction of one layer over ``x`` (B, N, D), from zeros: (B, N, hidden).

    What stands behind a sequence's end cannot reach its real steps. (A packed sequence says the
    same, but its backward pass copies all of x at every change of length: twenty times as slow.)
    """
    zero = x.new_zeros(1, x.shape[0], weights[1].shape[1])
    out: Tensor = torch.lstm(x, (zero, zero), list(weights), True, 1, 0.0, True, False, True)[0]
    return out
