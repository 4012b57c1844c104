"""One question to a key-value memory: the smallest task that needs attention.

Each item has a key and a value; the values are a permutation of the classes, so without the
question no answer is better than another. The question is one item's key, turned by a fixed
rotation that has to be found out, and blurred.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from sab.checks import finite_float, positive_int
from sab.tasks.base import Batch

SMALLEST = 1e-6  # of a share whose logarithm is taken


class Lookups(NamedTuple):
    """A batch of N items and a question: shapes (B, N, width), (B, N, N), (B, width), (B,).

    ``values`` are one-hot classes, ``label`` the class of the item that the ``query`` asks for.
    """

    keys: Tensor
    values: Tensor
    query: Tensor
    label: Tensor


@dataclass(frozen=True)
class LookupTask:
    """Ask for one of ``items`` by its key.

    Args:
        items: N, and the number of classes.
        width: of keys and question.
        noise: standard deviation of the blur, where a key's entries have 1.
        rotation: seed of the rotation.

    Raises:
        ValueError: a setting is out of range.
    """

    items: int = 6
    width: int = 8
    noise: float = 0.3
    rotation: int = 0

    def __post_init__(self) -> None:
        positive_int("items", self.items, 2)
        positive_int("width", self.width, 2)
        positive_int("rotation", self.rotation, 0)
        finite_float("noise", self.noise, 0.0)

    def turn(self) -> Tensor:
        """The orthogonal matrix (width, width) that takes a key to its question."""
        source = torch.Generator().manual_seed(self.rotation)
        return torch.linalg.qr(torch.randn(self.width, self.width, generator=source)).Q

    @property
    def input_size(self) -> int:
        """Width of a key."""
        return self.width

    @property
    def output_size(self) -> int:
        """One class an item."""
        return self.items

    @property
    def steps(self) -> int:
        """The question and the items."""
        return 1 + self.items

    @property
    def goal(self) -> tuple[str, str]:
        """Models are chosen by the share of questions answered right; more is better."""
        return ("accuracy", "max")

    def batch(self, batch_size: int, generator: torch.Generator) -> Batch:
        """Draw a batch as one tensor (see `packed`), with the labels (B,) int64.

        Raises:
            ValueError: ``batch_size`` is not a positive integer.
        """
        drawn = self.draw(batch_size, generator)
        return Batch(packed(drawn), drawn.label)

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Cross-entropy in nats of what was read, (B, N), a distribution over classes."""
        return functional.nll_loss(outputs.clamp_min(SMALLEST).log(), y)

    def metrics(self, outputs: Tensor, y: Tensor) -> dict[str, float]:
        """``accuracy``: share of questions whose likeliest class (B, N) is right."""
        return {"accuracy": (outputs.argmax(1) == y).float().mean().item()}

    def draw(self, batch_size: int, generator: torch.Generator) -> Lookups:
        """Draw keys, values, questions and labels, float32, on the CPU.

        Raises:
            ValueError: ``batch_size`` is not a positive integer.
        """
        positive_int("batch_size", batch_size)
        keys = torch.randn(batch_size, self.items, self.width, generator=generator)
        classes = torch.rand(batch_size, self.items, generator=generator).argsort(1)
        asked = torch.randint(0, self.items, (batch_size,), generator=generator)
        rows = torch.arange(batch_size)
        blur = self.noise * torch.randn(batch_size, self.width, generator=generator)
        query = keys[rows, asked] @ self.turn().T + blur
        values = torch.nn.functional.one_hot(classes, self.items).float()
        return Lookups(keys, values, query, classes[rows, asked])

    def baselines(self) -> dict[str, float]:
        """Without the question: one of N equally likely classes."""
        return {"accuracy": 1 / self.items}


def packed(lookups: Lookups) -> Tensor:
    """Question and items in one tensor (B, 1 + N, width + N), float32.

    Row 0 has the question and zeros, every other row a key and its value.
    """
    question = torch.cat([lookups.query, torch.zeros_like(lookups.values[:, 0])], 1)
    return torch.cat([question[:, None], torch.cat([lookups.keys, lookups.values], 2)], 1)
