"""What a trained language model makes of one line, kept small.

A page can then show it without the weights (megabytes) and without the text that the model was
trained on (which may not be passed on): the line is ours, and what follows is the model's own.
``results/maps/<experiment>/<row>-<profile>-s<seed>.json``, as the maps of the copy task.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sab.analysis import map_files
from sab.analysis.reading import character_bits, lines_batch, write_on
from sab.checks import positive_int
from sab.experiments.weights import load_model
from sab.models.sab import SAB
from sab.tasks import registry as tasks

SCALE = 1000  # weights are kept as whole thousandths
LINES = {
    "ptb": "mr._harkness_said_the_bank_will_cut_its_rate_but_mr._harkness_added_it_may_raise_it\n",
    "text8": "old harkness said that the tide would turn at noon but harkness was wrong about it ",
    "colours": "violet, says bob, so it is violet.\n",
    "numbers": "seventy two, again seventy two.\n",
}
LINES["books"] = LINES["text8"]


@dataclass(frozen=True)
class Excerpt:
    """What one model makes of a line.

    Attributes:
        experiment, row, profile, seed, version: which run, by which version of the package.
        text: the line (N characters), read from a fresh start.
        bits: (N,), what each character cost.
        k_att: steps from one write to the next; 0 for a model without memory.
        reads: (N, N), row t the weights with which the step that says character t reads what was
            written at step s + 1; zeros without memory.
        written: what the model wrote by itself from a fresh start.
    """

    experiment: str
    row: str
    profile: str
    seed: int
    version: str
    text: str
    bits: np.ndarray
    k_att: int
    reads: np.ndarray
    written: str


@torch.no_grad()
def make_excerpt(
    experiment: str,
    row: str,
    profile: str = "cpu",
    seed: int = 0,
    count: int = 300,
    runs: Path | None = None,
    results: Path | None = None,
) -> Excerpt:
    """Read this module's line of the run's corpus and draw ``count`` characters.

    Raises:
        FileNotFoundError: the run's weights are not here.
        ValueError, DataError: it is no language model of a known corpus, or its text (needed for
            the alphabet) cannot be read.
    """
    import sab

    positive_int("count", count)
    model, run = load_model(experiment, row, profile, seed, None, runs, results)
    corpus = run.task_config.get("corpus", "ptb")
    if run.task != "charlm" or corpus not in LINES:
        raise ValueError(f"run {run.name} of {experiment}: must read one of {', '.join(LINES)}")
    task: Any = tasks.build(run.task, run.task_config)
    text = LINES[corpus]
    batch = lines_batch(task, [text])
    reads, k_att = torch.zeros(len(text), len(text)), 0
    if isinstance(model, SAB):
        outputs, _, recall = model(batch.x, return_recall=True)
        reads, k_att = recall.matrix()[0], model.config.k_att
    else:
        outputs = model(batch.x)[0]
    source = torch.Generator().manual_seed(run.stream("excerpt"))
    return Excerpt(
        experiment=experiment,
        row=row,
        profile=profile,
        seed=seed,
        version=sab.__version__,
        text=text,
        bits=character_bits(outputs, batch.y)[0].numpy(),
        k_att=k_att,
        reads=reads.numpy(),
        written=write_on(model, task, "", count, source),
    )


def write_excerpt(excerpt: Excerpt, results: Path | None = None) -> Path:
    """Write it, whole or not at all, and return its path.

    Raises:
        OSError: the file cannot be written.
    """
    plain = dict(vars(excerpt))
    plain["bits"] = [round(float(value), 3) for value in excerpt.bits]
    plain["reads"] = [
        [int(t), int(s), round(SCALE * float(excerpt.reads[t, s]))]
        for t, s in zip(*excerpt.reads.nonzero(), strict=True)
    ]
    run = (excerpt.experiment, excerpt.row, excerpt.profile, excerpt.seed)
    return map_files.write(map_files.path_of(*run, results), plain)


def _from_plain(plain: dict[str, Any]) -> Excerpt:
    reads = np.zeros((len(plain["text"]),) * 2)
    for t, s, weight in plain["reads"]:
        reads[t, s] = weight / SCALE
    return Excerpt(**{**plain, "bits": np.array(plain["bits"]), "reads": reads})


def read_excerpt(
    experiment: str, row: str, profile: str = "cpu", seed: int = 0, results: Path | None = None
) -> Excerpt | None:
    """Read what `write_excerpt` wrote; ``None`` where there is none.

    Raises:
        ValueError: the file is damaged.
    """
    path = map_files.path_of(experiment, row, profile, seed, results)
    return map_files.read(path, _from_plain) if path.is_file() else None
