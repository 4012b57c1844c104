"""Sequences of random bits: copy them, sort them, or say what came next (Graves et al. 2014).

Sections 4.1, 4.5 and 4.3 there. All bits of a vector are shown at one step, on as many channels;
further channels hold marks. The answer is expected on the last steps, at which nothing is shown.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from sab.checks import positive_int
from sab.tasks.base import Batch


def random_bits(generator: torch.Generator, *size: int) -> Tensor:
    """Fair bits, float32."""
    return torch.randint(0, 2, size, generator=generator).float()


@dataclass(frozen=True)
class BitsTask:
    """What the tasks on bits share.

    Args:
        width: bits of a vector.
    """

    width: int = 8

    def __post_init__(self) -> None:
        """Refuse settings that are not positive integers (ValueError)."""
        positive_int("width", self.width)

    @property
    def output_size(self) -> int:
        """One logit a bit."""
        return self.width

    @property
    def goal(self) -> tuple[str, str]:
        """Models are chosen by the share of right bits; more is better."""
        return ("accuracy", "max")

    def answers(self) -> list[int]:
        """Vectors of an answer; several, if they are equally likely."""
        raise NotImplementedError

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Cross-entropy in nats a bit: logits (B, steps, width) at the end against y (B, A, width).

        A, the vectors of the answer, may differ between batches.
        """
        return functional.binary_cross_entropy_with_logits(outputs[:, -y.shape[1] :], y)

    def metrics(self, outputs: Tensor, y: Tensor) -> dict[str, float]:
        """Judge logits (B, steps, width) against y (B, A, width).

        Returns:
            ``accuracy``: share of right bits; ``first``, ``last``: the same of the first and the
            last vector; ``string_accuracy``: share of answers with every bit right; ``ce``: nats
            a bit; ``bits``: cost of an answer in bits, the paper's unit.
        """
        right = ((outputs[:, -y.shape[1] :] > 0) == (y > 0.5)).float()
        ce = self.loss(outputs, y).item()
        return {
            "accuracy": right.mean().item(),
            "first": right[:, 0].mean().item(),
            "last": right[:, -1].mean().item(),
            "string_accuracy": right.flatten(1).amin(1).mean().item(),
            "ce": ce,
            "bits": ce / math.log(2) * y[0].numel(),
        }

    def baselines(self) -> dict[str, float]:
        """A coin for every bit, in closed form."""
        sizes = [self.width * vectors for vectors in self.answers()]
        return {
            "accuracy": 0.5,
            "first": 0.5,
            "last": 0.5,
            "string_accuracy": sum(0.5**size for size in sizes) / len(sizes),
            "ce": math.log(2),
            "bits": sum(sizes) / len(sizes),
        }


@dataclass(frozen=True)
class CopyBitsTask(BitsTask):
    """See ``shortest`` to ``T`` vectors and a mark, then repeat them (section 4.1).

    All sequences of a batch have the same length, drawn for each batch.

    Args:
        T: most vectors.
        shortest: least vectors.

    Raises:
        ValueError: a setting is out of range.
    """

    T: int = 20
    shortest: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        positive_int("T", self.T)
        positive_int("shortest", self.shortest)
        if self.shortest > self.T:
            raise ValueError(f"shortest={self.shortest!r}: must be at most T={self.T}")

    @property
    def input_size(self) -> int:
        """The bits and the mark."""
        return self.width + 1

    @property
    def steps(self) -> int:
        """Steps of the longest sequence: T vectors, the mark, T answers."""
        return 2 * self.T + 1

    def answers(self) -> list[int]:
        """Every length is equally likely."""
        return list(range(self.shortest, self.T + 1))

    def batch(self, batch_size: int, generator: torch.Generator) -> Batch:
        """Draw x (B, 2L + 1, width + 1) and y (B, L, width), float32, of one length L.

        Raises:
            ValueError: ``batch_size`` is not a positive integer.
        """
        positive_int("batch_size", batch_size)
        length = int(torch.randint(self.shortest, self.T + 1, (), generator=generator))
        y = random_bits(generator, batch_size, length, self.width)
        x = torch.zeros(batch_size, 2 * length + 1, self.input_size)
        x[:, :length, : self.width] = y
        x[:, length, self.width] = 1.0
        return Batch(x, y)


@dataclass(frozen=True)
class SortBitsTask(BitsTask):
    """See vectors, each with a priority from U(-1, 1), then say them, the highest first (4.5).

    Args:
        count: vectors shown, and said.

    Raises:
        ValueError: a setting is out of range.
    """

    count: int = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        positive_int("count", self.count, 2)

    @property
    def input_size(self) -> int:
        """The bits, the priority and the mark."""
        return self.width + 2

    @property
    def steps(self) -> int:
        """The vectors, the mark, the answers."""
        return 2 * self.count + 1

    def answers(self) -> list[int]:
        """All vectors."""
        return [self.count]

    def batch(self, batch_size: int, generator: torch.Generator) -> Batch:
        """Draw x (B, steps, width + 2) and y (B, count, width), float32.

        Raises:
            ValueError: ``batch_size`` is not a positive integer.
        """
        positive_int("batch_size", batch_size)
        bits = random_bits(generator, batch_size, self.count, self.width)
        priority = 2 * torch.rand(batch_size, self.count, generator=generator) - 1
        x = torch.zeros(batch_size, self.steps, self.input_size)
        x[:, : self.count, : self.width] = bits
        x[:, : self.count, self.width] = priority
        x[:, self.count, self.width + 1] = 1.0
        order = priority.argsort(1, descending=True)
        return Batch(x, bits.gather(1, order[:, :, None].expand_as(bits)))


@dataclass(frozen=True)
class RecallBitsTask(BitsTask):
    """See items of some vectors, then one of them again: say the item after it (4.3).

    Each item begins with a mark. The one asked for stands between two marks of another kind, and is
    never the last.

    Args:
        most: items at most; the number is drawn for each batch, from 2 on.
        vectors: of an item.

    Raises:
        ValueError: a setting is out of range.
    """

    width: int = 6
    most: int = 6
    vectors: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        positive_int("most", self.most, 2)
        positive_int("vectors", self.vectors)

    @property
    def input_size(self) -> int:
        """The bits and two kinds of mark."""
        return self.width + 2

    @property
    def steps(self) -> int:
        """Steps of the longest sequence: the items, the question, the answer."""
        return (self.most + 1) * (self.vectors + 1) + 1 + self.vectors

    def answers(self) -> list[int]:
        """One item."""
        return [self.vectors]

    def batch(self, batch_size: int, generator: torch.Generator) -> Batch:
        """Draw x (B, steps, width + 2) and y (B, vectors, width), float32, of one number of items.

        Raises:
            ValueError: ``batch_size`` is not a positive integer.
        """
        positive_int("batch_size", batch_size)
        count = int(torch.randint(2, self.most + 1, (), generator=generator))
        items = random_bits(generator, batch_size, count, self.vectors, self.width)
        asked = torch.randint(0, count - 1, (batch_size,), generator=generator)
        rows = torch.arange(batch_size)
        size = self.vectors + 1
        shown = torch.zeros(batch_size, count + 1, size, self.input_size)
        shown[:, :count, 1:, : self.width] = items
        shown[:, :count, 0, self.width] = 1.0
        shown[:, count, 1:, : self.width] = items[rows, asked]
        shown[:, count, 0, self.width + 1] = 1.0
        rest = torch.zeros(batch_size, size, self.input_size)
        rest[:, 0, self.width + 1] = 1.0
        return Batch(torch.cat([shown.flatten(1, 2), rest], 1), items[rows, asked + 1])
