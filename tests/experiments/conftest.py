"""Small runs that end in a second or two."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from sab.experiments.config import RunConfig, TrainConfig


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def small() -> Callable[..., RunConfig]:
    """A run of a few updates; keywords change it or its training."""

    def make(**changes: Any) -> RunConfig:
        train: dict[str, Any] = {
            "updates": 24,
            "batch_size": 8,
            "eval_every": 6,
            "eval_batches": 2,
            "test_batches": 2,
            "log_every": 2,
            "checkpoint_every": 4,
            "solved_at": None,
        }
        train.update(changes.pop("train", {}))
        values: dict[str, Any] = {
            "experiment": "e",
            "row": "r",
            "task": "copy",
            "task_config": {"T": 2, "length": 3, "symbols": 3},
            "model": "lstm",
            "model_config": {"hidden_size": 16},
        }
        return RunConfig(**{**values, **changes}, train=TrainConfig(**train))

    return make


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "results", tmp_path / "runs"
