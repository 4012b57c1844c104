"""What the answers of the copy task read while a model learns (the map beside the paper's Table 3).

One run's snapshots become a small file of maps, so that a page can step through training without
the weights: ``results/maps/<experiment>/<row>-<profile>-s<seed>.json``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from sab.analysis import map_files
from sab.checks import positive_int
from sab.experiments.config import RunConfig, model_settings
from sab.experiments.weights import find_weights, load_model, read_weights
from sab.models.sab import SAB
from sab.tasks.copy import CopyTask

SCALE = 1000
"""Weights and accuracies are kept as whole thousandths: the error is at most 0.0005."""


@dataclass(frozen=True)
class Frame:
    """One moment of training.

    Attributes:
        update: updates made so far.
        weights: (A, M), the mean weight with which each answer reads each memory.
        positions: (A,), accuracy of each answer, a fraction.
    """

    update: int
    weights: np.ndarray
    positions: np.ndarray

    @property
    def accuracy(self) -> float:
        """Fraction of the symbols that are right."""
        return float(self.positions.mean())

    def mean_step(self, written: np.ndarray, before: int) -> np.ndarray:
        """Mean write step (A,) of what each answer reads of the memories up to ``before``.

        NaN where it reads none of them.
        """
        early = written <= before
        mass = self.weights[:, early].sum(1)
        return np.divide(
            self.weights[:, early] @ written[early], mass,
            out=np.full(len(mass), np.nan), where=mass > 0,
        )  # fmt: skip

    def share(self, written: np.ndarray, first: int, last: int) -> float:
        """Share of all weight that lies on the memories written from ``first`` to ``last``."""
        inside = (written >= first) & (written <= last)
        return float(self.weights[:, inside].sum() / self.weights.sum())


@dataclass(frozen=True)
class AttentionMaps:
    """The maps of one run.

    Attributes:
        experiment, row, profile, seed, version: which run, by which version of the package.
        sequences: fresh sequences that each map is the mean of.
        written: (M,), the 1-based steps at which the memories were written.
        steps: (A,), the 1-based steps of the answers.
        frames: by update, earliest first.
    """

    experiment: str
    row: str
    profile: str
    seed: int
    version: str
    sequences: int
    written: np.ndarray
    steps: np.ndarray
    frames: tuple[Frame, ...]

    def frame(self, update: int) -> Frame:
        """The frame after ``update`` updates.

        Raises:
            ValueError: there is none.
        """
        updates = [frame.update for frame in self.frames]
        if update not in updates:
            raise ValueError(f"update={update!r}: must be one of {', '.join(map(str, updates))}")
        return self.frames[updates.index(update)]


def task_of(run: RunConfig) -> CopyTask:
    """The run's copy task.

    Raises:
        ValueError: it has another task or another model than SAB.
    """
    if run.task != "copy" or run.model != "sab":
        raise ValueError(f"run {run.name} is {run.model} on {run.task}: must be sab on copy")
    return CopyTask(**run.task_config)


@torch.no_grad()
def frame_of(model: nn.Module, run: RunConfig, update: int, sequences: int = 512) -> Frame:
    """Run ``model`` over fresh sequences of the run's task; the same ones whatever the moment.

    Raises:
        ValueError: the run is not SAB on copy, or ``sequences`` is not a positive integer.
    """
    task = task_of(run)
    assert isinstance(model, SAB)
    generator = torch.Generator().manual_seed(run.stream("attention"))
    x, y = task.batch(positive_int("sequences", sequences), generator)
    logits, _, recall = model(x, return_recall=True)
    every = model.config.k_att
    weights = recall.matrix()[:, -task.length :, every - 1 :: every].mean(0)
    return Frame(update, weights.numpy(), np.array(task.positions(logits, y)))


def attention_maps(
    experiment: str,
    row: str,
    profile: str = "cpu",
    seed: int = 0,
    sequences: int = 512,
    runs: Path | None = None,
    results: Path | None = None,
) -> AttentionMaps:
    """Make the maps of every snapshot that a run has kept, the untrained model's first.

    Raises:
        FileNotFoundError: the run's weights are not here.
        ValueError: the run is not SAB on copy.
    """
    import sab

    first = find_weights(experiment, row, profile, seed, 0, runs, results)
    run, _ = read_weights(first)
    task = task_of(run)
    frames = []
    for path in sorted(first.parent.glob("u*.npz")):
        update = int(path.stem[1:])
        model, _ = load_model(experiment, row, profile, seed, update, runs, results)
        frames.append(frame_of(model, run, update, sequences))
    every = model_settings(run).k_att
    return AttentionMaps(
        experiment=experiment,
        row=row,
        profile=profile,
        seed=seed,
        version=sab.__version__,
        sequences=sequences,
        written=np.arange(every, task.steps + 1, every),
        steps=np.arange(task.steps - task.length + 1, task.steps + 1),
        frames=tuple(frames),
    )


def _whole(values: np.ndarray) -> list[int]:
    return [round(SCALE * float(value)) for value in values.ravel()]


def as_plain(maps: AttentionMaps) -> dict[str, Any]:
    """Return the maps as plain numbers, ready for JSON: whole thousandths, a flat list a frame."""
    return {
        "experiment": maps.experiment,
        "row": maps.row,
        "profile": maps.profile,
        "seed": maps.seed,
        "version": maps.version,
        "sequences": maps.sequences,
        "scale": SCALE,
        "written": maps.written.tolist(),
        "steps": maps.steps.tolist(),
        "frames": [
            {
                "update": frame.update,
                "positions": _whole(frame.positions),
                "weights": _whole(frame.weights),
            }
            for frame in maps.frames
        ],
    }


def from_plain(plain: Mapping[str, Any]) -> AttentionMaps:
    """Rebuild the maps from :func:`as_plain`.

    Raises:
        ValueError: something is missing or has the wrong size.
    """
    values = dict(plain)
    try:
        scale = values.pop("scale")
        written, steps = np.array(values.pop("written")), np.array(values.pop("steps"))
        frames = tuple(
            Frame(
                entry["update"],
                np.array(entry["weights"]).reshape(len(steps), len(written)) / scale,
                np.array(entry["positions"]).reshape(len(steps)) / scale,
            )
            for entry in values.pop("frames")
        )
        return AttentionMaps(**values, written=written, steps=steps, frames=frames)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"these are not attention maps: {error}") from None


def write_maps(maps: AttentionMaps, results: Path | None = None) -> Path:
    """Write the maps, whole or not at all, and return their path.

    Raises:
        OSError: the file cannot be written.
    """
    run = (maps.experiment, maps.row, maps.profile, maps.seed)
    return map_files.write(map_files.path_of(*run, results), as_plain(maps))


def read_maps(
    experiment: str, row: str, profile: str = "cpu", seed: int = 0, results: Path | None = None
) -> AttentionMaps:
    """Read a run's maps.

    Raises:
        FileNotFoundError: there are none; the message says how to make them.
        ValueError: the file is damaged.
    """
    path = map_files.path_of(experiment, row, profile, seed, results)
    if not path.is_file():
        again = f"sab run {experiment} --row {row} --seed {seed} --profile {profile} --force"
        raise FileNotFoundError(
            f"{path}: no such maps; make them with: {again}, "
            f"then: sab maps {experiment} --row {row} --seed {seed} --profile {profile}"
        )
    return map_files.read(path, from_plain)


def first_above(maps: AttentionMaps, accuracy: float) -> Frame:
    """The earliest frame with at least ``accuracy`` of the symbols right; else the last."""
    good: Iterable[Frame] = (frame for frame in maps.frames if frame.accuracy >= accuracy)
    return next(iter(good), maps.frames[-1])
