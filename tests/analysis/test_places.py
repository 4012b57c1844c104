"""What a language model loses at each place, and what it reads there."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from sab.analysis.places import ARRAYS, find_places, read_places, write_places
from sab.analysis.reading import character_bits
from sab.experiments.config import RunConfig
from sab.experiments.weights import build_model
from sab.tasks import build

Keep = Callable[..., RunConfig]


def test_they_are_means_of_what_the_model_does(keep: Keep, tmp_path: Path) -> None:
    run = keep("sab", k_att=4, k_trunc=4, k_top=2)
    found = find_places("text", "sab", sequences=3, runs=tmp_path / "runs")
    task, model = build("charlm", run.task_config), build_model(run)
    batch = task.take("test", torch.arange(3))  # type: ignore[attr-defined]
    with torch.no_grad():
        outputs, _, recall = model(batch.x, return_recall=True)
        h, s, *_ = model.layer(batch.x)  # type: ignore[operator]
    bits = character_bits(outputs, batch.y)
    assert found.sequences == 3
    assert np.allclose(found.bits, bits.nanmean(0), atol=1e-6)
    assert np.allclose(found.state, (h - s).norm(dim=2).mean(0), atol=1e-6)
    assert np.allclose(found.read, s.norm(dim=2).mean(0), atol=1e-6)
    for alike, vectors in ((found.state_alike, h - s), (found.read_alike, s)):
        mean, length = vectors.mean(0).norm(dim=1), vectors.norm(dim=2).mean(0)
        assert np.allclose(alike, torch.where(length > 0, mean / length, 0.0), atol=1e-6)
    assert found.weights.shape == (20, 5)
    assert np.allclose(found.weights, recall.matrix().mean(0)[:, 3::4], atol=1e-6)
    # Before the first memory nothing is read; from then on the weights sum to one.
    assert (found.weights[:4] == 0).all() and np.allclose(found.weights[4:].sum(1), 1, atol=1e-6)


def test_a_model_without_memory(keep: Keep, tmp_path: Path) -> None:
    keep("lstm")
    found = find_places("text", "lstm", sequences=2, runs=tmp_path / "runs")
    assert (found.read == 0).all() and (found.state > 0).all() and found.weights.shape == (20, 0)


def test_what_is_kept_comes_back(keep: Keep, tmp_path: Path) -> None:
    keep("sab", k_att=4, k_trunc=4, k_top=2)
    made = find_places("text", "sab", sequences=2, runs=tmp_path / "runs")
    assert read_places("text", "sab", results=tmp_path / "results") is None
    path = write_places(made, tmp_path / "results")
    kept = read_places("text", "sab", results=tmp_path / "results")
    assert kept is not None
    for name in ARRAYS:
        assert np.allclose(getattr(kept, name), getattr(made, name), atol=1e-4)
    same = {name: getattr(made, name) for name in ARRAYS}
    assert dataclasses.replace(kept, **same) == made
    plain = json.loads(path.read_bytes())
    for damage in ({"bits": plain["bits"][1:]}, {"sequence": 1}):
        path.write_text(json.dumps({**plain, **damage}))
        with pytest.raises(ValueError, match=r"sab-cpu-s0\.json: damaged"):
            read_places("text", "sab", results=tmp_path / "results")


def test_what_is_refused(keep: Keep, tmp_path: Path) -> None:
    keep("lstm", "copy")
    with pytest.raises(ValueError, match="must be a language model"):
        find_places("text", "lstm", runs=tmp_path / "runs")
    with pytest.raises(ValueError, match="sequences=0"):
        find_places("text", "lstm", sequences=0, runs=tmp_path / "runs")
