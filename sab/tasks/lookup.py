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

from sab.checks import finite_float, positive_int


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

    def batch(self, batch_size: int, generator: torch.Generator) -> Lookups:
        """Draw a batch, float32, on the CPU.

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
