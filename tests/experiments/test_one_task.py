"""All systems on one task have one budget."""

from __future__ import annotations

import pytest
import torch

from sab.experiments import tables
from sab.experiments.rows import expand
from sab.experiments.tables_one_task import LEARNING_RATES, SYSTEMS
from sab.experiments.weights import build_model
from sab.models.transformer import count

NAMES = ("one_task_copy", "one_task_recall")


@pytest.mark.parametrize("name", NAMES)
def test_parameters_are_the_lstm_s_within_15_percent(name: str) -> None:
    with torch.device("meta"):
        sizes = {run.row: count(build_model(run)) for run in expand(tables.find(name), "cpu")}
    wanted = sizes["lstm_lr0.01"]
    assert all(abs(size / wanted - 1) < 0.15 for size in sizes.values()), sizes


@pytest.mark.parametrize("name", NAMES)
def test_budget_and_search_are_the_same_for_all(name: str) -> None:
    runs = expand(tables.find(name), "cpu")
    assert {run.row for run in runs} == {
        f"{system}_lr{lr:g}" for system in SYSTEMS for lr in LEARNING_RATES
    }
    for part in ("updates", "batch_size", "clip", "schedule", "lr_factor"):
        assert len({getattr(run.train, part) for run in runs}) == 1, part
    assert len({str(run.task_config) for run in runs}) == 1
    for run in runs:
        assert run.row.endswith(f"_lr{run.train.lr:g}")


def test_both_are_found_by_one_name() -> None:
    assert [item.name for item in tables.find_all("one_task")] == list(NAMES)
