"""Profiles scale an experiment and change nothing else.

``smoke`` takes seconds, ``cpu`` is for two cores, ``paper`` for one GPU. These scale the synthetic
tables; the tables on real data say themselves what each makes of them (`sab.experiments.rows.Row`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

SMOKE_TRAIN = {
    "updates": 30,
    "batch_size": 16,
    "eval_every": 10,
    "eval_batches": 2,
    "test_batches": 2,
    "log_every": 5,
    "checkpoint_every": 15,
}
SMALL = {"smoke": {"train": SMOKE_TRAIN}}  # scales of a row whose model is small enough as it is


@dataclass(frozen=True)
class Profile:
    """How a profile changes the runs of a table.

    Args:
        title: one line for ``sab list``.
        seeds: most seeds of a row; a row may ask for fewer.
        shrink: the task's ``T`` is divided by it.
        train: settings of training that replace the row's.
        model: the same for the model.
        transfer: the same for a test at other lengths.
        budget: the row's updates are multiplied by it.
    """

    title: str
    seeds: int
    shrink: int = 1
    train: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)
    transfer: dict[str, Any] = field(default_factory=dict)
    budget: float = 1.0


PROFILES = {
    "smoke": Profile(
        "seconds a run: T / 10, 16 units, 30 updates; shows that it runs, not what it learns",
        seeds=1,
        shrink=10,
        train=SMOKE_TRAIN,
        model={"hidden_size": 16},
        transfer={
            "lengths": (10, 20, 40),
            "sequences": 32,
            "sequences_beyond": 32,
            "batch_size": 16,
        },
    ),
    "cpu": Profile(
        "the paper's sizes on one thread a run, at most 100 minutes each; real data: smaller",
        seeds=3,
    ),
    "paper": Profile(
        "the paper's sizes, five seeds, twice the updates; one GPU", seeds=5, budget=2.0
    ),
}
