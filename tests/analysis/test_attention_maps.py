"""Attention maps from snapshots: what the model reads, the same on disk."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from sab.analysis import attention, map_files
from sab.analysis.attention import AttentionMaps, Frame, attention_maps, first_above, frame_of
from sab.cli import main
from sab.experiments.config import RunConfig, TrainConfig
from sab.experiments.train import train
from sab.experiments.weights import build_model, load_model
from sab.models.sab import SAB
from sab.tasks.copy import CopyTask

TRAIN = TrainConfig(
    updates=4, batch_size=4, eval_every=4, eval_batches=1, test_batches=1, solved_at=None,
    snapshots=(0, 2, 4),
)  # fmt: skip
MODEL = {"hidden_size": 8, "k_att": 3}
RUN = RunConfig("watch", "sab_5_5_T100", "copy", "sab", {"T": 6, "length": 4}, MODEL, TRAIN)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    train(RUN, folder / "watch" / RUN.name, device="cpu", progress="none")
    return folder


def made(runs: Path) -> AttentionMaps:
    return attention_maps("watch", RUN.row, sequences=32, runs=runs, results=runs)


def test_maps_are_what_the_snapshots_read(runs: Path) -> None:
    maps = made(runs)
    assert [frame.update for frame in maps.frames] == [0, 2, 4]
    assert maps.written.tolist() == [3, 6, 9, 12] and maps.steps.tolist() == [11, 12, 13, 14]
    task = CopyTask(T=6, length=4)
    x, y = task.batch(32, torch.Generator().manual_seed(RUN.stream("attention")))
    for frame in maps.frames:
        model, _ = load_model("watch", RUN.row, update=frame.update, runs=runs, results=runs)
        assert isinstance(model, SAB)
        with torch.no_grad():
            logits, _, recall = model(x, return_recall=True)
        dense = recall.matrix()[:, 10:].mean(0).numpy()
        np.testing.assert_allclose(frame.weights, dense[:, [2, 5, 8, 11]], atol=1e-6)
        np.testing.assert_allclose(frame.weights.sum(1), 1, atol=1e-5)
        assert frame.accuracy == pytest.approx(task.metrics(logits, y)["accuracy"], abs=1e-5)
    assert (maps.frames[0].weights != maps.frames[-1].weights).any()
    np.testing.assert_array_equal(
        maps.frames[0].weights, frame_of(build_model(RUN), RUN, 0, 32).weights
    )


def test_on_disk_they_are_true_to_half_a_thousandth(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    maps = made(runs)
    where = ["--runs", str(runs), "--results", str(tmp_path), "--sequences", "32"]
    assert main(["maps", "watch", "--row", RUN.row, *where]) == 0
    assert "3 moments" in capsys.readouterr().out
    again = attention.read_maps("watch", RUN.row, results=tmp_path)
    assert (again.sequences, again.seed, again.version) == (32, 0, maps.version)
    for ours, theirs in zip(maps.frames, again.frames, strict=True):
        np.testing.assert_allclose(theirs.weights, ours.weights, atol=0.00051)
        np.testing.assert_allclose(theirs.positions, ours.positions, atol=0.00051)
    assert attention.as_plain(again) == attention.as_plain(maps)


def test_reading_says_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"sab run watch.*sab maps watch"):
        attention.read_maps("watch", "r", results=tmp_path)
    path = map_files.path_of("watch", "r", "cpu", 0, tmp_path)
    path.parent.mkdir(parents=True)
    for text in ("{", "[]", '{"scale": 1000, "written": [2], "steps": [3], "frames": [{}]}'):
        path.write_text(text)
        with pytest.raises(ValueError, match=r"r-cpu-s0\.json: .*restore it from git"):
            attention.read_maps("watch", "r", results=tmp_path)


def test_measures_of_a_frame() -> None:
    written = np.array([2, 4, 6])
    frame = Frame(5, np.array([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]), np.array([1.0, 0.5]))
    assert frame.accuracy == 0.75
    assert frame.mean_step(written, 6).tolist() == [3.0, 6.0]
    early = frame.mean_step(written, 4)
    assert early[0] == 3.0 and np.isnan(early[1])
    assert frame.share(written, 4, 6) == 0.75
    maps = AttentionMaps("e", "r", "cpu", 0, "0", 1, written, np.array([7, 8]), (frame,))
    assert first_above(maps, 0.7) is frame and first_above(maps, 0.9) is frame
    assert maps.frame(5) is frame
    with pytest.raises(ValueError, match="must be one of 5"):
        maps.frame(6)


def test_only_sab_on_copy() -> None:
    lstm = replace(RUN, model="lstm", model_config={"hidden_size": 8})
    with pytest.raises(ValueError, match="must be sab on copy"):
        frame_of(build_model(lstm), lstm, 0, 4)
