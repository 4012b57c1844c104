"""Real data with and without clipping the gradient (paper, section 8.1), in short runs.

In the profile ``cpu`` each takes a few minutes of one thread: 128 units, a part of an epoch, and
the learning rate that Penn Treebank's search found for few units. ``paper`` has the paper's sizes.
"""

from __future__ import annotations

import dataclasses

from sab.experiments.rows import Experiment, Row
from sab.experiments.tables_real import (
    BOOKS,
    MNIST,
    PTB,
    TEXT,
    TEXT8,
    Setting,
    scales,
    unclipped,
)

UNITS = 128
FAST = 1e-2  # learning rate of ``cpu``


def _text(corpus: str, T: int, sequences: int, batch: int, cpu: float, paper: int) -> Setting:
    tiny = {"corpus": "numbers", "T": 40}
    size = scales(sequences, batch, cpu, paper, (UNITS, 1000), tiny, cpu_lr=FAST)
    train = {**TEXT, "lr": 2e-3, "batch_size": batch}
    return Setting({"corpus": corpus, "T": T}, train, size)


def _pixels(cpu: float) -> Setting:
    small = {"source": "digits"}
    size = scales(MNIST, 64, cpu, 100, (UNITS, UNITS), small, patience=10, cpu_lr=5e-3)
    train = {**TEXT, "lr": 1e-3, "batch_size": 64}
    return Setting({"source": "mnist", "order": "pixel"}, train, size)


def _clipping(
    name: str, title: str, here: Setting, numbers: tuple[int, int, int], task: str = "charlm"
) -> Experiment:
    """Two models, each clipped and not: the rows are called ``lstm_clip`` and so on."""
    rows: list[Row] = []
    for short, row in (("lstm", here.lstm()), ("sab", here.sab(*numbers))):
        rows.append(dataclasses.replace(row, name=f"{short}_clip", title=f"{row.title}, clipped"))
        rows.append(dataclasses.replace(unclipped(row), name=f"{short}_noclip"))
    return Experiment(name, f"Section 8.1: {title} with and without clipping", task, tuple(rows))


CLIPPINGS: tuple[Experiment, ...] = (
    _clipping("clipping_ptb", "Penn Treebank", _text("ptb", 100, PTB, 32, 0.5, 100), (20, 10, 20)),
    _clipping("clipping_text8", "text8", _text("text8", 180, TEXT8, 64, 0.05, 30), (10, 10, 10)),
    _clipping(
        "clipping_books", "five books, not text8", _text("books", 180, BOOKS, 64, 0.25, 30),
        (10, 10, 10),
    ),
    _clipping("clipping_mnist", "pixel-by-pixel MNIST", _pixels(0.3), (20, 10, 20), "images"),
)  # fmt: skip
