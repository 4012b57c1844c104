"""Soft and hard attention on the same question."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from sab.models.lookup import LookupConfig, LookupModel, LookupReader, LookupReaderConfig
from sab.ops.attention import attention_weights
from sab.tasks.lookup import Lookups, LookupTask, packed


def source(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_the_task() -> None:
    task = LookupTask(items=5, width=6, noise=0.0)
    keys, values, query, label = task.draw(40, source())
    turn = task.turn()
    torch.testing.assert_close(turn @ turn.T, torch.eye(6), atol=1e-5, rtol=0)
    # the right score matrix finds the item that was asked for
    asked = (keys @ turn.T @ query[:, :, None])[:, :, 0].argmax(1)
    exact = (keys @ turn.T - query[:, None]).norm(dim=2).argmin(1)
    assert (asked == exact).float().mean() > 0.8
    assert torch.equal(values[torch.arange(40), exact].argmax(1), label)
    assert torch.equal(values.sum(1), torch.ones(40, 5))
    assert task.baselines() == {"accuracy": 0.2}


@pytest.mark.parametrize("mode", ["soft", "hard"])
def test_it_learns(mode: str) -> None:
    task = LookupTask()
    torch.manual_seed(0)
    model = LookupModel(LookupConfig(mode=mode))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.05)
    draws = source()
    for _ in range(150):
        optimiser.zero_grad()
        model.loss(*task.draw(64, draws), generator=draws).backward()
        optimiser.step()
    keys, values, query, label = task.draw(500, source(1))
    right = model(keys, values, query).output.argmax(1) == label
    assert right.float().mean() > 0.7


def test_hard_reads_one_item_and_its_scores_get_the_estimate() -> None:
    torch.manual_seed(0)
    model = LookupModel(LookupConfig(mode="hard", baseline=False)).double()
    batch = LookupTask().draw(1, source())
    keys, values, query = (part.double() for part in batch[:3])
    scores = model.scores(keys, query)
    assert torch.equal(model(keys, values, query).output[0], values[0, scores.argmax()])
    # the mean over many draws is the gradient of the expected reward, by enumeration
    reward = values[0, :, batch.label[0]]
    expected = -(attention_weights(scores)[0] * reward).sum()
    exact = torch.autograd.grad(expected, model.w)[0]
    count = 50_000
    parts = (keys, values, query, batch.label)
    many = Lookups(*(part.expand(count, *part.shape[1:]) for part in parts))
    loss = model.loss(*many, generator=source(2))
    found = torch.autograd.grad(loss, model.w)[0]
    assert (found - exact).norm() < 0.1 * exact.norm()


def test_the_baseline_is_a_running_mean() -> None:
    torch.manual_seed(0)
    batch = LookupTask().draw(64, source())
    kept = {}
    for baseline in (True, False):
        torch.manual_seed(0)
        model = LookupModel(LookupConfig(mode="hard", decay=0.5, baseline=baseline))
        first = model.loss(*batch, generator=source(1))
        assert 0 < model.mean_reward < 0.5
        again = model.loss(*batch, generator=source(1))
        kept[baseline] = (first.item(), again.item())
    assert kept[True][0] == kept[False][0] == kept[False][1]
    assert kept[True][1] != kept[True][0]
    torch.manual_seed(0)
    raised = LookupModel(LookupConfig(mode="hard", decay=0.5, offset=10.0))
    raised.loss(*batch, generator=source(1))
    assert 5 < raised.mean_reward < 5.25


@pytest.mark.parametrize("rubbish", [1e3, math.nan])
@pytest.mark.parametrize("mode", ["soft", "hard"])
def test_padding_changes_nothing(mode: str, rubbish: float) -> None:
    keys, values, query, label = LookupTask(items=5).draw(4, source())
    mask = torch.ones(4, 8, dtype=torch.bool)
    mask[:, [1, 4, 7]] = False
    wide_keys, wide_values = torch.full((4, 8, 8), rubbish), torch.full((4, 8, 5), rubbish)
    wide_keys[mask], wide_values[mask] = keys.flatten(0, 1), values.flatten(0, 1)
    wide_keys.requires_grad_()
    torch.manual_seed(0)
    model = LookupModel(LookupConfig(mode=mode))
    alone, read = model(keys, values, query), model(wide_keys, wide_values, query, mask)
    torch.testing.assert_close(read.output, alone.output)
    torch.testing.assert_close(read.weights[mask].view(4, 5), alone.weights)
    assert (read.weights[~mask] == 0).all()
    # A draw depends on the width, so what was drawn is judged and not compared.
    loss = model.loss(wide_keys, wide_values, query, label, source(), mask)
    gradient, to_keys = torch.autograd.grad(loss, (model.w, wide_keys))
    assert gradient.isfinite().all() and (to_keys[~mask] == 0).all()
    if mode == "soft":
        expected = torch.autograd.grad(model.loss(keys, values, query, label), model.w)[0]
        torch.testing.assert_close(gradient, expected)


BATCH = LookupTask(items=3).draw(2, torch.Generator().manual_seed(0))
REAL = torch.ones(2, 3, dtype=torch.bool)


@pytest.mark.parametrize("mode", ["soft", "hard"])
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.loss(*BATCH[:3], torch.tensor([0, 5])), "label: must be between 0 and 2"),
        (lambda m: m.loss(*BATCH[:3], torch.tensor([0.0, 1.0])), "label has dtype torch.float32"),
        (lambda m: m.loss(*BATCH[:3], torch.tensor([0])), "label has shape"),
        (lambda m: m(BATCH.keys[..., :2], *BATCH[1:3]), "keys has shape"),
        (lambda m: m(BATCH.keys, BATCH.values[:, 1:], BATCH.query), "values has shape"),
        (lambda m: m(*BATCH[:3], REAL[:, 1:]), "mask has shape"),
        (lambda m: m(*BATCH[:3], REAL.float()), "mask has dtype torch.float32"),
        (lambda m: m(*BATCH[:3], ~REAL), "mask is all False"),
        (lambda m: m.loss(*BATCH, mask=~REAL), "mask is all False"),
    ],
)
def test_bad_inputs_are_refused(
    mode: str, call: Callable[[LookupModel], object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        call(LookupModel(LookupConfig(mode=mode)))


def test_errors() -> None:
    with pytest.raises(ValueError, match="mode='firm'"):
        LookupConfig(mode="firm")
    with pytest.raises(ValueError, match="decay=2"):
        LookupConfig(decay=2)
    with pytest.raises(ValueError, match="items=1"):
        LookupTask(items=1)
    with pytest.raises(ValueError, match=r"noise=-1"):
        LookupTask(noise=-1)
    with pytest.raises(ValueError, match="batch_size=0"):
        LookupTask().draw(0, source())


def test_one_tensor_holds_the_same() -> None:
    task = LookupTask(items=5, width=6)
    drawn, (x, y) = task.draw(64, source()), task.batch(64, source())
    assert x.shape == (64, task.steps, task.input_size + task.output_size)
    assert torch.equal(x, packed(drawn)) and torch.equal(y, drawn.label)
    assert torch.equal(x[:, 0, :6], drawn.query) and not x[:, 0, 6:].any()
    for mode in ("soft", "hard"):
        torch.manual_seed(0)
        reader = LookupReader(LookupReaderConfig(6, 5, mode, baseline=False))
        expected = reader.lookup(*drawn[:3])
        torch.testing.assert_close(reader(x).output, expected.output)
        torch.testing.assert_close(reader(x).weights, expected.weights)
        torch.manual_seed(1)
        loss = reader.objective(x, y)
        torch.manual_seed(1)
        torch.testing.assert_close(loss, reader.lookup.loss(*drawn))
        (gradient,) = torch.autograd.grad(loss, reader.lookup.w)
        assert gradient.isfinite().all() and gradient.any()


def test_the_task_judges_what_was_read() -> None:
    task = LookupTask(items=3)
    read = torch.tensor([[0.7, 0.2, 0.1], [0.0, 0.0, 1.0]])
    assert task.metrics(read, torch.tensor([0, 1])) == {"accuracy": 0.5}
    found = task.loss(read, torch.tensor([0, 1])).item()
    assert found == pytest.approx(-(math.log(0.7) + math.log(1e-6)) / 2, rel=1e-5)


def test_the_running_mean_is_part_of_the_state() -> None:
    """A run that is taken up again goes on with it."""
    reader = LookupReader(LookupReaderConfig(8, 6, "hard"))
    reader.objective(*LookupTask().batch(16, source()))
    again = LookupReader(LookupReaderConfig(8, 6, "hard"))
    again.load_state_dict(reader.state_dict())
    assert again.lookup.mean_reward == reader.lookup.mean_reward > 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: LookupReaderConfig(0), "input_size=0"),
        (lambda: LookupReaderConfig(output_size=0), "output_size=0"),
        (lambda: LookupReaderConfig(mode="firm"), "mode='firm'"),
        (lambda: LookupReader()(torch.zeros(2, 4, 13)), "x has shape"),
        (lambda: LookupReader().objective(torch.zeros(2, 4, 13), torch.zeros(2)), "x has shape"),
        (lambda: LookupTask().batch(0, source()), "batch_size=0"),
    ],
)
def test_the_reader_refuses(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
