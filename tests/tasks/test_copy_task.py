import math

import pytest
import torch

from sab.tasks import CopyTask


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("T", [1, 2, 20, 300])
def test_layout(T: int) -> None:
    x, y = CopyTask(T=T).batch(7, generator())
    tokens = x.argmax(2)
    assert x.shape == (7, T + 20, 10) and y.shape == (7, T + 20)
    assert x.dtype == torch.float32 and y.dtype == torch.int64
    assert torch.equal(x.sum(2), torch.ones(7, T + 20))
    string = tokens[:, :10]
    assert string.min() >= 1 and string.max() <= 8
    assert (tokens[:, 10 : T + 9] == 0).all()
    assert (tokens[:, T + 9] == 9).all()
    assert (tokens[:, T + 10 :] == 0).all()
    assert (y[:, :-10] == 0).all()
    assert torch.equal(y[:, -10:], string)


def test_every_symbol_is_as_likely() -> None:
    _, y = CopyTask(T=1).batch(8000, generator())
    shares = torch.bincount(y[:, -10:].flatten(), minlength=10) / 80000
    # five standard errors of a share of 1/8 among 80,000
    assert (shares[1:9] - 0.125).abs().max() < 5 * math.sqrt(0.125 * 0.875 / 80000)
    assert shares[0] == shares[9] == 0


def test_scalar_is_the_digit() -> None:
    onehot, y = CopyTask(T=5).batch(4, generator(3))
    scalar, same = CopyTask(T=5, encoding="scalar").batch(4, generator(3))
    assert scalar.shape == (4, 25, 1)
    assert torch.equal(scalar[:, :, 0], onehot.argmax(2).float())
    assert torch.equal(y, same)


def test_generator_decides() -> None:
    task = CopyTask(T=5)
    same = [task.batch(4, generator(1)).y, task.batch(4, generator(1)).y]
    assert torch.equal(*same)
    assert not torch.equal(same[0], task.batch(4, generator(2)).y)


def test_metrics_of_a_known_answer() -> None:
    task = CopyTask(T=3)
    _, y = task.batch(2, generator())
    logits = torch.full((2, 23, 10), -50.0).scatter(2, y.unsqueeze(2), 50.0)
    assert task.metrics(logits, y) == {"accuracy": 1, "string_accuracy": 1, "ce10": 0, "ce": 0}
    wrong = y[1, -1] % 8 + 1
    logits[1, -1] = -50.0
    logits[1, -1, wrong] = 50.0
    metrics = task.metrics(logits, y)
    assert metrics["accuracy"] == pytest.approx(19 / 20)
    assert metrics["string_accuracy"] == 0.5
    assert metrics["ce10"] == pytest.approx(100 / 20)
    assert metrics["ce"] == pytest.approx(100 / 46)
    assert task.positions(logits, y) == [1.0] * 9 + [0.5]


def test_baseline_is_what_a_blind_model_gets() -> None:
    task = CopyTask(T=20)
    _, y = task.batch(4000, generator())
    blind = torch.full((40, 10), -1e9)
    blind[:30, 0] = 0.0
    blind[30:, 1:9] = 0.0
    metrics = task.metrics(blind.expand(4000, 40, 10), y)
    closed = task.baselines()
    assert closed["ce10"] == pytest.approx(math.log(8))
    assert closed["ce"] == pytest.approx(10 * math.log(8) / 40)
    assert metrics["ce10"] == pytest.approx(closed["ce10"], rel=1e-5)
    assert metrics["ce"] == pytest.approx(closed["ce"], rel=1e-5)
    assert metrics["accuracy"] == pytest.approx(0.125, abs=0.01)


@pytest.mark.parametrize(
    "setting", [{"T": 0}, {"T": 2.5}, {"symbols": 1}, {"length": 0}, {"encoding": "binary"}]
)
def test_bad_settings_are_named(setting: dict) -> None:
    with pytest.raises(ValueError, match=next(iter(setting))):
        CopyTask(**setting)


def test_bad_batch_size() -> None:
    with pytest.raises(ValueError, match="batch_size=0"):
        CopyTask().batch(0, generator())
