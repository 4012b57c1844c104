"""Copying, sorting and recalling bits: what is shown, what is asked, what a coin gets."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from sab.tasks.bits import BitsTask, CopyBitsTask, RecallBitsTask, SortBitsTask


def source(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_copy_shows_a_sequence_a_mark_and_then_nothing() -> None:
    task = CopyBitsTask(T=5, shortest=2, width=3)
    lengths = set()
    generator = source()
    for _ in range(60):
        x, y = task.batch(4, generator)
        length = y.shape[1]
        lengths.add(length)
        assert x.shape == (4, 2 * length + 1, task.input_size) and y.shape == (4, length, 3)
        assert torch.equal(x[:, :length, :3], y)
        assert not x[:, :length, 3].any() and (x[:, length, 3] == 1).all()
        assert not x[:, length, :3].any() and not x[:, length + 1 :].any()
    assert lengths == {2, 3, 4, 5} and task.steps == 11
    assert 0.4 < torch.stack([task.batch(50, generator).y.mean() for _ in range(20)]).mean() < 0.6


def test_sort_asks_for_the_highest_priority_first() -> None:
    task = SortBitsTask(count=5, width=4)
    x, y = task.batch(20, source())
    assert x.shape == (20, task.steps, task.input_size) and y.shape == (20, 5, 4)
    assert (x[:, 5, 5] == 1).all() and not x[:, 6:].any() and not x[:, :5, 5].any()
    for b in range(20):
        ranked = sorted(range(5), key=lambda i: -x[b, i, 4].item())
        assert torch.equal(y[b], x[b, ranked, :4])
    assert x[:, :5, 4].abs().max() <= 1 and x[:, :5, 4].min() < 0


def test_recall_asks_for_the_item_after() -> None:
    task = RecallBitsTask(most=4, vectors=2, width=5)
    counts = set()
    generator = source()
    for _ in range(40):
        x, y = task.batch(6, generator)
        count = (x[0, :, 5] == 1).sum().item()
        counts.add(count)
        assert x.shape == (6, (count + 1) * 3 + 1 + 2, 7) and y.shape == (6, 2, 5)
        assert not x[:, -2:].any() and (x[:, [-6, -3], 6] == 1).all()
        for b in range(6):
            items = [x[b, 3 * i + 1 : 3 * i + 3, :5] for i in range(int(count))]
            asked = x[b, -5:-3, :5]
            after = [items[i + 1] for i in range(len(items) - 1) if torch.equal(items[i], asked)]
            assert any(torch.equal(item, y[b]) for item in after)
    assert counts == {2, 3, 4} and task.steps == 18


@pytest.mark.parametrize(
    "task",
    [CopyBitsTask(T=6), SortBitsTask(count=4), RecallBitsTask()],
    ids=lambda t: type(t).__name__,
)
def test_loss_metrics_and_a_coin(task: CopyBitsTask | SortBitsTask | RecallBitsTask) -> None:
    x, y = task.batch(40, source())
    again = task.batch(40, source())
    assert torch.equal(x, again.x) and torch.equal(y, again.y)
    outputs = torch.zeros(40, x.shape[1], task.output_size)
    outputs[:, -y.shape[1] :] = 20 * (2 * y - 1)
    perfect = task.metrics(outputs, y)
    for name in ("accuracy", "first", "last", "string_accuracy"):
        assert perfect[name] == 1.0
    assert perfect["ce"] < 1e-6 and perfect["bits"] < 1e-3
    outputs[0, -1, 0] *= -1
    worse = task.metrics(outputs, y)
    assert worse["string_accuracy"] == pytest.approx(39 / 40) and worse["first"] == 1.0
    assert worse["last"] == pytest.approx(1 - 1 / (40 * task.width))
    blind = task.metrics(torch.zeros_like(outputs), y)
    assert blind["ce"] == pytest.approx(math.log(2), rel=1e-5)
    assert blind["bits"] == pytest.approx(y[0].numel(), rel=1e-5)
    expected = task.baselines()
    assert set(expected) == set(blind) and expected["ce"] == math.log(2)
    sizes = [task.width * n for n in task.answers()]
    assert expected["bits"] == pytest.approx(sum(sizes) / len(sizes))
    assert expected["string_accuracy"] == pytest.approx(sum(0.5**n for n in sizes) / len(sizes))
    coin = torch.randn(40, x.shape[1], task.output_size, generator=source(1))
    assert abs(task.metrics(coin, y)["accuracy"] - 0.5) < 0.1
    assert task.goal == ("accuracy", "max")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CopyBitsTask(T=0), "T=0: must be an integer of at least 1"),
        (lambda: CopyBitsTask(T=3, shortest=4), "shortest=4: must be at most T=3"),
        (lambda: CopyBitsTask(width=0), "width=0: must be an integer of at least 1"),
        (lambda: SortBitsTask(count=1), "count=1: must be an integer of at least 2"),
        (lambda: RecallBitsTask(most=1), "most=1: must be an integer of at least 2"),
        (lambda: RecallBitsTask(vectors=0), "vectors=0: must be an integer"),
        (lambda: CopyBitsTask().batch(0, source()), "batch_size=0: must be an integer"),
        (lambda: SortBitsTask().batch(0, source()), "batch_size=0: must be an integer"),
        (lambda: RecallBitsTask().batch(0, source()), "batch_size=0: must be an integer"),
    ],
)
def test_errors(make: Callable[[], BitsTask], message: str) -> None:
    with pytest.raises(ValueError) as error:
        make()
    assert str(error.value).startswith(message)
