"""Dates in words to ISO 8601: "Monday, 3 March 1987" → "1987-03-03".

The smallest translation there is: every answer is right or wrong, and which input characters an
answer's character depends on is known. The days of the training, the validation and the test part
are different ones, so a right answer in the test cannot have been remembered.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional

from sab.checks import one_of, positive_int
from sab.tasks.base import Batch
from sab.tasks.symbols import END, PAD, Vocabulary, padded

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
FORMATS = (
    "{weekday}, {day} {month} {year}",
    "{day} {month} {year}",
    "{month} {day}, {year}",
    "{weekday} the {day}{th} of {month} {year}",
    "{mon} {day}, {year}",
    "{day}.{number}.{year}",
    "{day} {mon} '{yy:02d}",  # 50 … 99 are of the last century, 00 … 49 of this one
)
FIRST, LAST = datetime.date(1950, 1, 1), datetime.date(2049, 12, 31)
DAYS = (LAST - FIRST).days + 1
PARTS = {"train": (0.0, 0.8), "valid": (0.8, 0.9), "test": (0.9, 1.0)}
JUDGED = {"valid": 1000, "test": 2000}  # sequences of these parts
ISO = len("1987-03-03") + 1  # characters of an answer, and the end

SOURCE = Vocabulary(
    tuple(sorted(set("".join((*MONTHS, *WEEKDAYS, "0123456789 ,.'", "the of st nd rd th")))))
)
TARGET = Vocabulary(tuple("-0123456789"))


def ending(day: int) -> str:
    """The letters of the ordinal number: 1st, 2nd, 3rd, 4th, 11th, 21st."""
    if 11 <= day % 100 <= 13:
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")


def written(day: datetime.date, style: int) -> str:
    """The date in one of the `FORMATS`.

    Raises:
        ValueError: ``style`` is no number of a format.
    """
    one_of("style", style, range(len(FORMATS)))
    month = MONTHS[day.month - 1]
    return FORMATS[style].format(
        weekday=WEEKDAYS[day.weekday()],
        day=day.day,
        th=ending(day.day),
        month=month,
        mon=month[:3],
        number=day.month,
        year=day.year,
        yy=day.year % 100,
    )


@lru_cache(maxsize=8)
def _shuffled(seed: int) -> tuple[int, ...]:
    order = torch.randperm(DAYS, generator=torch.Generator().manual_seed(seed))
    return tuple(order.tolist())


@dataclass(frozen=True)
class DatesTask:
    """Rewrite a date as ISO 8601, character by character.

    Args:
        seed: which days belong to which part.

    Raises:
        ValueError: ``seed`` is not an integer of at least 0.
    """

    seed: int = 0

    def __post_init__(self) -> None:
        positive_int("seed", self.seed, 0)

    @property
    def input_size(self) -> int:
        """Kinds of source symbol."""
        return len(SOURCE)

    @property
    def output_size(self) -> int:
        """Kinds of target symbol."""
        return len(TARGET)

    @property
    def steps(self) -> int:
        """Characters of an answer, with the end."""
        return ISO

    @property
    def goal(self) -> tuple[str, str]:
        """Models are chosen by the share of whole dates that are right; more is better."""
        return ("accuracy", "max")

    @property
    def about(self) -> str:
        """What the data are, for the record."""
        return f"{DAYS} days from {FIRST} to {LAST} in {len(FORMATS)} formats, parts by day"

    def days(self, part: str) -> tuple[int, ...]:
        """The days of a part, counted from the first.

        Raises:
            ValueError: there is no such part.
        """
        one_of("part", part, PARTS)
        low, high = (round(share * DAYS) for share in PARTS[part])
        return _shuffled(self.seed)[low:high]

    def sequences(self, part: str) -> int:
        """Sequences of a part: every day in every format, and a share of that for judging."""
        return min(JUDGED.get(part, DAYS * len(FORMATS)), len(self.days(part)) * len(FORMATS))

    def texts(self, part: str, which: Tensor) -> list[tuple[str, str]]:
        """The sequences ``which`` (B,) of a part, as text: source and answer."""
        days = self.days(part)
        found = []
        for i in which.tolist():
            place, turn = i % len(days), i // len(days)
            day = FIRST + datetime.timedelta(days[place])
            found.append((written(day, (place + turn) % len(FORMATS)), day.isoformat()))
        return found

    def take(self, part: str, which: Tensor) -> Batch:
        """Return sequences ``which`` (B,) of a part: x (B, N) and y (B, 11) int64.

        x is padded to the longest of them; y holds the ten characters and the end.
        """
        texts = self.texts(part, which)
        x = padded([SOURCE.encode(source) for source, _ in texts])
        return Batch(x, padded([[*TARGET.encode(answer), END] for _, answer in texts], ISO))

    def batch(self, batch_size: int, generator: torch.Generator) -> Batch:
        """Draw training sequences.

        Raises:
            ValueError: ``batch_size`` is not a positive integer.
        """
        positive_int("batch_size", batch_size)
        which = torch.randint(self.sequences("train"), (batch_size,), generator=generator)
        return self.take("train", which)

    def weight(self, y: Tensor) -> int:
        """Sequences of a batch."""
        return len(y)

    def teacher(self, y: Tensor) -> Tensor:
        """What a model may be told while it trains: the right characters."""
        return y

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Cross-entropy in nats a character."""
        return functional.cross_entropy(outputs.flatten(0, 1), y.flatten(), ignore_index=PAD)

    def metrics(self, outputs: Tensor, y: Tensor) -> dict[str, float]:
        """Judge logits ``outputs`` (B, 11, symbols).

        Returns:
            ``accuracy``: share of whole dates that are right; ``character_accuracy``: of their
            characters, the end included.
        """
        right = outputs.argmax(-1) == y
        return {
            "accuracy": right.all(1).float().mean().item(),
            "character_accuracy": right.float().mean().item(),
        }

    def baselines(self) -> dict[str, float]:
        """A guess that has not seen the source: one day out of all."""
        return {"accuracy": 1 / DAYS}
