"""Real event logs: system-call traces (ADFA-LD) and sessions of a file system (HDFS).

Both are read from ``$SAB_DATA``; nothing of them is part of this project. A log is a tensor of
event numbers from 1 on; 0 is left for padding. Logs, not events, are split into training and test.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from sab.checks import finite_float
from sab.data import data_dir

ADFA = "adfa_ld/ADFA-LD.zip"
HDFS = ("hdfs/hdfs_train", "hdfs/hdfs_test_abnormal")


class Log(NamedTuple):
    """One log: its events (N,) int64, whether it is an attack or a fault, and its name."""

    events: Tensor
    attack: bool
    name: str


def data_file(name: str, folder: Path | None = None) -> Path:
    """The path of a data file below ``folder``, or where data sets are where that is ``None``.

    Raises:
        FileNotFoundError: there is no such file; the message says where it was looked for.
    """
    path = (folder or data_dir()) / name
    if not path.is_file():
        raise FileNotFoundError(f"{path}: not there; set SAB_DATA to the folder that holds {name}")
    return path


def _log(text: str, attack: bool, name: str) -> Log:
    try:
        events = torch.tensor([int(word) for word in text.split()], dtype=torch.int64)
    except ValueError:
        raise ValueError(f"{name}: must hold integers, separated by blanks") from None
    return Log(events, attack, name)


def adfa(folder: Path | None = None) -> list[Log]:
    """ADFA-LD: 5,205 normal traces and 746 of attacks, in the order of their names.

    Raises:
        FileNotFoundError: the archive is not there.
        ValueError: a trace does not hold integers.
    """
    logs = []
    with zipfile.ZipFile(data_file(ADFA, folder)) as archive:
        for name in sorted(archive.namelist()):
            if name.endswith(".txt") and "_Data_Master/" in name:
                text = archive.read(name).decode("ascii")
                logs.append(_log(text, "Attack_Data_Master/" in name, name))
    return [log for log in logs if len(log.events)]


def hdfs(folder: Path | None = None) -> list[Log]:
    """HDFS sessions: the normal ones of the training file, the faulty ones of the test file.

    Raises:
        FileNotFoundError: a file is not there.
        ValueError: a session does not hold integers.
    """
    logs = []
    for name, attack in zip(HDFS, (False, True), strict=True):
        lines = data_file(name, folder).read_text(encoding="ascii").splitlines()
        logs += [_log(line, attack, f"{name}:{number}") for number, line in enumerate(lines, 1)]
    return [log for log in logs if len(log.events)]


def made(folder: Path | None = None, count: int = 320) -> list[Log]:
    """Small logs that need no data, for trials: normal work goes round eight events, with slips.

    A quarter of them are attacks: for a while, early on, the work goes round backwards. Lengths are
    20 to 60. ``folder`` is not looked at; every call gives the same logs.
    """
    generator = torch.Generator().manual_seed(0)
    logs = []
    for number in range(count):
        attack = number % 4 == 0
        length = int(torch.randint(20, 61, (1,), generator=generator))
        way = torch.ones(length, dtype=torch.int64)
        if attack:
            way[4:12] = -1
        start = int(torch.randint(8, (1,), generator=generator))
        events = (start + way.cumsum(0)) % 8 + 1
        slip = torch.rand(length, generator=generator) < 0.1
        other = torch.randint(1, 13, (length,), generator=generator)
        logs.append(Log(torch.where(slip, other, events), attack, f"made:{number}"))
    return logs


def split(logs: Sequence[Log], test: float = 0.3, seed: int = 0) -> tuple[list[Log], list[Log]]:
    """Divide logs into training and test, each class by itself, so that both have the same share.

    Raises:
        ValueError: ``test`` is not between 0 and 1.
    """
    finite_float("test", test, 0.0, 1.0)
    generator = torch.Generator().manual_seed(seed)
    parts: tuple[list[Log], list[Log]] = ([], [])
    for attack in (False, True):
        mine = [log for log in logs if log.attack == attack]
        order = torch.randperm(len(mine), generator=generator).tolist()
        cut = round(test * len(mine))
        parts[1].extend(mine[i] for i in order[:cut])
        parts[0].extend(mine[i] for i in order[cut:])
    return parts


def pad(logs: Iterable[Log], types: int) -> tuple[Tensor, Tensor]:
    """A batch of logs: one-hot events (B, N, types), rows of zeros behind the end, and (B,) labels.

    Events beyond ``types`` share the last feature.

    Raises:
        ValueError: there is no log.
    """
    chosen = list(logs)
    if not chosen:
        raise ValueError("logs=[]: must hold at least one log")
    longest = max(len(log.events) for log in chosen)
    x = torch.zeros(len(chosen), longest, types)
    for row, log in enumerate(chosen):
        x[row, torch.arange(len(log.events)), (log.events - 1).clamp(0, types - 1)] = 1.0
    return x, torch.tensor([int(log.attack) for log in chosen])


def roc_auc(scores: Tensor, labels: Tensor) -> float:
    """Probability that a positive scores above a negative, ties counting half.

    Args:
        scores: (B,).
        labels: (B,), 0 or 1.

    Raises:
        ValueError: one of the classes is missing.
    """
    positive, negative = scores[labels == 1], scores[labels == 0]
    if not len(positive) or not len(negative):
        raise ValueError("labels: must hold both classes")
    ordered = negative.sort().values
    below = torch.searchsorted(ordered, positive)
    upto = torch.searchsorted(ordered, positive, right=True)
    return float((below + upto).double().mean() / (2 * len(negative)))


def recall_at(scores: Tensor, labels: Tensor, false_alarms: float) -> float:
    """Share of the positives above the threshold that this share of the negatives exceeds.

    Args:
        scores: (B,).
        labels: (B,), 0 or 1.
        false_alarms: between 0 and 1.

    Raises:
        ValueError: one of the classes is missing, or ``false_alarms`` is no share.
    """
    finite_float("false_alarms", false_alarms, 0.0, 1.0)
    positive, negative = scores[labels == 1], scores[labels == 0]
    if not len(positive) or not len(negative):
        raise ValueError("labels: must hold both classes")
    allowed = int(false_alarms * len(negative))  # negatives that may lie above
    if allowed == len(negative):
        return 1.0
    threshold = negative.sort(descending=True).values[allowed]
    return float((positive > threshold).double().mean())


def f1(guessed: Tensor, labels: Tensor) -> float:
    """Harmonic mean of precision and recall of class 1; 0 where nothing is found.

    Args:
        guessed: (B,), 0 or 1.
        labels: (B,), 0 or 1.
    """
    hits = float(((guessed == 1) & (labels == 1)).sum())
    return 2 * hits / max(float((guessed == 1).sum() + (labels == 1).sum()), 1.0)
