"""Sorting and the convex hull: answers checked against numpy and scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.spatial import ConvexHull

from sab.tasks import Task, build
from sab.tasks.hull import HullTask, area, convex_hull, is_simple
from sab.tasks.sorting import SortingTask

SQUARE = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)]


def source(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def logits(answers: torch.Tensor, classes: int) -> torch.Tensor:
    return 20.0 * torch.nn.functional.one_hot(answers, classes).float()


def test_sorting() -> None:
    task = SortingTask(7)
    x, y = task.batch(50, source())
    np.testing.assert_array_equal(x[:, :, 0].gather(1, y), np.sort(x[:, :, 0].numpy()))
    assert x.shape == (50, 7, 1) and torch.equal(task.teacher(y), y)
    assert task.metrics(logits(y, 7), y) == {"accuracy": 1.0, "sequence_accuracy": 1.0}
    assert task.loss(logits(y, 7), y) < 1e-6
    wrong = y.clone()
    wrong[0, :2] = y[0, :2].flip(0)
    found = task.metrics(logits(wrong, 7), y)
    assert found["accuracy"] == pytest.approx(1 - 2 / 350)
    assert found["sequence_accuracy"] == pytest.approx(49 / 50)
    fixed = task.metrics(logits(torch.arange(7).expand(50, 7), 7), y)
    assert fixed["accuracy"] == pytest.approx(task.baselines()["accuracy"], abs=0.08)


@pytest.mark.parametrize("count", [3, 5, 30])
def test_hull_is_scipy_s(count: int) -> None:
    points = torch.rand(40, count, 2, generator=source(count), dtype=torch.float64).numpy()
    for cloud in points:
        corners = convex_hull(cloud.tolist())
        expected = ConvexHull(cloud)  # counter-clockwise in the plane
        truth = expected.vertices.tolist()
        first = truth.index(min(truth))
        assert corners == truth[first:] + truth[:first]
        polygon = [tuple(cloud[i]) for i in corners]
        assert area(polygon) == pytest.approx(expected.volume) and is_simple(polygon)


def test_crossing_edges_are_seen() -> None:
    assert is_simple(SQUARE) and area(SQUARE) == 1.0
    assert not is_simple([SQUARE[i] for i in (0, 2, 1, 3)])
    # a point on an edge is no corner
    assert convex_hull([*SQUARE, (0.5, 0.0), (0.5, 0.5)]) == [0, 1, 2, 3]


def test_hull_task() -> None:
    task = HullTask(6)
    x, y = task.batch(30, source())
    assert x.shape == y.shape == (30, 7, 3)
    assert (x[:, -1] == torch.tensor([0.0, 0.0, 1.0])).all() and torch.equal(x[..., :2], y[..., 1:])
    answers = task.teacher(y)
    perfect = task.metrics(logits(answers, 7), y)
    assert perfect == {"accuracy": 1.0, "area": pytest.approx(1.0), "invalid": 0.0}
    assert task.loss(logits(answers, 7), y) < 1e-5
    # the end mark comes once, after at least three corners, and only padding after it
    for row in y[:, :, 0].tolist():
        end = row.index(6)
        assert end >= 3 and all(value == -1 for value in row[end + 1 :])


def test_area_and_validity_of_a_wrong_hull() -> None:
    task = HullTask(4)
    y = torch.full((3, 5, 3), -1.0)
    y[:, :, 1:] = torch.tensor([*SQUARE, (0.0, 0.0)])
    y[:, :, 0] = torch.arange(5.0)
    answers = torch.tensor([[0, 1, 2, 4, 3], [0, 2, 1, 3, 4], [0, 1, 4, 2, 3]])
    found = task.metrics(logits(answers, 5), y)
    # half the square; crossing; two corners
    assert found["accuracy"] == 0
    assert found["area"] == pytest.approx(0.5 / 3) and found["invalid"] == pytest.approx(2 / 3)


def test_no_fixed_answer_beats_the_bound() -> None:
    task = HullTask(5)
    assert task.baselines() == {"accuracy": pytest.approx(1 / 20)}
    _, y = task.batch(2000, source(3))
    rows, counts = y[:, :, 0].unique(dim=0, return_counts=True)
    assert len(rows) > 20
    bound = task.baselines()["accuracy"]
    assert counts.max().item() / 2000 < bound + 5 * math.sqrt(bound / 2000)


def test_registered_and_refused() -> None:
    assert all(isinstance(build(name), Task) for name in ("sorting", "hull"))
    with pytest.raises(ValueError, match="length=1"):
        SortingTask(1)
    with pytest.raises(ValueError, match="length=2"):
        HullTask(2)
    with pytest.raises(ValueError, match="batch_size=0"):
        HullTask().batch(0, source())
    with pytest.raises(ValueError, match="batch_size=0"):
        SortingTask().batch(0, source())
    with pytest.raises(ValueError, match="at least 3, got 2"):
        convex_hull(SQUARE[:2])
