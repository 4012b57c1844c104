"""Settings of a run, as frozen dataclasses that turn into plain JSON and back."""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from sab.checks import finite_float, one_of, positive_int
from sab.models import registry as models
from sab.models.bounded import POLICIES
from sab.models.sab import SABConfig
from sab.ops.sab_scan.dispatch import choose_form
from sab.tasks import registry as tasks

SCHEDULES = ("constant", "step", "cosine", "plateau")
PROFILES = ("smoke", "cpu", "paper")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+=-]*")


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """Return `` (did you mean 'x'?)`` for the closest of ``words``, or an empty string."""
    close = difflib.get_close_matches(word, list(words), 1, 0.5)
    return f" (did you mean {close[0]!r}?)" if close else ""


@dataclass(frozen=True)
class TrainConfig:
    """How a model is trained: Adam, with the gradient's norm clipped.

    Args:
        updates: most parameter updates.
        batch_size: sequences an update.
        lr: Adam's learning rate at the start.
        clip: largest gradient norm; ``None`` leaves it as it is.
        schedule: ``"constant"``; ``"step"``: times ``lr_factor`` at each fraction ``drop_at`` of
            ``updates``; ``"cosine"``: down to lr · lr_factor along half a cosine; ``"plateau"``:
            times ``lr_factor`` after ``plateau`` evaluations without a better one.
        eval_every: updates between evaluations on held-out data.
        eval_batches: held-out batches, drawn once a run and the same at each evaluation.
        test_batches: fresh batches for the final test of the model chosen on held-out data.
        solved_at: value of the task's metric that counts as solved; ``None`` never stops early.
        solved_times: evaluations running that must reach it.
        patience: stop after so many evaluations without a better one; ``None`` never.
        log_every: updates between readings of the training loss.
        checkpoint_every: updates between checkpoints.
        snapshots: updates at which the weights are kept for later analysis (0 = before training).

    Raises:
        ValueError: a setting is out of range.
    """

    updates: int = 5000
    batch_size: int = 64
    lr: float = 3e-3
    clip: float | None = 0.1
    schedule: str = "constant"
    lr_factor: float = 0.1
    drop_at: tuple[float, ...] = (0.8,)
    plateau: int = 4
    eval_every: int = 250
    eval_batches: int = 8
    test_batches: int = 32
    solved_at: float | None = 0.999
    solved_times: int = 3
    patience: int | None = None
    log_every: int = 25
    checkpoint_every: int = 250
    snapshots: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in ("batch_size", "plateau", "eval_every", "eval_batches", "test_batches"):
            positive_int(name, getattr(self, name))
        for name in ("updates", "solved_times", "log_every", "checkpoint_every"):
            positive_int(name, getattr(self, name))
        if finite_float("lr", self.lr) <= 0:
            raise ValueError(f"lr={self.lr!r}: must be above 0")
        if self.clip is not None and finite_float("clip", self.clip) <= 0:
            raise ValueError(f"clip={self.clip!r}: must be above 0, or none")
        one_of("schedule", self.schedule, SCHEDULES)
        finite_float("lr_factor", self.lr_factor, 0.0, 1.0)
        if self.solved_at is not None:
            finite_float("solved_at", self.solved_at)
        if self.patience is not None:
            positive_int("patience", self.patience)
        for name, low, high in (("drop_at", 0, 1), ("snapshots", 0, self.updates)):
            values = getattr(self, name)
            if not isinstance(values, tuple | list) or list(values) != sorted(set(values)):
                raise ValueError(f"{name}={values!r}: must be a list of increasing numbers")
            for value in values:
                finite_float(name, value, low, high)
            object.__setattr__(self, name, tuple(values))

    def lr_at(self, update: int, drops: int = 0) -> float:
        """Learning rate of ``update`` (1-based), after ``drops`` drops on a plateau."""
        if self.schedule == "step":
            drops = sum(update > fraction * self.updates for fraction in self.drop_at)
        if self.schedule == "cosine":
            low = self.lr * self.lr_factor
            turn = math.cos(math.pi * (update - 1) / self.updates)
            return low + (self.lr - low) * (1 + turn) / 2
        return self.lr if self.schedule == "constant" else self.lr * self.lr_factor**drops


@dataclass(frozen=True)
class TransferConfig:
    """A test of saved models at other lengths; nothing is trained.

    Args:
        experiment, row: the runs whose chosen model is tested (same profile and seed).
        lengths: values of the task's ``T``.
        sequences: fresh test sequences up to ``T = 400``.
        sequences_beyond: the same beyond it.
        batch_size: sequences at once; fewer at great lengths.
        chunk: steps a call of the model takes before its state is carried on.
        capacity: memories a SAB may keep (see `sab.models.bounded`); ``None``: all.
        policy: which one it forgets.

    Raises:
        ValueError: a setting is out of range.
    """

    experiment: str
    row: str
    lengths: tuple[int, ...] = (100, 200, 300, 400, 2000, 5000)
    sequences: int = 1024
    sequences_beyond: int = 256
    batch_size: int = 64
    chunk: int = 1000
    capacity: int | None = None
    policy: str = "redundant"

    def __post_init__(self) -> None:
        if self.capacity is not None:
            positive_int("capacity", self.capacity)
        one_of("policy", self.policy, POLICIES)
        for name in ("sequences", "sequences_beyond", "batch_size", "chunk"):
            positive_int(name, getattr(self, name))
        object.__setattr__(self, "lengths", tuple(self.lengths))
        for length in self.lengths:
            positive_int("lengths", length)


@dataclass(frozen=True)
class RunConfig:
    """One run: what is trained on what, how, and from which seed.

    ``task_config`` and ``model_config`` hold only what differs from the defaults; :meth:`resolved`
    fills in the rest.

    Raises:
        ValueError: a name is unknown, or a setting of the task or the model is.
    """

    experiment: str
    row: str
    task: str
    model: str
    task_config: Mapping[str, Any] = field(default_factory=dict)
    model_config: Mapping[str, Any] = field(default_factory=dict)
    train: TrainConfig = field(default_factory=TrainConfig)
    seed: int = 0
    profile: str = "cpu"
    transfer: TransferConfig | None = None

    def __post_init__(self) -> None:
        positive_int("seed", self.seed, 0)
        for name in ("experiment", "row"):
            value = getattr(self, name)
            if not NAME.fullmatch(value):
                raise ValueError(f"{name}={value!r}: letters, digits and _ . + = - only")
        one_of("profile", self.profile, PROFILES)
        task = tasks.build(self.task, self.task_config)
        model_settings(self)
        name, direction = task.goal
        solved, blind = self.train.solved_at, task.baselines()[name]
        if solved is not None and (solved <= blind) == (direction == "max"):
            raise ValueError(
                f"solved_at={solved!r}: a model without memory reaches {name} {blind:.4g}; ask for "
                "better, or none"
            )

    @property
    def name(self) -> str:
        """The record's file name without ``.json``."""
        return f"{self.row}-{self.profile}-s{self.seed}"

    def resolved(self) -> dict[str, Any]:
        """Every setting with its value, ready for JSON: what a record keeps."""
        task: Any = tasks.build(self.task, self.task_config)
        plain = dataclasses.asdict(self)
        plain["task_config"] = dataclasses.asdict(task)
        plain["model_config"] = dataclasses.asdict(model_settings(self))
        return _jsonable(plain)

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> RunConfig:
        """Rebuild a run from :meth:`resolved`.

        Raises:
            ValueError: a field is missing, unknown or out of range.
        """
        values = dict(plain)
        try:
            values["train"] = TrainConfig(**values["train"])
            if values.get("transfer") is not None:
                values["transfer"] = TransferConfig(**values["transfer"])
            return cls(**values)
        except (KeyError, TypeError) as error:
            raise ValueError(f"config does not describe a run: {error}") from None

    def stream(self, name: str) -> int:
        """Seed of a random stream: ``"init"``, ``"train"``, ``"valid"``, ``"test"`` or another.

        Hashed, so that neither neighbouring seeds nor the streams of one seed share numbers.
        """
        digest = hashlib.sha256(f"{name}/{self.seed}".encode()).digest()
        return int.from_bytes(digest[:4], "big")


def _jsonable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _jsonable(item) for key, item in value.items()}
    return [_jsonable(item) for item in value] if isinstance(value, list | tuple) else value


def model_settings(run: RunConfig) -> Any:
    """Return the model's config dataclass with the task's sizes filled in.

    Raises:
        ValueError: the model or one of its settings is unknown, or a setting is out of range.
    """
    if run.model not in models.MODELS:
        known = ", ".join(sorted(models.MODELS))
        hint = did_you_mean(run.model, models.MODELS)
        raise ValueError(f"model={run.model!r}: must be one of {known}{hint}")
    config_class = models.MODELS[run.model][0]
    task = tasks.build(run.task, run.task_config)
    settings = {"input_size": task.input_size, "output_size": task.output_size}
    settings.update(run.model_config)
    allowed = [item.name for item in dataclasses.fields(config_class)]
    for name in settings:
        if name not in allowed:
            hint = did_you_mean(name, allowed)
            raise ValueError(
                f"{name}={settings[name]!r}: model {run.model!r} has no such field{hint}"
            )
    return config_class(**settings)


def scan_form(run: RunConfig, device: torch.device) -> str | None:
    """Which form of the scan computes a SAB model on ``device``; ``None`` for other models."""
    config = model_settings(run)
    if not isinstance(config, SABConfig):
        return None
    return choose_form(config.form, config.options(), device)


def set_field(run: RunConfig, path: str, value: Any) -> RunConfig:
    """Return ``run`` with one field changed; ``path`` is ``field`` or ``train.field``, ``task.…``.

    Raises:
        KeyError: the run has no such field.
        ValueError: the field is ambiguous, or the value is not allowed.
    """
    part, _, name = path.rpartition(".")
    owners = {
        "train": [item.name for item in dataclasses.fields(TrainConfig)],
        "task": [item.name for item in dataclasses.fields(tasks.TASKS[run.task])],
        "model": [item.name for item in dataclasses.fields(models.MODELS[run.model][0])],
    }
    if run.transfer is not None:
        owners = {"transfer": [item.name for item in dataclasses.fields(TransferConfig)]}
    found = [owner for owner, names in owners.items() if name in names and part in ("", owner)]
    if not found:
        raise KeyError(path)
    if len(found) > 1:
        options = " or ".join(f"{owner}.{name}" for owner in found)
        raise ValueError(f"{path}={value!r}: several parts have this field; say {options}")
    if found[0] in ("train", "transfer"):
        try:
            changed: Any = dataclasses.replace(getattr(run, found[0]), **{name: value})
        except TypeError:
            raise ValueError(f"{name}={value!r}: has the wrong type") from None
        return dataclasses.replace(run, **{found[0]: changed})
    if found[0] == "task":
        return dataclasses.replace(run, task_config={**run.task_config, name: value})
    return dataclasses.replace(run, model_config={**run.model_config, name: value})


def field_names(run: RunConfig) -> list[str]:
    """Every field that :func:`set_field` can change, for a hint after a typing error."""
    parts = (TrainConfig, tasks.TASKS[run.task], models.MODELS[run.model][0])
    return [item.name for part in parts for item in dataclasses.fields(part)]
