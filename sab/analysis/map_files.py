"""The small files that show what a run did: written whole or not at all, read with a clear error.

``results/<folder>/<experiment>/<row>-<profile>-s<seed>.json``: a page shows them without weights
and without data.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from sab.experiments.files import results_dir, write_atomic

Kind = TypeVar("Kind")


def path_of(
    experiment: str,
    row: str,
    profile: str,
    seed: int,
    results: Path | None = None,
    folder: str = "maps",
) -> Path:
    """Where a run's file is."""
    return (results or results_dir()) / folder / experiment / f"{row}-{profile}-s{seed}.json"


def write(path: Path, plain: dict[str, Any]) -> Path:
    """Write ``plain`` as one line of JSON, whole or not at all, and return ``path``.

    Raises:
        OSError: the file cannot be written.
    """
    text = json.dumps(plain, ensure_ascii=False, separators=(",", ":")) + "\n"
    write_atomic(path, lambda file: file.write(text.encode()))
    return path


def read(path: Path, build: Callable[[Any], Kind]) -> Kind:
    """What ``build`` makes of the JSON at ``path``.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is damaged, or not what ``build`` reads.
    """
    try:
        return build(json.loads(path.read_bytes()))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise ValueError(f"{path}: damaged ({error!r}); restore it from git") from None
