"""Install ``sab`` in a runtime that has torch and numpy already, as Google Colab's.

The set-up cell of every chapter runs this in a fresh clone. It installs the package without its
dependencies, then only the dependencies that are missing, and never lets pip move torch or numpy.
"""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KEPT = ("torch", "numpy")


def installed(requirement: str) -> bool:
    """Return whether the distribution that ``requirement`` names is installed, at any version."""
    try:
        importlib.metadata.distribution(distribution(requirement))
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def distribution(requirement: str) -> str:
    """Return the name in a requirement: ``pooch`` of ``pooch>=1.8``."""
    match = re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", requirement)
    if match is None:
        raise ValueError(f"requirement={requirement!r}: must start with a name")
    return match[0]


def commands(constraints: Path) -> list[list[str]]:
    """Return the pip commands this runtime needs."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    missing = [
        requirement
        for requirement in project["dependencies"]
        if distribution(requirement) not in KEPT and not installed(requirement)
    ]
    found = [[*pip, "--no-deps", "-e", str(ROOT)]]
    if missing:
        found.append([*pip, "-c", str(constraints), *missing])
    return found


def main() -> None:
    """Install what is missing.

    Raises:
        SystemExit: torch or numpy is missing: this is not such a runtime.
    """
    absent = [name for name in KEPT if not installed(name)]
    if absent:
        raise SystemExit(f"{', '.join(absent)} missing here: install the book with `make book`")
    with tempfile.TemporaryDirectory() as folder:
        constraints = Path(folder) / "kept.txt"
        pins = [f"{name}=={importlib.metadata.version(name)}" for name in KEPT]
        constraints.write_text("\n".join(pins) + "\n", encoding="utf-8")
        for command in commands(constraints):
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
