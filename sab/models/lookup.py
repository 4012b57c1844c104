"""Key-value attention with a bilinear score, trained softly or by trial and error.

The answer is what was read: values are one-hot classes, so a read is a distribution over classes.
``soft`` reads the weighted mean and trains by the chain rule. ``hard`` reads one sampled value and
trains its scores by the score-function gradient (Xu et al. 2015, section 4.1; Williams 1992); when
judged, it takes the likeliest.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from sab.checks import finite_float, one_of, positive_int, shape, within
from sab.ops.attention import (
    Read,
    argmax_read,
    check_mask,
    reinforce_loss,
    sampled_read,
    soft_read,
)
from sab.ops.scores import bilinear

MODES = ("soft", "hard")
SMALLEST = 1e-6  # of a share whose logarithm is taken


@dataclass(frozen=True)
class LookupConfig:
    """Settings of `LookupModel`.

    Attributes:
        width: of keys and query.
        mode: ``"soft"`` or ``"hard"``.
        baseline: whether rewards are measured against their running mean (``hard`` only).
        decay: of that mean.
        offset: added to every reward; moves no optimum (``hard`` only).
    """

    width: int = 8
    mode: str = "soft"
    baseline: bool = True
    decay: float = 0.9
    offset: float = 0.0

    def __post_init__(self) -> None:
        """Refuse a width, a mode, a decay or an offset out of range (ValueError)."""
        positive_int("width", self.width)
        one_of("mode", self.mode, MODES)
        finite_float("decay", self.decay, 0.0, 1.0)
        finite_float("offset", self.offset)


class LookupModel(nn.Module):
    """Scores ``kᵀ W q``, then a read of the values; W is all there is to learn."""

    mean_reward: Tensor

    def __init__(self, config: LookupConfig | None = None) -> None:
        """Start W small and random."""
        super().__init__()
        self.config = config or LookupConfig()
        self.w = nn.Parameter(0.1 * torch.randn(self.config.width, self.config.width))
        self.register_buffer("mean_reward", torch.zeros(()))

    def scores(self, keys: Tensor, query: Tensor) -> Tensor:
        """Scores (B, N) of keys (B, N, width) for a query (B, width)."""
        return bilinear(keys, query, self.w)

    def _real(
        self, keys: Tensor, values: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Keys and values with zeros where the mask forbids: padding may hold anything."""
        shape("keys", keys, (None, None, self.config.width))
        batch, items, _ = keys.shape
        shape("values", values, (batch, items, None))
        if mask is None:
            return keys, values, None
        shape("mask", mask, (batch, items))
        check_mask(keys[..., 0], mask)
        padded = ~mask[..., None]
        return keys.masked_fill(padded, 0.0), values.masked_fill(padded, 0.0), mask

    def forward(
        self, keys: Tensor, values: Tensor, query: Tensor, mask: Tensor | None = None
    ) -> Read:
        """The read (B, classes) with its weights: the mean if soft, the likeliest item if hard.

        Args:
            keys: (B, N, width).
            values: (B, N, classes).
            query: (B, width).
            mask: (B, N) bool, True at real items; ``None``: all are real.

        Raises:
            ValueError: a shape or the mask does not fit.
        """
        keys, values, mask = self._real(keys, values, mask)
        scores = self.scores(keys, query)
        if self.config.mode == "soft":
            return soft_read(scores, values, mask)
        read = argmax_read(scores, values, mask)
        return Read(read.output, read.weights)

    def loss(
        self,
        keys: Tensor,
        values: Tensor,
        query: Tensor,
        label: Tensor,
        generator: torch.Generator | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Training loss, a scalar.

        ``soft``: cross-entropy of the mean read. ``hard``: one item is drawn; the reward is 1 if
        it holds the right class, else 0; ``offset`` is added to both. Arguments as for `forward`.

        Raises:
            ValueError: a shape, the mask or a label (int64) does not fit.
        """
        keys, values, mask = self._real(keys, values, mask)
        shape("label", label, (len(keys),))
        within("label", label, 0, values.shape[2] - 1)
        if self.config.mode == "soft":
            read = self(keys, values, query, mask).output
            return functional.nll_loss(read.clamp_min(SMALLEST).log(), label)
        drawn = sampled_read(self.scores(keys, query), values, mask, generator=generator)
        reward = drawn.output.gather(1, label[:, None])[:, 0] + self.config.offset
        usual = self.mean_reward.clone() if self.config.baseline else 0.0
        self.mean_reward.lerp_(reward.detach().mean(), 1 - self.config.decay)
        return reinforce_loss(drawn.log_probability, reward, usual)


@dataclass(frozen=True)
class LookupReaderConfig:
    """Settings of `LookupReader`.

    Attributes:
        input_size: width of keys and question.
        output_size: classes.
        mode, baseline, decay, offset: as in `LookupConfig`.
    """

    input_size: int = 8
    output_size: int = 6
    mode: str = "soft"
    baseline: bool = True
    decay: float = 0.9
    offset: float = 0.0

    def __post_init__(self) -> None:
        """Refuse sizes that are not positive integers, and what `LookupConfig` refuses."""
        positive_int("input_size", self.input_size)
        positive_int("output_size", self.output_size)
        self.of_lookup()

    def of_lookup(self) -> LookupConfig:
        """The settings of the model inside."""
        return LookupConfig(self.input_size, self.mode, self.baseline, self.decay, self.offset)


class LookupReader(nn.Module):
    """`LookupModel` for the trainer: question and items come in one tensor.

    Shapes: x (B, 1 + N, input_size + output_size) as `sab.tasks.lookup.packed` makes it → read
    (B, output_size) and weights (B, N).
    """

    def __init__(self, config: LookupReaderConfig | None = None) -> None:
        """Build the model inside."""
        super().__init__()
        self.config = config or LookupReaderConfig()
        self.lookup = LookupModel(self.config.of_lookup())

    def _parts(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        width = self.config.input_size
        shape("x", x, (None, None, width + self.config.output_size))
        return x[:, 1:, :width], x[:, 1:, width:], x[:, 0, :width]

    def forward(self, x: Tensor) -> Read:
        """The read with its weights.

        Raises:
            ValueError: the shape does not fit.
        """
        found: Read = self.lookup(*self._parts(x))
        return found

    def objective(self, x: Tensor, y: Tensor) -> Tensor:
        """What training follows, a scalar: draws are made from torch's own random stream.

        Raises:
            ValueError: a shape or a label of y (B,) does not fit.
        """
        return self.lookup.loss(*self._parts(x), y)
