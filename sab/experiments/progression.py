"""Where a run stands between two updates, and what was counted since the last evaluation."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

GIVE_UP = 50  # updates running with a gradient that is not finite


@dataclass
class Window:
    """Losses and gradient norms since the last evaluation."""

    losses: list[float] = field(default_factory=list)
    norm_sum: float = 0.0
    norm_max: float = 0.0
    norms: int = 0

    def add_norm(self, norm: float) -> None:
        """Count one update's gradient norm before clipping."""
        self.norm_sum += norm
        self.norm_max = max(self.norm_max, norm)
        self.norms += 1

    def summary(self) -> dict[str, float | None]:
        """Means and the largest norm, ``None`` where nothing was counted."""
        losses = sum(self.losses) / len(self.losses) if self.losses else None
        if not self.norms:
            return {"loss": losses, "grad_norm": None, "grad_norm_max": None}
        mean = self.norm_sum / self.norms
        return {"loss": losses, "grad_norm": mean, "grad_norm_max": self.norm_max}


@dataclass
class Progression:
    """Everything beside weights and random states that a checkpoint keeps."""

    update: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)
    best_value: float | None = None
    best_update: int = 0
    solved_running: int = 0
    solved_update: int | None = None
    since_better: int = 0
    drops: int = 0
    skipped: int = 0
    skipped_running: int = 0
    seconds: float = 0.0
    stepping: float = 0.0
    peak_mb: float = 0.0
    stopped: str = ""
    window: Window = field(default_factory=Window)

    def count(self, norm: float) -> None:
        """Count the gradient norm of an update; one that is not finite was skipped.

        Too many of these running stop the run.
        """
        if math.isfinite(norm):
            self.window.add_norm(norm)
            self.skipped_running = 0
            return
        self.skipped += 1
        self.skipped_running += 1
        if self.skipped_running >= GIVE_UP:
            self.stopped = "diverged"


class Norms:
    """Gradient norms that stay on their device until someone asks for them.

    Reading a number from a GPU makes the program wait for all that was asked of it. So the norms of
    the updates pile up there and are read together; what is made of them is the same.
    """

    def __init__(self) -> None:
        self._waiting: list[Tensor] = []

    def add(self, norm: Tensor) -> None:
        """Keep one update's norm (a scalar), without reading it."""
        self._waiting.append(norm.detach())

    def read(self) -> list[float]:
        """The norms since the last call, in order."""
        found: list[float] = torch.stack(self._waiting).tolist() if self._waiting else []
        self._waiting.clear()
        return found
