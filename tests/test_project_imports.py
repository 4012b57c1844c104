"""Data flows one way: nothing imports what stands on its right.

data → tasks → models (made of ops) → experiments → results → analysis → figures → notebook, cli.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tools.paths import ROOT

# What each part may import, beside itself and the checks.
ALLOWED: dict[str, set[str]] = {
    "checks": set(),
    "ops": set(),
    "data": set(),
    "tasks": {"data"},
    "models": {"ops"},
    "experiments": {"data", "tasks", "models", "ops"},
    # Analysis reads what runs left (plans, claims, records, weights); it starts none.
    "analysis": {"tasks", "models", "ops"}
    | {
        f"experiments.{name}"
        for name in ("claims", "config", "files", "records", "rows", "statistics", "weights")
    },
    "figures": {"tasks", "models", "ops", "analysis", "experiments.records"},
    "notebook": {"data", "tasks", "models", "ops", "experiments", "analysis", "figures"},
    "cli": {"data", "tasks", "models", "ops", "experiments", "analysis", "figures"},
}
FILES = sorted(path for path in (ROOT / "sab").rglob("*.py") if path.parent != ROOT / "sab")
FILES += sorted(path for path in (ROOT / "sab").glob("*.py") if path.stem != "__init__")


def part(path: Path) -> str:
    return path.relative_to(ROOT / "sab").with_suffix("").parts[0]


def imported(source: str, package: tuple[str, ...]) -> set[str]:
    """Return the dotted names below ``sab`` that a source imports, also inside functions."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join([*package[: len(package) - node.level + 1], *base.split(".")])
            found |= {f"{base}.{alias.name}" for alias in node.names}
    return {name.removeprefix("sab.") for name in found if name.startswith("sab.")}


def wrong(mine: str, names: set[str]) -> list[str]:
    fine = {mine, "checks", "__version__", *ALLOWED[mine]}
    return sorted(
        name for name in names if not any(name == ok or name.startswith(f"{ok}.") for ok in fine)
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_imports_what_stands_on_its_right(path: Path) -> None:
    package = ("sab", *path.relative_to(ROOT / "sab").parts[:-1])
    names = imported(path.read_text(encoding="utf-8"), package)
    problems = wrong(part(path), names)
    assert not problems, f"{path.relative_to(ROOT)} imports {', '.join(problems)}"


def test_a_wrong_import_is_seen() -> None:
    source = "from sab.models.sab import SAB\ndef f():\n    from ..experiments import train\n"
    names = imported(source, ("sab", "tasks"))
    assert wrong("tasks", names) == ["experiments.train", "models.sab.SAB"]
    assert wrong("figures", {"experiments.records.load"}) == []
    assert wrong("figures", {"experiments.train"}) == ["experiments.train"]


def test_nothing_in_the_package_needs_the_tools_that_build_the_website() -> None:
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        assert "from tools" not in text and "import tools" not in text, path
