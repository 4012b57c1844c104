"""Small data sets where the loaders look for the real ones."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import pytest

from sab.data import DataFile, Dataset, sources


def hold(
    monkeypatch: pytest.MonkeyPatch, root: Path, name: str, contents: dict[str, bytes]
) -> None:
    """Put files where the data set ``name`` has them, with their own checksums."""
    old = sources.DATASETS[name]
    made = []
    for file, raw in contents.items():
        path = root / old.folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw)
        inner = gzip.decompress(raw) if file.endswith(".gz") and ".tar" not in file else raw
        made.append(DataFile(file, hashlib.sha256(inner).hexdigest()))
    item = Dataset(name, old.folder, old.title, old.terms, tuple(made), old.page)
    monkeypatch.setitem(sources.DATASETS, name, item)
    monkeypatch.setenv("SAB_DATA", str(root))
