"""Was a rare key event in the log? The synthetic task of Part III (its source, section 4.1).

A sequence is a log of T events of 50 types. One type is the key. At each step of the first quarter
it occurs with probability 0.5 %, and nowhere else; all other events are uniform over the other
types. The answer is whether it occurred at all.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from sab.checks import finite_float, one_of, positive_int
from sab.tasks.base import Batch

SIDES = ("right", "left")
PLACES = 4  # parts of the early stretch by which found key events are counted
KEY = 0


@dataclass(frozen=True)
class EventsTask:
    """Say whether the key event is in the log.

    Args:
        T: greatest length in events, at least 2.
        types: kinds of event, the key among them.
        rate: probability of the key event at a step of the early part.
        early: the part of the log, from its start, in which it can occur.
        balanced: a fair coin says whether it occurs, and then it does so once, anywhere early.
        shortest: the shortest log as a share of ``T``; lengths are uniform from there to ``T``.
            ``None``: all have length ``T``.
        side: where padding stands; a padded step is a row of zeros.
        read_at: ``None``: the answer is read at the log's last real step; ``"row_end"``: at the
            last step of the padded row, as who reads ``outputs[:, -1]`` does.

    Raises:
        ValueError: a setting is out of range.
    """

    T: int = 1024
    types: int = 50
    rate: float = 0.005
    early: float = 0.25
    balanced: bool = False
    shortest: float | None = None
    side: str = "right"
    read_at: str | None = None

    def __post_init__(self) -> None:
        positive_int("T", self.T, 2)
        positive_int("types", self.types, 2)
        finite_float("rate", self.rate, 0.0, 1.0)
        finite_float("early", self.early, 0.0, 1.0)
        one_of("side", self.side, SIDES)
        one_of("read_at", self.read_at, (None, "row_end"))
        if self.shortest is not None:
            finite_float("shortest", self.shortest, 0.0, 1.0)

    @property
    def least(self) -> int:
        """Length of the shortest log."""
        return self.T if self.shortest is None else max(1, round(self.shortest * self.T))

    @property
    def input_size(self) -> int:
        """One feature an event type."""
        return self.types

    @property
    def output_size(self) -> int:
        """Classes: absent, present."""
        return 2

    @property
    def steps(self) -> int:
        """Length of a padded sequence."""
        return self.T

    @property
    def goal(self) -> tuple[str, str]:
        """Models are chosen by balanced accuracy; more is better."""
        return ("balanced_accuracy", "max")

    def early_steps(self, length: Tensor) -> Tensor:
        """Steps at which the key event can occur in logs of these lengths, at least 1."""
        return (length.double() * self.early).long().clamp(min=1)

    def batch(self, batch_size: int, generator: torch.Generator) -> Batch:
        """Draw ``x (B, T, types)`` float32, one-hot, and ``y (B, 3)`` int64, on the CPU.

        The columns of y: present (0 or 1); the step at which the answer is read, the last real one
        or the row's; the key event's first step, counted from the log's own start, or -1.

        Raises:
            ValueError: ``batch_size`` is not a positive integer.
        """
        positive_int("batch_size", batch_size)
        steps = torch.arange(self.T)
        length = torch.full((batch_size,), self.T)
        if self.least < self.T:
            length = torch.randint(self.least, self.T + 1, (batch_size,), generator=generator)
        events = torch.randint(1, self.types, (batch_size, self.T), generator=generator)
        early = self.early_steps(length)
        if self.balanced:
            present = torch.rand(batch_size, generator=generator) < 0.5
            at = (torch.rand(batch_size, generator=generator) * early).long().clamp(max=self.T - 1)
            key = (steps == at[:, None]) & present[:, None]
        else:
            key = torch.rand(batch_size, self.T, generator=generator) < self.rate
            key &= steps < early[:, None]
        events = events.masked_fill(key, KEY)
        x = torch.zeros(batch_size, self.T, self.types)
        x.scatter_(2, events[:, :, None], 1.0)
        x[steps >= length[:, None]] = 0.0
        last = length - 1
        if self.side == "left":
            order = (steps - (self.T - length)[:, None]) % self.T
            x = x.gather(1, order[:, :, None].expand_as(x))
            last = torch.full_like(length, self.T - 1)
        if self.read_at == "row_end":
            last = torch.full_like(length, self.T - 1)
        present = key.any(1)
        first = torch.where(present, key.long().argmax(1), -1)
        return Batch(x, torch.stack([present.long(), last, first], 1))

    def answers(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The logits (B, 2) where the answer is read, from outputs (B, T, 2)."""
        return outputs[torch.arange(len(y), device=outputs.device), y[:, 1]]

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Cross-entropy in nats where the answer is read."""
        return functional.cross_entropy(self.answers(outputs, y), y[:, 0])

    def metrics(self, outputs: Tensor, y: Tensor) -> dict[str, float]:
        """Judge logits ``outputs (B, T, 2)``.

        Returns:
            ``accuracy``; ``balanced_accuracy``: mean of the two classes' (of one, where the batch
            has one only); ``recall``: of the present (1 where none is); ``ce``: nats.
        """
        right = (self.answers(outputs, y).argmax(-1) == y[:, 0]).float()
        per_class = [right[y[:, 0] == c].mean() for c in (0, 1) if (y[:, 0] == c).any()]
        present = y[:, 0] == 1
        return {
            "accuracy": right.mean().item(),
            "balanced_accuracy": torch.stack(per_class).mean().item(),
            "recall": right[present].mean().item() if present.any() else 1.0,
            "ce": self.loss(outputs, y).item(),
        }

    def scored(self, outputs: Tensor, y: Tensor) -> Tensor:
        """What `overall` needs of a batch: (B, 2), answered right, and where the key first stood.

        The place is a share of the stretch in which the key can occur; -1 where there is none. With
        padding on the left, or read at the row's end, y does not tell a log's length, and ``T``
        stands for it.
        """
        right = self.answers(outputs, y).argmax(-1) == y[:, 0]
        length = y[:, 1] + 1 if self.side == "right" else torch.full_like(y[:, 1], self.T)
        place = y[:, 2] / self.early_steps(length)
        return torch.stack([right.double(), place.masked_fill(y[:, 2] < 0, -1.0).double()], 1)

    def overall(self, scored: Tensor) -> dict[str, float]:
        """``recall_p1`` … ``recall_p4``: of the present by where the key first stood, early first.

        A quarter without a key event has no number.
        """
        found = {}
        for at in range(PLACES):
            here = (scored[:, 1] * PLACES).floor() == at
            if here.any():
                found[f"recall_p{at + 1}"] = scored[here, 0].mean().item()
        return found

    def base_rate(self) -> float:
        """Probability that the key event occurs: 1 - (1 - rate)^early, over the lengths; or 1/2."""
        if self.balanced:
            return 0.5
        early = self.early_steps(torch.arange(self.least, self.T + 1)).double()
        return float((1 - (1 - self.rate) ** early).mean())

    def baselines(self) -> dict[str, float]:
        """What the more frequent answer reaches, in closed form; ``ce`` is the rate's entropy."""
        p = torch.tensor(self.base_rate(), dtype=torch.float64)
        entropy = -(torch.xlogy(p, p) + torch.xlogy(1 - p, 1 - p))
        return {
            "accuracy": max(float(p), 1 - float(p)),
            "balanced_accuracy": 0.5,
            "recall": float(p >= 0.5),
            "ce": float(entropy),
        }
