"""Runs that are broken off, and what of a record must not depend on it."""

from __future__ import annotations

from typing import Any

import pytest

from sab.experiments.records import Record
from sab.experiments.train import Trainer

TIMES = ("seconds", "seconds_per_update", "step_seconds")


def fixed(record: Record) -> tuple[Any, ...]:
    """All of a record that must not depend on the clock."""
    metrics = {k: v for k, v in record.metrics.items() if k not in TIMES}
    history = [{k: v for k, v in e.items() if k not in TIMES} for e in record.history]
    return metrics, history, record.status, record.config


class Stop(BaseException):
    """Ends a run as abruptly as an exception can."""


def stop_after(monkeypatch: pytest.MonkeyPatch, updates: int) -> None:
    whole = Trainer.step

    def step(self: Trainer) -> None:
        if self.at.update == updates:
            raise Stop
        whole(self)

    monkeypatch.setattr(Trainer, "step", step)
