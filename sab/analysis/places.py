"""What a language model loses at each place of a sequence, and what it reads there.

A mean over all characters hides that a model with a memory starts every sequence without one.
``results/places/<experiment>/<row>-<profile>-s<seed>.json``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sab.analysis import map_files
from sab.analysis.reading import character_bits
from sab.checks import positive_int
from sab.experiments.weights import load_model
from sab.models.lstm import LSTM
from sab.models.sab import SAB
from sab.tasks import registry as tasks

BATCH = 64
FOLDER = "places"
ARRAYS = ("bits", "state", "read", "state_alike", "read_alike", "weights")


@dataclass(frozen=True)
class Places:
    """Means over test sequences, each from a fresh start, by place t = 0 … T − 1.

    Attributes:
        experiment, row, profile, seed, version: which run, by which version of the package.
        sequences: how many.
        bits: (T,), what the character there costs; NaN where none is to be said.
        state: (T,), length of the state before anything recalled is added; zeros where the model is
            neither SAB nor `sab.models.lstm.LSTM`.
        read: (T,), length of what is recalled; zeros without memory.
        state_alike, read_alike: (T,), length of the mean vector over the mean length: 1 where it is
            the same in every sequence, near 0 where it says which one; 0 where there is none.
        weights: (T, M), read weight of each memory, the one written first on the left.
    """

    experiment: str
    row: str
    profile: str
    seed: int
    version: str
    sequences: int
    bits: np.ndarray
    state: np.ndarray
    read: np.ndarray
    state_alike: np.ndarray
    read_alike: np.ndarray
    weights: np.ndarray


@torch.no_grad()
def find_places(
    experiment: str,
    row: str,
    profile: str = "cpu",
    seed: int = 0,
    sequences: int = 512,
    runs: Path | None = None,
    results: Path | None = None,
) -> Places:
    """Run the first ``sequences`` test sequences of a run's corpus.

    Raises:
        FileNotFoundError: the run's weights are not here.
        ValueError, DataError: it is no language model, or its text cannot be read.
    """
    import sab

    positive_int("sequences", sequences)
    model, run = load_model(experiment, row, profile, seed, None, runs, results)
    if run.task != "charlm":
        raise ValueError(f"run {run.name} of {experiment}: must be a language model")
    task: Any = tasks.build(run.task, run.task_config)
    count = min(sequences, task.sequences("test"))
    found: dict[str, list[torch.Tensor]] = {"bits": [], "state": [], "read": [], "weights": []}
    sums: dict[str, Any] = {"state": 0.0, "read": 0.0}
    for first in range(0, count, BATCH):
        batch = task.take("test", torch.arange(first, min(first + BATCH, count)))
        if isinstance(model, SAB):
            h, s, _, recall = model.layer(batch.x, return_recall=True)
            outputs = model.v1(h) + model.v2(s)
            written = recall.matrix()[:, :, model.config.k_att - 1 :: model.config.k_att]
        else:
            outputs = model(batch.x)[0]
            nothing = torch.zeros(*batch.y.shape, 1)
            h, s = (model.hidden(batch.x)[0] if isinstance(model, LSTM) else nothing), nothing
            written = torch.zeros(*batch.y.shape, 0)
        found["bits"].append(character_bits(outputs, batch.y))
        found["state"].append((h - s).norm(dim=2))
        found["read"].append(s.norm(dim=2))
        sums = {"state": sums["state"] + (h - s).sum(0), "read": sums["read"] + s.sum(0)}
        found["weights"].append(written)
    means = {name: torch.cat(parts).double().nanmean(0).numpy() for name, parts in found.items()}
    for name, total in sums.items():
        length = means[name]
        mean = (total / count).norm(dim=1).double().numpy()
        means[f"{name}_alike"] = np.divide(mean, length, out=np.zeros_like(mean), where=length > 0)
    return Places(experiment, row, profile, seed, sab.__version__, count, **means)


def write_places(places: Places, results: Path | None = None) -> Path:
    """Write them, whole or not at all, and return their path.

    Raises:
        OSError: the file cannot be written.
    """
    run = (places.experiment, places.row, places.profile, places.seed)
    plain = dict(vars(places))
    for name in ARRAYS:
        plain[name] = np.round(getattr(places, name), 4).tolist()
    return map_files.write(map_files.path_of(*run, results, FOLDER), plain)


def _from_plain(plain: dict[str, Any]) -> Places:
    arrays = {name: np.array(plain[name]) for name in ARRAYS}
    if len({len(values) for values in arrays.values()}) != 1:
        raise ValueError(f"{', '.join(ARRAYS)} differ in length")
    return Places(**{**plain, **arrays})


def read_places(
    experiment: str, row: str, profile: str = "cpu", seed: int = 0, results: Path | None = None
) -> Places | None:
    """Read what `write_places` wrote; ``None`` where there is none.

    Raises:
        ValueError: the file is damaged.
    """
    path = map_files.path_of(experiment, row, profile, seed, results, FOLDER)
    return map_files.read(path, _from_plain) if path.is_file() else None
