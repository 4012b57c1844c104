"""Real logs as tasks: is this one an attack, and what comes next (Part III's source, section 6.1).

`LogsTask` tells attacks from normal work after seeing both. `NextEventTask` sees normal work only
and is asked for the next event; a log that surprises it is an anomaly. In both, whole logs go to
training, validation or test, identical logs count as one, and the division is the same in every
run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from sab import data
from sab.checks import one_of, positive_int
from sab.tasks.base import Batch
from sab.tasks.traces import Log, adfa, f1, hdfs, made, pad, recall_at, roc_auc, split

READERS = {"adfa": (adfa, "adfa_ld"), "hdfs": (hdfs, "hdfs"), "made": (made, None)}
SOURCES = tuple(READERS)
# Known without the data, so that a plan needs none; a test compares them with the data's own.
TYPICAL = {"adfa": 541, "hdfs": 29, "made": 40}  # events a log, the mean
ATTACKS = {"adfa": 0.18971, "hdfs": 0.83091, "made": 0.25}  # share of them
TRAINED = {"adfa": 2155, "hdfs": 2779, "made": 179}  # logs to train on
NORMAL = {"adfa": 1746, "hdfs": 470, "made": 134}  # of those, normal ones
TESTED, VALIDATED = 0.3, 0.2  # shares: of all, and of the rest
FALSE_ALARMS = 0.05
SAME = 2048  # events in which logs must differ to count as two


@dataclass(frozen=True)
class Logs:
    """A data set, divided: part → logs, events numbered by how frequent they are; and in words."""

    parts: dict[str, list[Log]]
    about: str


def distinct(logs: Sequence[Log], first: int | None = None) -> list[Log]:
    """One log of each content, in order; contents that stand in both classes are left out.

    ``first``: logs are the same that agree in their first so many events.
    """
    found: dict[tuple[int, ...], Log] = {}
    classes: dict[tuple[int, ...], set[bool]] = {}
    for one in logs:
        content = tuple(one.events[:first].tolist())
        found.setdefault(content, one)
        classes.setdefault(content, set()).add(one.attack)
    return [one for content, one in found.items() if len(classes[content]) == 1]


def numbered(logs: Sequence[Log], known: Sequence[Log], types: int) -> list[Log]:
    """Renumber events by how often ``known`` has them, from 1; those beyond share ``types``."""
    top = 1 + max(int(one.events.max()) for one in (*logs, *known))
    counts = torch.bincount(torch.cat([one.events for one in known]), minlength=top)
    order = counts.argsort(descending=True, stable=True)
    number = torch.full((top,), types)
    number[order[: types - 1]] = torch.arange(1, min(types - 1, top) + 1)
    return [one._replace(events=number[one.events]) for one in logs]


@lru_cache(maxsize=4)
def load(source: str, longest: int, types: int, folder: Path) -> Logs:
    """Read, divide, crop and number the logs of ``source``; once a process.

    Logs that agree in their first `SAME` events count as one, so that every crop of that length or
    more has the same logs in the same parts.

    Raises:
        DataError: the data are not here and cannot be fetched.
        ValueError: a file holds something else.
    """
    reader, name = READERS[source]
    if name is not None:
        data.files(name)
    whole = distinct(reader())
    cropped = sum(len(one.events) > longest for one in whole)
    whole = distinct(whole, min(longest, SAME))
    whole = [one._replace(events=one.events[:longest]) for one in whole]
    rest, test = split(whole, TESTED)
    train, valid = split(rest, VALIDATED)
    about = (
        f"{source}: {len(whole):,} distinct logs, {sum(one.attack for one in whole):,} of attacks; "
        f"{len(train):,} to train, {len(valid):,} to validate, {len(test):,} to test; "
        f"{cropped:,} cropped to their first {longest:,} events; {types} types of event"
    )
    named = (("train", train), ("valid", valid), ("test", test))
    return Logs({part: numbered(logs, train, types) for part, logs in named}, about)


@dataclass(frozen=True)
class LogsTask:
    """Say whether a log is an attack's (or a fault's).

    Args:
        source: ``"adfa"``: system calls; ``"hdfs"``: sessions of a file system; ``"made"``: small
            ones made here.
        longest: events of a log that are read, from its start.
        types: kinds of event that are told apart, the rarest sharing one.

    Raises:
        ValueError: a setting is out of range. The logs are read when they are first needed.
    """

    source: str = "adfa"
    longest: int = 4494
    types: int = 64

    def __post_init__(self) -> None:
        one_of("source", self.source, SOURCES)
        positive_int("longest", self.longest, 2)
        positive_int("types", self.types, 2)

    @property
    def logs(self) -> Logs:
        """The logs.

        Raises:
            DataError: they are not here and cannot be fetched.
        """
        return load(self.source, self.longest, self.types, data.data_dir())

    @property
    def input_size(self) -> int:
        """One feature an event type."""
        return self.types

    @property
    def output_size(self) -> int:
        """Classes: normal, attack."""
        return 2

    @property
    def steps(self) -> int:
        """Events of a typical log; batches are as long as their longest."""
        return min(TYPICAL[self.source], self.longest)

    @property
    def goal(self) -> tuple[str, str]:
        """Models are chosen by the area under the ROC curve; more is better."""
        return ("roc_auc", "max")

    @property
    def about(self) -> str:
        """What was read and how it was divided, for the record."""
        return self.logs.about

    def prepare(self) -> None:
        """Read the logs, fetching them if need be.

        Raises:
            ValueError, DataError: they cannot be read.
        """
        self.logs  # noqa: B018

    def of(self, part: str) -> list[Log]:
        """The logs of a part: ``"train"``, ``"valid"`` or ``"test"``."""
        return self.logs.parts[part]

    def sequences(self, part: str) -> int:
        """Logs of a part."""
        return len(self.of(part))

    def lengths(self, part: str) -> Tensor:
        """Events of each log of a part, (logs,) int64; batches are made of similar lengths."""
        return torch.tensor([len(one.events) for one in self.of(part)])

    def take(self, part: str, which: Tensor) -> Batch:
        """Logs ``which (B,)``: x (B, N, types) one-hot, rows of zeros behind the end; y (B, 2).

        N is the length of the longest of them. The columns of y: attack (0 or 1), last real step.
        """
        logs = self.of(part)
        chosen = [logs[i] for i in which.tolist()]
        x, label = pad(chosen, self.types)
        last = torch.tensor([len(one.events) - 1 for one in chosen])
        return Batch(x, torch.stack([label, last], 1))

    def batch(self, batch_size: int, generator: torch.Generator) -> Batch:
        """Draw training logs.

        Raises:
            ValueError: ``batch_size`` is not a positive integer.
        """
        positive_int("batch_size", batch_size)
        size = (batch_size,)
        return self.take("train", torch.randint(self.sequences("train"), size, generator=generator))

    def weight(self, y: Tensor) -> int:
        """Logs of a batch."""
        return len(y)

    def answers(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The logits (B, 2) at each log's last step, from outputs (B, N, 2)."""
        return outputs[torch.arange(len(y), device=outputs.device), y[:, 1]]

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Cross-entropy in nats."""
        return functional.cross_entropy(self.answers(outputs, y), y[:, 0])

    def metrics(self, outputs: Tensor, y: Tensor) -> dict[str, float]:
        """``accuracy`` and ``ce`` of a batch; the others need a whole part: see `overall`."""
        right = self.answers(outputs, y).argmax(-1) == y[:, 0]
        return {"accuracy": right.float().mean().item(), "ce": self.loss(outputs, y).item()}

    def scored(self, outputs: Tensor, y: Tensor) -> Tensor:
        """What `overall` needs of a batch: (B, 2), log odds of an attack and the label."""
        answers = self.answers(outputs, y)
        return torch.stack([answers[:, 1] - answers[:, 0], y[:, 0].to(answers.dtype)], 1)

    def overall(self, scored: Tensor) -> dict[str, float]:
        """Metrics of a part, from `scored` of all its logs.

        Returns:
            ``roc_auc``; ``f1`` of the attacks and ``balanced_accuracy``, at even odds.
        """
        scores, labels = scored[:, 0], scored[:, 1].long()
        guessed = (scores > 0).long()
        per_class = [(guessed == labels)[labels == c].float().mean() for c in (0, 1)]
        return {
            "roc_auc": roc_auc(scores, labels),
            "f1": f1(guessed, labels),
            "balanced_accuracy": torch.stack(per_class).mean().item(),
        }

    def baselines(self) -> dict[str, float]:
        """Without looking: the more frequent class (``f1``: always "attack")."""
        p = ATTACKS[self.source]
        return {
            "accuracy": max(p, 1 - p),
            "ce": -p * log(p) - (1 - p) * log(1 - p),
            "roc_auc": 0.5,
            "f1": 2 * p / (1 + p),
            "balanced_accuracy": 0.5,
        }


@dataclass(frozen=True)
class NextEventTask(LogsTask):
    """Say the next event of a normal log; a log of surprises is an anomaly.

    Training and the choice of the model see normal logs only; attacks are met in the test of how
    well the surprise, the mean of -ln p over a log's events, tells them.
    """

    @property
    def output_size(self) -> int:
        """One logit an event type."""
        return self.types

    @property
    def goal(self) -> tuple[str, str]:
        """Models are chosen by the surprise at normal logs; less is better."""
        return ("ce", "min")

    def of(self, part: str) -> list[Log]:
        """The logs of a part; to train, the normal ones alone."""
        logs = self.logs.parts[part]
        return [one for one in logs if not one.attack] if part == "train" else logs

    def take(self, part: str, which: Tensor) -> Batch:
        """As in `LogsTask`, but y (B, N): attack (0 or 1), then the next event's number or -1."""
        x, y = super().take(part, which)
        events = x.argmax(-1).masked_fill(x.sum(-1) == 0, -1)
        return Batch(x, torch.cat([y[:, :1], events[:, 1:]], 1))

    def surprise(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Mean of -ln p of each log's next events in nats, (B,), from outputs (B, N, types)."""
        told = y[:, 1:]
        nats = functional.cross_entropy(
            outputs[:, :-1].transpose(1, 2), told, ignore_index=-1, reduction="none"
        )
        return nats.sum(1) / (told >= 0).sum(1).clamp(min=1)

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Mean surprise of the logs, in nats an event."""
        return self.surprise(outputs, y).mean()

    def weight(self, y: Tensor) -> int:
        """Normal logs of a batch."""
        return int((y[:, 0] == 0).sum())

    def metrics(self, outputs: Tensor, y: Tensor) -> dict[str, float]:
        """``ce``: mean surprise at the normal logs; ``accuracy``: of their next events."""
        normal = y[:, 0] == 0
        told = y[normal, 1:]
        right = (outputs[normal, :-1].argmax(-1) == told).sum(1) / (told >= 0).sum(1).clamp(min=1)
        return {
            "ce": self.loss(outputs[normal], y[normal]).item(),
            "accuracy": right.mean().item(),
        }

    def scored(self, outputs: Tensor, y: Tensor) -> Tensor:
        """What `overall` needs of a batch: (B, 2), the surprise and the label."""
        surprise = self.surprise(outputs, y)
        return torch.stack([surprise, y[:, 0].to(surprise.dtype)], 1)

    def overall(self, scored: Tensor) -> dict[str, float]:
        """``roc_auc``, and ``recall_at_5``: attacks found at 5 % false alarms."""
        scores, labels = scored[:, 0], scored[:, 1].long()
        return {
            "roc_auc": roc_auc(scores, labels),
            "recall_at_5": recall_at(scores, labels, FALSE_ALARMS),
        }

    def baselines(self) -> dict[str, float]:
        """A guess among all types, and a score that says nothing."""
        return {
            "ce": log(self.types),
            "accuracy": 1 / self.types,
            "roc_auc": 0.5,
            "recall_at_5": FALSE_ALARMS,
        }
