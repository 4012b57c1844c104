"""Associative recall: what is asked was told, and nothing else helps."""

from __future__ import annotations

import pytest
import torch

from sab.tasks import Task, build
from sab.tasks.recall import IGNORED, RecallTask


def source(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_every_question_has_its_answer_in_the_pairs() -> None:
    task = RecallTask(pairs=5, keys=9, values=4)
    x, y = task.batch(40, source())
    assert x.shape == (40, 15, 14) and y.shape == (40, 15)
    for row, answers in zip(x, y, strict=True):
        keys, values = row[0:10:2], row[1:10:2]
        assert (keys.sum(1) == 1).all() and (keys[:, 9:] == 0).all()
        assert (values.sum(1) == 1).all() and (values[:, :9] == 0).all()
        book = dict(zip(keys.argmax(1).tolist(), (values.argmax(1) - 9).tolist(), strict=True))
        assert len(book) == 5  # no key comes twice
        questions = row[10:]
        assert (questions.sum(1) == 2).all() and (questions[:, -1] == 1).all()
        asked = questions[:, :9].argmax(1).tolist()
        assert sorted(asked) == sorted(book)
        assert answers[10:].tolist() == [book[key] for key in asked]
    assert (y[:, :10] == IGNORED).all()


def test_loss_and_metrics_count_questions_only() -> None:
    task = RecallTask(pairs=4, values=3)
    y = task.batch(20, source(1)).y
    right = 30.0 * torch.nn.functional.one_hot(y.clamp_min(0), 3).float()
    assert task.metrics(right, y) == {"accuracy": 1.0, "sequence_accuracy": 1.0}
    assert task.loss(right, y) < 1e-6
    right[:, :8] = torch.randn(20, 8, 3, generator=source(2))
    assert task.metrics(right, y)["accuracy"] == 1.0 and task.loss(right, y) < 1e-6
    right[0, -1] = -right[0, -1]
    found = task.metrics(right, y)
    assert found["accuracy"] == pytest.approx(1 - 1 / 80)
    assert found["sequence_accuracy"] == pytest.approx(19 / 20)


def test_chance() -> None:
    task = RecallTask()
    _, y = task.batch(2000, source(3))
    fixed = torch.zeros(2000, task.steps, task.output_size)
    fixed[:, :, 2] = 1.0
    found, blind = task.metrics(fixed, y), task.baselines()
    assert blind == {"accuracy": 1 / 8, "sequence_accuracy": (1 / 8) ** 6}
    assert found["accuracy"] == pytest.approx(blind["accuracy"], abs=0.02)


@pytest.mark.parametrize(("pairs", "values"), [(1, 3), (2, 2), (4, 4), (6, 8)])
def test_what_the_values_alone_tell(pairs: int, values: int) -> None:
    task = RecallTask(pairs, 12, values)
    y = task.batch(20000, source(4)).y[:, -pairs:]
    counts = torch.nn.functional.one_hot(y, values).sum(1)
    found = counts.max(1).values.float().mean().item() / pairs
    assert task.without_binding() == pytest.approx(found, abs=0.005)
    assert RecallTask(2, 12, 2).without_binding() == pytest.approx(0.75)


def test_seeded_registered_and_refused() -> None:
    assert torch.equal(RecallTask().batch(3, source(5)).x, RecallTask().batch(3, source(5)).x)
    assert not torch.equal(RecallTask().batch(3, source(5)).x, RecallTask().batch(3, source(6)).x)
    assert isinstance(build("recall"), Task)
    with pytest.raises(ValueError, match="keys=3: must be at least pairs=6"):
        RecallTask(keys=3)
    with pytest.raises(ValueError, match="pairs=0"):
        RecallTask(0)
    with pytest.raises(ValueError, match="values=1"):
        RecallTask(values=1)
    with pytest.raises(ValueError, match="batch_size=0"):
        RecallTask().batch(0, source())
