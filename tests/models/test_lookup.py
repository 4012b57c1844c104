"""Soft and hard attention on the same question."""

from __future__ import annotations

import pytest
import torch

from sab.models.lookup import LookupConfig, LookupModel
from sab.ops.attention import attention_weights
from sab.tasks.lookup import Lookups, LookupTask


def source(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_the_task() -> None:
    task = LookupTask(items=5, width=6, noise=0.0)
    keys, values, query, label = task.batch(40, source())
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
        model.loss(*task.batch(64, draws), generator=draws).backward()
        optimiser.step()
    keys, values, query, label = task.batch(500, source(1))
    right = model(keys, values, query).output.argmax(1) == label
    assert right.float().mean() > 0.7


def test_hard_reads_one_item_and_its_scores_get_the_estimate() -> None:
    torch.manual_seed(0)
    model = LookupModel(LookupConfig(mode="hard", baseline=False)).double()
    batch = LookupTask().batch(1, source())
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
    batch = LookupTask().batch(64, source())
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
        LookupTask().batch(0, source())
