import pytest
import torch

from sab.tasks import AddingTask


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("T", [2, 3, 7, 200])
def test_one_mark_in_each_half(T: int) -> None:
    x, y = AddingTask(T).batch(50, generator())
    value, mark = x[:, :, 0], x[:, :, 1]
    assert x.shape == (50, T, 2) and y.shape == (50,)
    assert set(mark.unique().tolist()) <= {0.0, 1.0}
    assert (mark[:, : T // 2].sum(1) == 1).all()
    assert (mark[:, T // 2 :].sum(1) == 1).all()
    assert value.min() >= 0 and value.max() <= 1
    assert torch.allclose((value * mark).sum(1), y, atol=1e-6)


def test_every_place_can_be_marked() -> None:
    mark = AddingTask(9).batch(2000, generator()).x[:, :, 1]
    assert (mark.sum(0) > 0).all()


def test_loss_and_metrics_read_the_last_step() -> None:
    task = AddingTask(5)
    _, y = task.batch(3, generator())
    outputs = torch.full((3, 5, 1), 99.0)
    outputs[:, -1, 0] = y + torch.tensor([0.0, 0.03, -0.3])
    want = (0.03**2 + 0.3**2) / 3
    assert task.loss(outputs, y).item() == pytest.approx(want, rel=1e-4)
    metrics = task.metrics(outputs, y)
    assert metrics["mse"] == pytest.approx(want, rel=1e-4)
    assert metrics["within_004"] == pytest.approx(2 / 3)


def test_baseline_is_the_best_constant() -> None:
    task = AddingTask(10)
    _, y = task.batch(200_000, generator())
    closed = task.baselines()
    assert closed["mse"] == pytest.approx(1 / 6)
    at_mean = task.metrics(torch.ones(200_000, 10, 1), y)
    assert at_mean["mse"] == pytest.approx(closed["mse"], rel=0.02)
    assert at_mean["within_004"] == pytest.approx(closed["within_004"], rel=0.05)
    for constant in (0.9, 1.1):
        other = task.metrics(torch.full((200_000, 10, 1), constant), y)
        assert other["mse"] > at_mean["mse"]


def test_bad_length() -> None:
    with pytest.raises(ValueError, match="T=1"):
        AddingTask(1)
