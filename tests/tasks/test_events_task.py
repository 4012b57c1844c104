"""The event log: its base rate in closed form, where the key event stands, padding, judgement."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from sab.tasks.events import KEY, EventsTask


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_the_base_rate_of_the_recipe_is_72_percent() -> None:
    task = EventsTask()
    assert task.base_rate() == pytest.approx(1 - 0.995**256)
    assert task.baselines()["accuracy"] == pytest.approx(0.723, abs=5e-4)
    small = EventsTask(T=64, rate=0.08)
    y = small.batch(4000, generator()).y
    assert y[:, 0].float().mean().item() == pytest.approx(1 - 0.92**16, abs=0.02)
    assert EventsTask(balanced=True).base_rate() == 0.5
    y = EventsTask(T=16, balanced=True).batch(4000, generator()).y
    assert y[:, 0].float().mean().item() == pytest.approx(0.5, abs=0.025)


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("side", ["right", "left"])
def test_the_layout(balanced: bool, side: str) -> None:
    task = EventsTask(T=80, types=7, rate=0.1, balanced=balanced, shortest=0.375, side=side)
    x, y = task.batch(300, generator())
    assert x.shape == (300, 80, 7) and y.shape == (300, 3) and x.dtype == torch.float32
    real = x.sum(-1)
    assert set(real.unique().tolist()) == {0.0, 1.0}
    length = real.sum(1).long()
    assert length.min() >= 30 and length.max() <= 80 and length.float().std() > 5
    for row in range(300):
        log = x[row, real[row] == 1].argmax(-1)
        where = (log == KEY).nonzero()[:, 0].tolist()
        present, last, first = y[row].tolist()
        assert present == bool(where) and first == (where[0] if where else -1)
        assert all(at < max(1, int(len(log) * 0.25)) for at in where)
        assert not balanced or len(where) <= 1
        assert last == (len(log) - 1 if side == "right" else 79)
        start = 0 if side == "right" else 80 - len(log)
        assert real[row, start : start + len(log)].all()


def test_both_sides_hold_the_same_logs() -> None:
    pair = [EventsTask(T=40, shortest=0.25, rate=0.1, side=s).batch(20, generator(3)) for s in
            ("right", "left")]  # fmt: skip
    for row in range(20):
        right, left = (x[row][x[row].sum(-1) == 1] for x, _ in pair)
        assert torch.equal(right, left)
    assert torch.equal(pair[0].y[:, [0, 2]], pair[1].y[:, [0, 2]])


def test_ordinary_events_are_uniform_and_key_positions_too() -> None:
    task = EventsTask(T=40, types=5, balanced=True)
    x, y = task.batch(5000, generator())
    counts = x[:, 10:].sum((0, 1))
    assert counts[KEY] == 0
    assert torch.allclose(counts[1:] / counts.sum(), torch.tensor(0.25), atol=0.01)
    first = y[y[:, 0] == 1, 2]
    share = torch.bincount(first, minlength=10).double() / len(first)
    assert len(share) == 10 and (share - 0.1).abs().max() < 0.03


def test_metrics_and_loss_at_the_last_real_step() -> None:
    task = EventsTask(T=6, types=3)
    y = torch.tensor([[1, 5, 0], [1, 3, 1], [0, 2, -1], [1, 5, 0]])
    outputs = torch.zeros(4, 6, 2)
    for row, (_, last, _) in enumerate(y.tolist()):
        outputs[row, last] = torch.tensor([0.0, 2.0]) if row != 1 else torch.tensor([2.0, 0.0])
    found = task.metrics(outputs, y)
    assert found["accuracy"] == 0.5
    assert found["recall"] == pytest.approx(2 / 3)
    assert found["balanced_accuracy"] == pytest.approx(1 / 3)
    each = [math.log(1 + math.exp(-2)), math.log(1 + math.exp(2))]
    assert found["ce"] == pytest.approx((2 * each[0] + 2 * each[1]) / 4, rel=1e-5)
    assert task.loss(outputs, y).item() == pytest.approx(found["ce"])
    absent = task.metrics(outputs[2:3], y[2:3])
    assert absent["recall"] == 1.0 and absent["balanced_accuracy"] == 0.0


def test_found_keys_are_counted_by_where_they_stood() -> None:
    task = EventsTask(T=64)  # the key in the first 16: quarters of 4
    y = torch.tensor([[1, 63, 0], [1, 63, 3], [1, 63, 4], [1, 63, 15], [0, 63, -1], [1, 63, 15]])
    said = torch.tensor([1, 0, 1, 0, 1, 0])
    outputs = torch.zeros(6, 64, 2)
    outputs[torch.arange(6), 63, said] = 1.0
    batches = [task.scored(outputs[part], y[part]) for part in (slice(0, 2), slice(2, 6))]
    found = task.overall(torch.cat(batches))
    assert found == {"recall_p1": 0.5, "recall_p2": 1.0, "recall_p4": 0.0}
    short = EventsTask(T=64, shortest=0.25)  # a log of 16 has its key in the first 4
    assert short.scored(torch.zeros(1, 64, 2), torch.tensor([[1, 15, 3]]))[0, 1] == 0.75


def test_baselines_are_what_constant_answers_reach() -> None:
    task = EventsTask(T=64, rate=0.08)
    _, y = task.batch(4000, generator(1))
    p = task.base_rate()
    outputs = torch.tensor([1 - p, p]).log().expand(4000, 64, 2)
    found, want = task.metrics(outputs, y), task.baselines()
    for name in want:
        assert found[name] == pytest.approx(want[name], abs=0.02), name
    assert EventsTask(T=64, rate=0.0).baselines()["ce"] == 0.0


def test_the_same_generator_gives_the_same_batch() -> None:
    task = EventsTask(T=32, shortest=0.25)
    one, other = (task.batch(5, generator(7)) for _ in range(2))
    assert torch.equal(one.x, other.x) and torch.equal(one.y, other.y)


@pytest.mark.parametrize(
    "settings",
    [{"T": 1}, {"types": 1}, {"rate": 1.5}, {"early": -0.1}, {"shortest": -0.1},
     {"shortest": 1.1}, {"side": "middle"}],
)  # fmt: skip
def test_settings_out_of_range(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=list(settings)[-1]):
        EventsTask(**settings)
    with pytest.raises(ValueError, match="batch_size"):
        EventsTask().batch(0, generator())


@pytest.mark.parametrize("side", ["right", "left"])
def test_the_answer_can_be_read_at_the_rows_end(side: str) -> None:
    log = EventsTask(T=40, shortest=0.25, side=side)
    row = EventsTask(T=40, shortest=0.25, side=side, read_at="row_end")
    (x, y), (same, at_end) = (task.batch(50, generator()) for task in (log, row))
    assert torch.equal(x, same) and torch.equal(y[:, [0, 2]], at_end[:, [0, 2]])
    assert (at_end[:, 1] == 39).all() and (y[:, 1] < 39).any() == (side == "right")
    outputs = torch.randn(50, 40, 2, generator=generator())
    assert torch.equal(row.answers(outputs, at_end), outputs[:, -1])
    with pytest.raises(ValueError, match="read_at='end': must be one of None, 'row_end'"):
        EventsTask(read_at="end")
