"""An associative memory as the external memory of a classifier: a Hopfield look-up layer.

One modern Hopfield update (Ramsauer et al. 2021, section 3, "HopfieldLayer") with examples as the
stored patterns: a query recalls the labels of the examples it resembles. Examples can be added
after training, without a change of any weight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from sab.checks import finite_float, positive_int, shape, within
from sab.ops.attention import attention_weights


@dataclass(frozen=True)
class HopfieldConfig:
    """Settings of `HopfieldClassifier`.

    Attributes:
        input_size: width of an example.
        hidden_size: width in which query and examples are compared.
        output_size: classes.
        beta: inverse temperature at the start; it is learned.
    """

    input_size: int = 64
    hidden_size: int = 32
    output_size: int = 10
    beta: float = 4.0

    def __post_init__(self) -> None:
        """Refuse sizes that are not positive integers and a beta not above 0 (ValueError)."""
        for name in ("input_size", "hidden_size", "output_size"):
            positive_int(name, getattr(self, name))
        if finite_float("beta", self.beta) <= 0:
            raise ValueError(f"beta={self.beta!r}: must be above 0")


class HopfieldClassifier(nn.Module):
    """Class probabilities as the labels that a recall brings back.

    Query and stored examples go through one linear map and are scaled to length 1, so a score is a
    cosine times β. Shapes: x (B, input_size) → log-probabilities (B, output_size).
    """

    examples: Tensor
    labels: Tensor

    def __init__(self, config: HopfieldConfig | None = None) -> None:
        """Build the map; the memory starts empty (see `store`)."""
        super().__init__()
        self.config = config or HopfieldConfig()
        size = self.config
        self.embed = nn.Linear(size.input_size, size.hidden_size, bias=False)
        self.log_beta = nn.Parameter(torch.tensor(math.log(size.beta)))
        self.register_buffer("examples", torch.zeros(0, size.input_size))
        self.register_buffer("labels", torch.zeros(0, dtype=torch.int64))

    def store(self, examples: Tensor, labels: Tensor) -> None:
        """Add examples (P, input_size) with labels (P,) to the memory.

        Raises:
            ValueError: a shape does not fit, or a label is not an int64 from 0 to output_size-1.
        """
        shape("examples", examples, (None, self.config.input_size))
        shape("labels", labels, (len(examples),))
        within("labels", labels, 0, self.config.output_size - 1)
        self.examples = torch.cat([self.examples, examples.to(self.examples)])
        self.labels = torch.cat([self.labels, labels.to(self.labels)])

    def scores(self, x: Tensor) -> Tensor:
        """β times the cosine between each query and each stored example, (B, P).

        Raises:
            ValueError: the shape does not fit, or nothing is stored.
        """
        shape("x", x, (None, self.config.input_size))
        if len(self.labels) == 0:
            raise ValueError("x: nothing is stored yet; call store(examples, labels) first")
        queries = functional.normalize(self.embed(x), dim=1)
        keys = functional.normalize(self.embed(self.examples), dim=1)
        return self.log_beta.exp() * queries @ keys.T

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Log-probabilities (B, output_size).

        Args:
            x: (B, input_size).
            mask: (B, P), ``False`` where a query must not see an example: its own copy, while
                training on what is stored.

        Raises:
            ValueError: a shape does not fit, nothing is stored, or the mask hides all of it.
        """
        weights = attention_weights(self.scores(x), mask)
        values = functional.one_hot(self.labels, self.config.output_size).to(weights)
        return (weights @ values).clamp_min(1e-9).log()


@dataclass(frozen=True)
class HopfieldReaderConfig:
    """Settings of `HopfieldReader`.

    Attributes:
        input_size: numbers a step.
        output_size: classes.
        steps: steps of an example.
        hidden_size, beta: as in `HopfieldConfig`.
    """

    input_size: int = 1
    output_size: int = 10
    steps: int = 64
    hidden_size: int = 32
    beta: float = 4.0

    def __post_init__(self) -> None:
        """Refuse sizes that are not positive integers, and what `HopfieldConfig` refuses."""
        positive_int("input_size", self.input_size)
        positive_int("steps", self.steps)
        self.inside()

    def inside(self) -> HopfieldConfig:
        """The settings of the classifier inside."""
        width = self.input_size * self.steps
        return HopfieldConfig(width, self.hidden_size, self.output_size, self.beta)


class HopfieldReader(nn.Module):
    """`HopfieldClassifier` for the trainer: what it is trained on is its memory (`remember`).

    While it trains, an example does not see its own copies. Shapes: x (B, steps, input_size) →
    log-probabilities (B, 1, output_size), and ``None`` for the state.
    """

    def __init__(self, config: HopfieldReaderConfig | None = None) -> None:
        """Build the classifier; its memory starts empty."""
        super().__init__()
        self.config = config or HopfieldReaderConfig()
        self.classifier = HopfieldClassifier(self.config.inside())

    def remember(self, x: Tensor, y: Tensor) -> None:
        """Store examples x (P, steps, input_size) with their classes y (P,).

        Raises:
            ValueError: a shape or a class does not fit.
        """
        self.classifier.store(self._flat(x), y)

    def _flat(self, x: Tensor) -> Tensor:
        shape("x", x, (None, self.config.steps, self.config.input_size))
        return x.flatten(1)

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        """Log-probabilities as if of a single last step.

        Raises:
            ValueError: the shape does not fit, or nothing is stored.
        """
        flat = self._flat(x)
        others = None
        if self.training:
            others = (flat[:, None] != self.classifier.examples).any(-1)
        logits: Tensor = self.classifier(flat, others)
        return logits[:, None], None
