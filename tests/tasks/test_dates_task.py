"""Dates: every format says the same day, and parts share no day."""

from __future__ import annotations

import datetime

import pytest
import torch
from torch.nn import functional

from sab.tasks import Task, build
from sab.tasks.dates import DAYS, FORMATS, ISO, SOURCE, TARGET, DatesTask, ending, written
from sab.tasks.symbols import END, PAD, UNKNOWN, Vocabulary, padded


def test_formats() -> None:
    day = datetime.date(1987, 3, 3)
    assert [written(day, style) for style in range(len(FORMATS))] == [
        "Tuesday, 3 March 1987",
        "3 March 1987",
        "March 3, 1987",
        "Tuesday the 3rd of March 1987",
        "Mar 3, 1987",
        "3.3.1987",
        "3 Mar '87",
    ]
    assert written(datetime.date(2005, 12, 31), 6) == "31 Dec '05"
    with pytest.raises(ValueError, match="style=7"):
        written(day, 7)


def test_endings() -> None:
    found = [f"{day}{ending(day)}" for day in (1, 2, 3, 4, 11, 12, 13, 21, 22, 23, 30, 31)]
    assert " ".join(found) == "1st 2nd 3rd 4th 11th 12th 13th 21st 22nd 23rd 30th 31st"


def test_texts_are_encoded_whole() -> None:
    task = DatesTask()
    which = torch.arange(0, task.sequences("train"), 997)
    texts = task.texts("train", which)
    x, y = task.take("train", which)
    assert not (x == UNKNOWN).any() and y.shape == (len(which), ISO)
    assert len({len(source) for source, _ in texts}) > 10  # lengths differ
    for row, answer, (source, truth) in zip(x.tolist(), y.tolist(), texts, strict=True):
        assert "".join(SOURCE.decode(row)) == source
        assert "".join(TARGET.decode(answer)) == truth and answer[-1] == END
        assert datetime.date.fromisoformat(truth)
        assert row == SOURCE.encode(source) + [PAD] * (x.shape[1] - len(source))


def test_parts_share_no_day_and_hold_every_format() -> None:
    task = DatesTask()
    days = {part: set(task.days(part)) for part in ("train", "valid", "test")}
    assert sum(map(len, days.values())) == DAYS == len(set().union(*days.values()))
    assert task.sequences("train") == len(days["train"]) * len(FORMATS)
    small = torch.arange(70)
    found = {
        style
        for source, answer in task.texts("test", small)
        for style in range(len(FORMATS))
        if source == written(datetime.date.fromisoformat(answer), style)
    }
    assert found == set(range(len(FORMATS)))
    n = len(days["train"])  # one day comes once in each format
    one = task.texts("train", torch.arange(len(FORMATS)) * n + 5)
    assert len({answer for _, answer in one}) == 1 and len({text for text, _ in one}) == 7
    assert DatesTask(1).days("test") != task.days("test") == DatesTask(0).days("test")


def test_metrics_and_loss() -> None:
    task = DatesTask()
    y = task.take("test", torch.arange(50)).y
    perfect = 30.0 * functional.one_hot(y, task.output_size).float()
    assert task.metrics(perfect, y) == {"accuracy": 1.0, "character_accuracy": 1.0}
    assert task.loss(perfect, y) < 1e-6 and task.weight(y) == 50
    perfect[3, 2] = perfect[3, 2].roll(1)
    found = task.metrics(perfect, y)
    assert found["accuracy"] == pytest.approx(49 / 50)
    assert found["character_accuracy"] == pytest.approx(1 - 1 / 550)


def test_seeded_registered_and_refused() -> None:
    task = DatesTask()
    first, again = (task.batch(8, torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(first.x, again.x) and torch.equal(first.y, again.y)
    assert isinstance(build("dates"), Task)
    with pytest.raises(ValueError, match="seed=-1"):
        DatesTask(-1)
    with pytest.raises(ValueError, match="batch_size=0"):
        task.batch(0, torch.Generator())
    with pytest.raises(ValueError, match="part='dev'"):
        task.take("dev", torch.arange(2))


def test_vocabulary() -> None:
    found = Vocabulary.most_frequent([["b", "a", "b"], ["c", "a"]], 2)
    assert found.tokens == ("a", "b") and len(found) == 6
    assert found.encode(["b", "c"]) == [5, UNKNOWN]
    assert found.decode([5, UNKNOWN, 4, END, 4, PAD]) == ["b", "<unknown>", "a"]
    assert padded([[4], [5, 6]], 3).tolist() == [[4, 0, 0], [5, 6, 0]]
    with pytest.raises(ValueError, match="longest=1: a row has 2"):
        padded([[4], [5, 6]], 1)
    with pytest.raises(ValueError, match="rows="):
        padded([])
