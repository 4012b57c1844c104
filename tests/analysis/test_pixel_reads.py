"""Maps of pixels are means of what the model does, on the pixels; damaged files are said."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from sab.analysis.pixel_reads import (
    last_look,
    pixel_reads,
    read_pixel_reads,
    write_pixel_reads,
)
from sab.cli import main
from sab.experiments.config import RunConfig
from sab.experiments.weights import build_model, save_weights, snapshot_name
from sab.models.lstm import LSTM
from sab.models.sab import SAB
from sab.tasks.images import ImageTask, pixel_order

TASK = ImageTask("digits", "permuted")


def keep(folder: Path, model: str, **config: object) -> RunConfig:
    """Weights of an untrained run under ``runs/``."""
    run = RunConfig(
        "digits", model, "images", model, {"source": "digits", "order": "permuted"},
        {"hidden_size": 8, **config}, profile="cpu",
    )  # fmt: skip
    path = folder / "runs" / "digits" / run.name / snapshot_name(None)
    save_weights(path, run, build_model(run).state_dict())
    return run


def test_reads_and_credit_stand_on_their_pixels(tmp_path: Path) -> None:
    model = build_model(keep(tmp_path, "sab", k_att=8, k_trunc=8, k_top=2, block_offset=1))
    assert isinstance(model, SAB)
    which = torch.arange(6)
    reads, credit = last_look(model, TASK, which)
    x = TASK.take("test", which).x
    recall = model(x, return_recall=True)[2]
    for i, row in enumerate(recall.matrix()[:, -1]):
        for step in row.nonzero()[:, 0].tolist():
            block = pixel_order(64)[step - 7 : step + 1]
            assert torch.allclose(reads[i, block], row[step] / 8)
    assert torch.allclose(reads.sum(1), torch.ones(6))
    assert (credit[:, pixel_order(64)[-8:]] > 0).all()  # its own block


def test_a_truncated_lstm_reaches_its_block_alone(tmp_path: Path) -> None:
    model = build_model(keep(tmp_path, "lstm", k_trunc=8))
    assert isinstance(model, LSTM)
    reads, credit = last_look(model, TASK, torch.arange(3))
    assert not reads.any()
    reached = torch.zeros(64, dtype=torch.bool)
    reached[pixel_order(64)[-8:]] = True
    assert torch.equal(credit > 0, reached.expand(3, 64))


def test_means_by_class_and_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = keep(tmp_path, "sab", k_att=8, k_trunc=8, k_top=2)
    folders = ["--runs", str(tmp_path / "runs"), "--results", str(tmp_path / "results")]
    assert main(["maps", "digits", "--row", "sab", "--sequences", "100", *folders]) == 0
    assert "100 pictures" in capsys.readouterr().out
    kept = read_pixel_reads("digits", "sab", results=tmp_path / "results")
    assert kept is not None
    made = pixel_reads("digits", "sab", pictures=100, runs=tmp_path / "runs")
    for name in ("reads", "credit"):
        top = getattr(made, name).max()
        assert np.allclose(getattr(kept, name), getattr(made, name), atol=1e-4 * top)
    changes = {"reads": made.reads, "credit": made.credit, "pictures": made.pictures}
    assert dataclasses.replace(kept, **changes) == made  # type: ignore[arg-type]
    labels = TASK.pictures.labels["test"][:100]
    assert kept.pictures.tolist() == torch.bincount(labels, minlength=10).tolist()
    threes = (labels == 3).nonzero()[:, 0]
    reads, credit = last_look(build_model(run), TASK, threes)
    assert np.allclose(made.reads[3], reads.mean(0), atol=1e-6)
    assert np.allclose(made.credit[3], credit.mean(0), atol=1e-6)
    assert write_pixel_reads(made, tmp_path / "results").stat().st_size < 60_000


def test_none_and_damaged(tmp_path: Path) -> None:
    assert read_pixel_reads("digits", "sab", results=tmp_path) is None
    path = tmp_path / "maps" / "digits" / "sab-cpu-s0.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"reads": 3}')
    with pytest.raises(ValueError, match="damaged"):
        read_pixel_reads("digits", "sab", results=tmp_path)
