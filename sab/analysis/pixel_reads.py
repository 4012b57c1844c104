"""Which pixels a trained classifier goes back to before it answers, and which get credit.

Means over test pictures, a class at a time, kept as small maps: a page can show them without the
weights and without the pictures. ``results/maps/<experiment>/<row>-<profile>-s<seed>.json``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sab.analysis import map_files
from sab.analysis.reading import over_blocks
from sab.checks import positive_int
from sab.experiments.weights import load_model
from sab.models.sab import SAB
from sab.tasks import registry as tasks
from sab.tasks.images import ImageTask, on_pixels

BATCH = 64
SCALE = 10_000  # of the largest number of a kind


@dataclass(frozen=True)
class PixelReads:
    """Maps of one run, on the pixels of the picture (row by row).

    Attributes:
        experiment, row, profile, seed, version: which run, by which version of the package.
        pictures: (10,), test pictures of each class.
        reads: (10, steps), mean weight with which the last step reads what was made at each pixel;
            zeros without memory.
        credit: (10, steps), mean length of the gradient of the right answer at each pixel.
    """

    experiment: str
    row: str
    profile: str
    seed: int
    version: str
    pictures: np.ndarray
    reads: np.ndarray
    credit: np.ndarray


def last_look(model: nn.Module, task: ImageTask, which: Tensor) -> tuple[Tensor, Tensor]:
    """What the last step reads, and which pixels receive gradient from the right answer.

    Args:
        model: a classifier of ``task``.
        task: for its test pictures and their order.
        which: (B,) test pictures.

    Returns:
        reads (B, steps), a memory's weight spread over the steps since the one before it; zeros for
        a model without memory; and credit (B, steps), the gradient's length; both on the pixels.
    """
    x, answers = task.take("test", which)
    x.requires_grad_()
    reads = torch.zeros(x.shape[:2])
    if isinstance(model, SAB):
        outputs, _, recall = model(x, return_recall=True)
        written = torch.where(recall.weights[:, -1] > 0, recall.steps[:, -1], 0)
        at = torch.zeros(len(x), x.shape[1] + 1).scatter_add(
            1, written, recall.weights[:, -1].detach()
        )
        reads = over_blocks(at[:, 1:], model.config.k_att)
    else:
        outputs = model(x)[0]
    (gradient,) = torch.autograd.grad(outputs[torch.arange(len(x)), -1, answers].sum(), x)
    return on_pixels(reads, task.order), on_pixels(gradient.norm(dim=2), task.order)


def pixel_reads(
    experiment: str,
    row: str,
    profile: str = "cpu",
    seed: int = 0,
    pictures: int = 512,
    runs: Path | None = None,
    results: Path | None = None,
) -> PixelReads:
    """Look at the first ``pictures`` test pictures of a run.

    Raises:
        FileNotFoundError: the run's weights are not here.
        ValueError, DataError: it is no run on pictures, or these cannot be read.
    """
    import sab

    positive_int("pictures", pictures)
    model, run = load_model(experiment, row, profile, seed, None, runs, results)
    if run.task != "images":
        raise ValueError(f"run {run.name} of {experiment}: must be one on pictures")
    task: Any = tasks.build(run.task, run.task_config)
    count = min(pictures, task.sequences("test"))
    labels = task.pictures.labels["test"][:count]
    kinds = nn.functional.one_hot(labels, task.output_size).float()
    sums = torch.zeros(2, task.output_size, task.steps)
    for first in range(0, count, BATCH):
        which = torch.arange(first, min(first + BATCH, count))
        for total, found in zip(sums, last_look(model, task, which), strict=True):
            total += kinds[which].T @ found
    each = kinds.sum(0)
    reads, credit = (sums / each.clamp_min(1)[:, None]).numpy()
    return PixelReads(
        experiment, row, profile, seed, sab.__version__, each.long().numpy(), reads, credit
    )


def write_pixel_reads(maps: PixelReads, results: Path | None = None) -> Path:
    """Write the maps, whole or not at all, and return their path.

    Raises:
        OSError: the file cannot be written.
    """
    plain = dict(vars(maps))
    plain["pictures"] = maps.pictures.tolist()
    for name in ("reads", "credit"):
        values = getattr(maps, name)
        top = float(values.max()) or 1.0
        plain[name] = {"top": top, "whole": np.rint(SCALE * values / top).astype(int).tolist()}
    run = (maps.experiment, maps.row, maps.profile, maps.seed)
    return map_files.write(map_files.path_of(*run, results), plain)


def _from_plain(plain: dict[str, Any]) -> PixelReads:
    for name in ("reads", "credit"):
        plain[name] = np.array(plain[name]["whole"]) * plain[name]["top"] / SCALE
    return PixelReads(**{**plain, "pictures": np.array(plain["pictures"])})


def read_pixel_reads(
    experiment: str, row: str, profile: str = "cpu", seed: int = 0, results: Path | None = None
) -> PixelReads | None:
    """Read what `write_pixel_reads` wrote; ``None`` where there is none.

    Raises:
        ValueError: the file is damaged.
    """
    path = map_files.path_of(experiment, row, profile, seed, results)
    return map_files.read(path, _from_plain) if path.is_file() else None
