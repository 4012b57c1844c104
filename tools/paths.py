"""Where things are in a clone, and where the build puts what it makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = ROOT / "notebooks"
BOOK = ROOT / "book"
BUILD = ROOT / "_build"
CACHE = BUILD / "cache"  # executed notebooks, by the hash of all they depend on
STAGE = BUILD / "site"  # what Jupyter Book reads
OUT = BUILD / "out"
HTML = OUT / "_build" / "html"  # the website


def config() -> dict[str, Any]:
    """Return ``_config.yml``, the one place of the repository's address."""
    return yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))


def repository() -> str:
    """Return the repository's address, without a slash at its end."""
    return str(config()["repository"]["url"]).rstrip("/")


def toc_files() -> list[str]:
    """Return the pages of ``_toc.yml`` in reading order, the root first, without suffix."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    return [toc["root"], *_files(toc)]


def _files(node: Any) -> list[str]:
    if isinstance(node, list):
        return [name for item in node for name in _files(item)]
    if not isinstance(node, dict):
        return []
    found = [str(node["file"])] if "file" in node else []
    for key in ("parts", "chapters", "sections"):
        found += _files(node.get(key))
    return found
