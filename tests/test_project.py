"""The files around the package agree with each other."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import sab
from tools.paths import ROOT, repository

TOML = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT: dict[str, Any] = TOML["project"]
TEXT_SUFFIXES = {".py", ".md", ".yml", ".yaml", ".toml", ".txt", ".cff", ".cpp", ".css", ".sh", ""}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def requirements() -> set[tuple[str, str]]:
    """Return (name, versions) of every dependency and extra."""
    groups = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    found = set()
    for requirement in (item for group in groups for item in group):
        match = re.fullmatch(r"([A-Za-z0-9._-]+)(.*)", requirement)
        if match:  # an extra that names other extras has a bracket and no version
            found.add((normal(match[1]), match[2]))
    return {(name, spec) for name, spec in found if name != "sab"}


def test_conda_and_pip_ask_for_the_same() -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    listed: list[str] = []
    for item in environment["dependencies"]:
        listed += item["pip"] if isinstance(item, dict) else [item]
    parts = [re.fullmatch(r"([A-Za-z0-9._-]+)(.*)", item) for item in listed]
    conda = {(normal(match[1]), match[2]) for match in parts if match}
    assert ("python", PROJECT["requires-python"]) in conda
    renamed = {("torch" if name == "pytorch" else name, spec) for name, spec in conda}
    assert {item for item in renamed if item[0] not in ("python", "pip")} == requirements()


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    found = [line for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*", line) for line in found), found
    return dict(line.split("==") for line in found)


def test_constraints_pin_every_requirement_within_its_range() -> None:
    from packaging.specifiers import SpecifierSet

    pinned = pins()
    for name, spec in requirements():
        assert name in pinned, f"{name} is not in constraints.txt"
        assert pinned[name] in SpecifierSet(spec), f"{name}=={pinned[name]} is not {spec}"


def test_the_version_stands_once() -> None:
    assert TOML["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "sab.__version__"}
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == sab.__version__
    assert f"## {sab.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def tracked() -> list[Path]:
    done = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [path for path in (ROOT / line for line in done.stdout.splitlines()) if path.is_file()]


def test_every_place_names_the_same_repository() -> None:
    address = re.escape(repository())
    slug = re.escape(repository().rsplit("/", 1)[1])
    for path in tracked():
        if path.suffix not in TEXT_SUFFIXES | {".ipynb"} or path.name == "test_project.py":
            continue
        text = path.read_text(encoding="utf-8")
        for found in re.findall(rf"https://github\.com/[\w.-]+/{slug}\b", text):
            assert re.fullmatch(address, found), f"{path.relative_to(ROOT)}: {found}"
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["repository-code"] == repository()
    assert repository() in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_licences_are_said() -> None:
    assert (ROOT / "LICENSE").read_text(encoding="utf-8").startswith("MIT License")
    assert PROJECT["license"] == "MIT"
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "CC BY 4.0" in readme and "MIT" in readme


def test_the_citation_names_the_paper() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    (paper,) = citation["references"]
    assert paper["title"].startswith("Sparse Attentive Backtracking")
    assert paper["authors"][0]["family-names"] == "Ke"
    assert len(paper["authors"]) == 7


def test_every_package_folder_is_a_package() -> None:
    """A folder without ``__init__.py`` would be missing from the installed package."""
    folders = {path.parent for path in (ROOT / "sab").rglob("*.py")}
    assert not [folder for folder in folders if not (folder / "__init__.py").exists()]


def test_the_sources_in_c_are_packaged() -> None:
    data = TOML["tool"]["setuptools"]["package-data"]
    for suffix in (".cpp", ".h"):
        for path in (ROOT / "sab").rglob(f"*{suffix}"):
            package = ".".join(path.relative_to(ROOT).parts[:-1])
            assert f"*{suffix}" in data[package], path


def test_no_data_and_no_build_output_is_committed() -> None:
    for path in tracked():
        relative = path.relative_to(ROOT)
        assert path.stat().st_size < 3_000_000, f"{relative} is large"
        assert relative.parts[0] not in ("_build", "data", "runs", ".venv"), relative


def test_make_help_lists_every_target() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    declared = re.search(r"\.PHONY: ((?:.*\\\n)*.*)", text)
    assert declared
    targets = set(declared[1].replace("\\", " ").split())
    done = subprocess.run(
        ["make", "--no-print-directory", "help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert {line.split()[0] for line in done.stdout.splitlines() if line} == targets
    for name in ("book", "test", "serve", "pairs", "lint", "clean"):
        assert name in targets


@pytest.mark.parametrize("name", ["README.md", "book/run_it.md"])
def test_the_pages_name_only_targets_that_exist(name: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    text = (ROOT / name).read_text(encoding="utf-8")
    for target in re.findall(r"(?m)(?:^|`|&& )make ([a-z][a-z-]+)", text):
        assert re.search(rf"(?m)^{target}:", makefile), f"{name} names make {target}"


def test_the_readme_s_example_runs() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    code = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(code) == 1
    values: dict[str, Any] = {}
    exec(code[0], values)
    assert tuple(values["logits"].shape) == (4, 120, 10)
    assert tuple(values["recall"].matrix().shape) == (4, 120, 120)
