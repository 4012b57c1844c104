"""Progress of a run: a bar on a terminal, a line an evaluation in a log."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from tqdm.auto import tqdm

from sab.checks import one_of

KINDS = ("auto", "bar", "lines", "none")
SHOWN = ("epoch", "loss", "bpc", "accuracy", "mse", "grad_norm", "grad_norm_max")


def text_of(entry: Mapping[str, Any]) -> str:
    """One evaluation in a few words."""
    parts = [f"{k} {entry[k]:.4g}" for k in SHOWN if entry.get(k) is not None]
    return "  ".join(parts)


class Progress:
    """Shows how far a run is; ``TQDM_DISABLE=1`` silences the bar.

    Raises:
        ValueError: ``kind`` is not one of ``"auto"``, ``"bar"``, ``"lines"``, ``"none"``.
    """

    def __init__(self, title: str, updates: int, kind: str = "auto") -> None:
        one_of("progress", kind, KINDS)
        if kind == "auto":
            kind = "bar" if sys.stderr.isatty() else "lines"
        self.title, self.updates, self.kind = title, updates, kind
        self.bar: Any = None
        if kind == "bar":
            off = os.environ.get("TQDM_DISABLE") == "1"
            self.bar = tqdm(total=updates, desc=title, unit="update", mininterval=0.5, disable=off)
        self.seen = 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.bar is not None:
            self.bar.close()

    def update(self, done: int) -> None:
        """Move the bar to ``done`` updates."""
        if self.bar is not None:
            self.bar.update(done - self.seen)
            self.seen = done

    def report(self, update: int, entry: Mapping[str, Any]) -> None:
        """Show the outcome of an evaluation."""
        if self.bar is not None:
            self.bar.set_postfix_str(text_of(entry))
        elif self.kind == "lines":
            took = entry["seconds"] / max(update, 1)
            line = f"{self.title}  {update}/{self.updates}  {text_of(entry)}  {took:.3f} s/update"
            print(line, file=sys.stderr, flush=True)
