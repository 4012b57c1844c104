"""Untrained runs whose weights lie where an analysis looks for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sab.experiments.config import RunConfig
from sab.experiments.weights import build_model, save_weights, snapshot_name


@pytest.fixture
def keep(tmp_path: Path) -> Callable[..., RunConfig]:
    """Weights of an untrained run under ``runs/``."""

    def make(model: str, task: str = "charlm", **config: object) -> RunConfig:
        settings = {"corpus": "colours", "T": 20} if task == "charlm" else {"T": 5}
        run = RunConfig(
            "text", model, task, model, settings, {"hidden_size": 8, **config}, profile="cpu"
        )
        path = tmp_path / "runs" / "text" / run.name / snapshot_name(None)
        save_weights(path, run, build_model(run).state_dict())
        return run

    return make
