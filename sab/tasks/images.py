"""Pictures read pixel by pixel, the class said after the last (paper, sections 4 and 7.4, Table 4).

Permuted MNIST reads the pixels in one fixed drawn order, so that neighbours lie far apart; pixel
CIFAR-10 reads them row by row, three colours a step.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from sab.checks import one_of, positive_int
from sab.tasks.base import Batch
from sab.tasks.pictures import SHAPES, SOURCES, Pictures, pictures

ORDERS = ("pixel", "permuted")
PERMUTATION_SEED = 1809  # of the one permutation; the paper does not give its own


def pixel_order(steps: int) -> Tensor:
    """The permutation of "permuted", (steps,) int64: step i reads the pixel ``order[i]``.

    From NumPy's legacy generator, whose stream is frozen: the same for every version and machine.
    """
    return torch.from_numpy(np.random.RandomState(PERMUTATION_SEED).permutation(steps).astype("i8"))


def order_digest(steps: int) -> str:
    """SHA-256 of the permutation, as decimal numbers with commas between: what records keep."""
    text = ",".join(str(int(i)) for i in pixel_order(steps))
    return hashlib.sha256(text.encode()).hexdigest()


def on_pixels(values: Tensor, order: str = "permuted") -> Tensor:
    """Put what belongs to steps back on the pixels that were read there.

    Args:
        values: (…, steps), a number a step.
        order: one of ``ORDERS``.

    Returns:
        (…, steps), a number a pixel, row by row.

    Raises:
        ValueError: an unknown order.
    """
    if one_of("order", order, ORDERS) == "pixel":
        return values
    out = torch.empty_like(values)
    out[..., pixel_order(values.shape[-1])] = values
    return out


@dataclass(frozen=True)
class ImageTask:
    """Say the class of a picture that is read pixel by pixel.

    Args:
        source: ``"mnist"``, ``"cifar10"``, ``"cifar10_jpeg"`` (lossy copies, named as such), or
            ``"digits"``.
        order: ``"pixel"``, row by row; or ``"permuted"``.

    Raises:
        ValueError: an unknown name. The pictures are read when they are first needed.
    """

    source: str = "mnist"
    order: str = "permuted"

    def __post_init__(self) -> None:
        one_of("source", self.source, SOURCES)
        one_of("order", self.order, ORDERS)

    @property
    def pictures(self) -> Pictures:
        """The pictures.

        Raises:
            DataError: they are not here and cannot be fetched.
        """
        return pictures(self.source)

    @property
    def input_size(self) -> int:
        """Channels."""
        return SHAPES[self.source][1]

    @property
    def output_size(self) -> int:
        """Classes."""
        return 10

    @property
    def steps(self) -> int:
        """Pixels."""
        return SHAPES[self.source][0]

    @property
    def goal(self) -> tuple[str, str]:
        """Models are chosen by the accuracy; more is better."""
        return ("accuracy", "max")

    @property
    def about(self) -> str:
        """What was read and in which order, for the record."""
        order = "pixels row by row"
        if self.order == "permuted":
            order = f"pixels permuted, SHA-256 of the order {order_digest(self.steps)}"
        return f"{self.pictures.about}; {order}"

    def prepare(self) -> None:
        """Read the pictures, fetching them if need be.

        Raises:
            ValueError, DataError: they cannot be read.
        """
        self.pictures  # noqa: B018

    def sequences(self, part: str) -> int:
        """Pictures of a part: ``"train"``, ``"valid"`` or ``"test"``."""
        return len(self.pictures.labels[part])

    def take(self, part: str, which: Tensor) -> Batch:
        """Pictures ``which (B,)``: x (B, steps, channels) float32 in 0…1, y (B,) int64."""
        found = self.pictures
        x = found.pixels[part][which].float() / found.top
        if self.order == "permuted":
            x = x[:, pixel_order(self.steps)]
        return Batch(x, found.labels[part][which])

    def batch(self, batch_size: int, generator: torch.Generator) -> Batch:
        """Draw training pictures.

        Raises:
            ValueError: ``batch_size`` is not a positive integer.
        """
        positive_int("batch_size", batch_size)
        return self.take(
            "train", torch.randint(self.sequences("train"), (batch_size,), generator=generator)
        )

    def weight(self, y: Tensor) -> int:
        """Pictures of a batch."""
        return len(y)

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Cross-entropy in nats of the last step's logits ``(B, steps, classes)``."""
        return functional.cross_entropy(outputs[:, -1], y)

    def metrics(self, outputs: Tensor, y: Tensor) -> dict[str, float]:
        """``accuracy`` of the last step, and ``ce``, its cross-entropy in nats."""
        return {
            "accuracy": (outputs[:, -1].argmax(-1) == y).float().mean().item(),
            "ce": self.loss(outputs, y).item(),
        }

    def baselines(self) -> dict[str, float]:
        """A guess among ten classes."""
        return {"accuracy": 0.1, "ce": float(np.log(10))}
