"""A table's rows, and the runs a profile makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sab.experiments.config import RunConfig, TrainConfig, TransferConfig, did_you_mean
from sab.experiments.profiles import PROFILES, Profile

RECIPE: dict[str, Any] = {"lr": 1e-2, "clip": 0.1, "batch_size": 64, "schedule": "step"}


@dataclass(frozen=True)
class Row:
    """One row of a table.

    Args:
        name: file-name part; ``title``: as printed.
        model, model_config, task_config, train: see :class:`RunConfig`; ``train`` holds what
            differs from the recipe.
        seeds: seeds at most, in any profile but ``smoke``; 0: only run when asked for by name.
        transfer: for a test at other lengths.
        released: ``experiment/row`` of the same row with the released program's switches.
        scales: profile → ``"train"``, ``"model"`` and ``"task"`` settings that replace the row's,
            instead of what the profile does to every other row; ``"seeds"``: seeds at most in that
            profile, 0 as above.
    """

    name: str
    title: str
    model: str
    model_config: Mapping[str, Any] = field(default_factory=dict)
    task_config: Mapping[str, Any] = field(default_factory=dict)
    train: Mapping[str, Any] = field(default_factory=dict)
    seeds: int = 99
    transfer: Mapping[str, Any] | None = None
    released: str = ""
    scales: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Experiment:
    """A table: its task and rows. ``aliases`` are other names ``sab`` accepts for it."""

    name: str
    title: str
    task: str
    rows: tuple[Row, ...]
    aliases: tuple[str, ...] = ()

    def row(self, name: str) -> Row:
        """Return the row ``name``.

        Raises:
            ValueError: there is none.
        """
        names = [row.name for row in self.rows]
        if name not in names:
            hint = did_you_mean(name, names) or f"; it has {', '.join(names)}"
            raise ValueError(f"row={name!r}: {self.name} has no such row{hint}")
        return self.rows[names.index(name)]


def profile_named(name: str) -> Profile:
    """Return the profile ``name``.

    Raises:
        ValueError: there is none.
    """
    if name not in PROFILES:
        hint = did_you_mean(name, PROFILES)
        raise ValueError(f"profile={name!r}: must be one of {', '.join(PROFILES)}{hint}")
    return PROFILES[name]


def make_run(experiment: Experiment, row: Row, profile: str, seed: int) -> RunConfig:
    """Return the run of one row and seed, scaled by the profile.

    Raises:
        ValueError: a setting does not fit.
    """
    scale = profile_named(profile)
    settings = {**RECIPE, **row.train}
    task, model = dict(row.task_config), dict(row.model_config)
    if profile in row.scales:
        own = row.scales[profile]
        settings |= own.get("train", {})
        task |= own.get("task", {})
        model |= own.get("model", {})
    else:
        settings["updates"] = round(settings.get("updates", TrainConfig().updates) * scale.budget)
        settings |= scale.train
        model |= scale.model
        if "T" in task:
            task["T"] = max(2, task["T"] // scale.shrink)
    watched = settings.get("snapshots", ())
    settings["snapshots"] = tuple(u for u in watched if u <= settings["updates"])
    transfer = None
    if row.transfer is not None:
        transfer = TransferConfig(**{**row.transfer, **scale.transfer})
    return RunConfig(
        experiment=experiment.name,
        row=row.name,
        task=experiment.task,
        model=row.model,
        task_config=task,
        model_config=model,
        train=TrainConfig(**settings),
        seed=seed,
        profile=profile,
        transfer=transfer,
    )


def seeds_of(row: Row, profile: str) -> int:
    """How many seeds of ``row`` a profile runs."""
    scale = profile_named(profile)
    own = row.scales.get(profile, {}).get("seeds")
    if own is not None:
        return min(int(own), scale.seeds)
    return min(row.seeds, scale.seeds) if profile != "paper" or row.seeds == 0 else scale.seeds


def expand(
    experiment: Experiment,
    profile: str,
    rows: list[str] | None = None,
    seeds: list[int] | None = None,
) -> list[RunConfig]:
    """Return the runs of a table: the first seed of every row, then the second, and so on.

    ``rows`` and ``seeds`` narrow it down; a row asked for by name gets at least one seed.

    Raises:
        ValueError: a name is unknown or a setting does not fit.
    """
    chosen = [experiment.row(name) for name in rows] if rows else list(experiment.rows)
    runs = []
    for row in chosen:
        count = seeds_of(row, profile)
        count = max(count, 1) if rows else count
        wanted = seeds if seeds is not None and (count or rows) else list(range(count))
        runs += [make_run(experiment, row, profile, seed) for seed in wanted]
    return sorted(runs, key=lambda run: run.seed)
