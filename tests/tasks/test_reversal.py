"""Strings written backwards."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

from sab.models.encoder_decoder import Transcriber, TranscriberConfig
from sab.tasks.reversal import ReversalTask


def source(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_a_batch_is_reversed_and_repeats_by_its_generator() -> None:
    task = ReversalTask(length=5, symbols=4)
    x, y = task.batch(300, source())
    assert x.shape == y.shape == (300, task.steps) and x.dtype == torch.int64
    assert x.tolist() == [row[::-1] for row in y.tolist()]
    assert torch.equal(task.batch(300, source()).x, x)
    counts = torch.bincount(x.flatten(), minlength=4)
    assert (counts - 375).abs().max() < 5 * math.sqrt(1500 * 0.25 * 0.75)
    assert torch.equal(task.teacher(y), y)


def test_answers_are_judged_by_symbol_and_as_a_whole() -> None:
    task = ReversalTask(length=2, symbols=3)
    y = torch.tensor([[0, 1], [2, 2]])
    outputs = 20.0 * functional.one_hot(torch.tensor([[0, 1], [2, 0]]), 3)
    assert task.metrics(outputs, y) == {"accuracy": 0.75, "sequence_accuracy": 0.5}
    assert task.loss(outputs, y).item() == pytest.approx(5.0, abs=1e-4)  # one of four costs 20
    assert task.baselines() == {"accuracy": 1 / 3, "sequence_accuracy": 1 / 9}


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "none"])
def test_the_transcriber_is_told_in_training_and_writes_alone_else(positions: str) -> None:
    torch.manual_seed(0)
    sizes = TranscriberConfig(7, 7, width=8, heads=2, hidden=12, positions=positions, longest=6)
    model = Transcriber(sizes)
    x, y = ReversalTask(length=6, symbols=7).batch(4, source())
    told, state = model(x, y)
    assert state is None
    torch.testing.assert_close(told, model.model(x, y))
    alone = model(x)[0]
    assert torch.equal(alone.argmax(2), model.model.greedy(x, 6))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"input_size": 0}, "input_size=0"),
        ({"output_size": 9}, "output_size=9: must equal input_size=10"),
        ({"positions": "waves"}, "positions='waves'"),
        ({"longest": 0}, "longest=0"),
    ],
)
def test_bad_settings_of_the_transcriber(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TranscriberConfig(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "value"), [("length", 0), ("symbols", 1), ("length", 2.5)])
def test_bad_settings_of_the_task(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name}={value}"):
        ReversalTask(**{name: value})  # type: ignore[arg-type]


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="batch_size=0"):
        ReversalTask().batch(0, source())
    with pytest.raises(ValueError, match="source"):
        Transcriber()(torch.full((1, 3), 10))
