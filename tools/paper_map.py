"""The map of the paper: its parts, and the chapter, source line and test of each."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tools.paths import BOOK, ROOT

KINDS = {
    "section": "Sections",
    "equation": "Equations and lines of Algorithm 1",
    "figure": "Figures",
    "table": "Tables",
}


class PageError(ValueError):
    """A page or one of its data files is wrong; the message says where."""


@cache
def read(name: str) -> list[dict[str, Any]]:
    """The entries of ``book/NAME.yaml``.

    Raises:
        PageError: it is not a list of entries.
    """
    entries = yaml.safe_load((BOOK / f"{name}.yaml").read_text(encoding="utf-8"))
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise PageError(f"book/{name}.yaml: must be a list of entries")
    return entries


@cache
def repository() -> str:
    """Where the repository's files are shown: the address of its main branch."""
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["repository"]
    return f"{config['url']}/blob/{config['branch']}"


def find_symbol(reference: str) -> int:
    """Line of ``path:name`` or ``path:Class.method`` (a test: ``path::name`` works as well).

    Raises:
        PageError: there is no such file or name.
    """
    path, _, name = reference.replace("::", ":").partition(":")
    file = ROOT / path
    if not file.is_file():
        raise PageError(f"{reference}: there is no file {path}")
    body: list[ast.stmt] = ast.parse(file.read_text(encoding="utf-8")).body
    line = 1
    for part in filter(None, name.split(".")):
        node = next((node for node in body if part in _names(node)), None)
        if node is None:
            raise PageError(f"{reference}: {path} has no {part}")
        line, body = node.lineno, getattr(node, "body", [])
    return line


def _names(node: ast.stmt) -> list[str]:
    """The names a statement defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    return []


def source_link(reference: str) -> str:
    """A Markdown link to the line that defines ``reference``."""
    line = find_symbol(reference)
    path, _, name = reference.replace("::", ":").partition(":")
    shown = name or Path(path).name
    return f"[`{shown}`]({repository()}/{path}#L{line})"


def chapter_link(name: str) -> str:
    """A link from a page of ``book/`` to the chapter ``NN_name``.

    Raises:
        PageError: there is no such chapter.
    """
    if not (ROOT / "notebooks" / f"{name}.py").is_file():
        raise PageError(f"there is no chapter notebooks/{name}.py")
    return f"[{int(name[:2])}](../notebooks/{name}.ipynb)"


def paper_map() -> str:
    """One table a kind: what the paper has, and where the book has it."""
    parts = []
    for kind, title in KINDS.items():
        head = ["| in the paper | chapter | source | test |", "| --- | --- | --- | --- |"]
        lines = [f"## {title}", "", *head]
        for entry in read("paper_map"):
            if entry["kind"] == kind:
                lines.append(f"| {' | '.join(_map_cells(entry))} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _map_cells(entry: Mapping[str, Any]) -> list[str]:
    """The cells of one line of the map."""
    chapters = ", ".join(chapter_link(name) for name in entry.get("chapters", ()))
    sources = " ".join(source_link(name) for name in entry.get("sources", ()))
    tests = " ".join(source_link(name) for name in entry.get("tests", ()))
    page = f" (p. {entry['page']})" if "page" in entry else ""
    where = chapters or entry.get("open", "–")
    return [f"{entry['paper']}{page}", where, sources or "–", tests or "–"]
