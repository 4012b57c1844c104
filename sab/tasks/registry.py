"""Tasks by name; ``register`` adds a reader's own."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from typing import Any

from sab.tasks.adding import AddingTask
from sab.tasks.babi import BabiTask
from sab.tasks.base import Task
from sab.tasks.bits import CopyBitsTask, RecallBitsTask, SortBitsTask
from sab.tasks.calls import CallsTask
from sab.tasks.charlm import CharLMTask
from sab.tasks.copy import CopyTask
from sab.tasks.dates import DatesTask
from sab.tasks.events import EventsTask
from sab.tasks.hull import HullTask
from sab.tasks.images import ImageTask
from sab.tasks.logs import LogsTask, NextEventTask
from sab.tasks.lookup import LookupTask
from sab.tasks.patches import PatchTask
from sab.tasks.recall import RecallTask
from sab.tasks.reversal import ReversalTask
from sab.tasks.sorting import SortingTask
from sab.tasks.translation import TranslationTask

INTERFACE = (
    "input_size",
    "output_size",
    "steps",
    "goal",
    "batch",
    "loss",
    "metrics",
    "baselines",
)
TASKS: dict[str, type] = {
    "copy": CopyTask,
    "adding": AddingTask,
    "charlm": CharLMTask,
    "images": ImageTask,
    "events": EventsTask,
    "calls": CallsTask,
    "logs": LogsTask,
    "next_event": NextEventTask,
    "patches": PatchTask,
    "sorting": SortingTask,
    "hull": HullTask,
    "dates": DatesTask,
    "recall": RecallTask,
    "lookup": LookupTask,
    "reversal": ReversalTask,
    "translation": TranslationTask,
    "babi": BabiTask,
    "bits_copy": CopyBitsTask,
    "bits_sort": SortBitsTask,
    "bits_recall": RecallBitsTask,
}


def register(name: str, task: type) -> None:
    """Make ``task``, a dataclass with the interface of `sab.tasks.base.Task`, known as ``name``.

    Raises:
        ValueError: the name is taken by another class, or the class is not a dataclass or lacks a
            method.
    """
    if TASKS.get(name, task) is not task:
        raise ValueError(f"name={name!r}: already taken by {TASKS[name].__name__}")
    missing = [attribute for attribute in INTERFACE if not hasattr(task, attribute)]
    if not dataclasses.is_dataclass(task) or missing:
        lacks = ", ".join(missing) or "the dataclass decorator"
        raise ValueError(f"task={task.__name__}: lacks {lacks} (see sab/tasks/base.py)")
    TASKS[name] = task


def build(name: str, config: Mapping[str, Any] | None = None) -> Task:
    """Return the task ``name`` with the settings ``config``.

    Raises:
        ValueError: the name or a setting is unknown, or a setting is out of range.
    """
    if name not in TASKS:
        close = difflib.get_close_matches(name, TASKS, 1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise ValueError(f"task={name!r}: must be one of {', '.join(sorted(TASKS))}{hint}")
    settings = dict(config or {})
    allowed = [field.name for field in dataclasses.fields(TASKS[name])]
    for field in settings:
        if field not in allowed:
            raise ValueError(f"{field}={settings[field]!r}: {name} has {', '.join(allowed)}")
    task: Task = TASKS[name](**settings)
    return task
