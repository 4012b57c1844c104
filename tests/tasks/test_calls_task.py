"""The log of calls: where the answer stands, that nothing else tells it, lengths, judgement."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from sab.tasks.calls import CallsTask


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_the_layout() -> None:
    task = CallsTask(T=41, tools=5, results=3)
    x, y = task.batch(300, generator())
    assert x.shape == (300, 41, 16) and y.shape == (300, 1)
    calls = x.argmax(-1)
    assert (calls[:, -1] == 15).all() and (calls[:, :-1] < 15).all()
    first = calls < 3  # tool 0: once, in the first quarter, and it returned the answer
    assert (first.sum(1) == 1).all() and first[:, :10].any(1).all()
    assert torch.equal(calls[first], y[:, 0])
    assert set(first.long().argmax(1).tolist()) == set(range(10))
    assert set(calls[:, 10:-1].unique().tolist()) == set(range(3, 15))
    counts = torch.bincount(y[:, 0])
    assert counts.min() > 70


def test_lengths_are_drawn_anew_and_the_same_state_gives_the_same_batch() -> None:
    task = CallsTask(T=40, shortest=0.25)
    source = generator(3)
    lengths = {task.batch(2, source).x.shape[1] for _ in range(200)}
    assert lengths == set(range(10, 41))
    one, two = (task.batch(4, generator(5)) for _ in range(2))
    assert torch.equal(one.x, two.x) and torch.equal(one.y, two.y)
    assert CallsTask(T=4).batch(1, generator()).x.shape[1] == 4


def test_judgement() -> None:
    task = CallsTask(T=8)
    y = torch.tensor([[1], [3]])
    outputs = torch.zeros(2, 5, 4)
    outputs[:, -1, 1] = 2.0
    found = task.metrics(outputs, y)
    assert found["accuracy"] == 0.5
    total = math.log(math.exp(2) + 3)
    assert found["ce"] == pytest.approx(total - 1.0)
    assert task.baselines() == {"accuracy": 0.25, "ce": pytest.approx(math.log(4))}


@pytest.mark.parametrize(
    ("change", "message"),
    [({"T": 3}, "T=3"), ({"tools": 1}, "tools=1"), ({"results": 1}, "results=1"),
     ({"shortest": -0.1}, "shortest=-0.1"), ({"shortest": 2}, "shortest=2")],
)  # fmt: skip
def test_what_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CallsTask(**change)
    with pytest.raises(ValueError, match="batch_size=0"):
        CallsTask().batch(0, generator())
