"""The GitHub workflows: least permissions, actions pinned by commit, one make target each."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.paths import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
each_workflow = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)


def load(path: Path) -> dict[Any, Any]:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in load(path)["jobs"].values() for step in job["steps"]]


def test_the_four_are_there() -> None:
    assert [path.stem for path in WORKFLOWS] == ["colab", "links", "pages", "tests"]


@each_workflow
def test_actions_are_official_and_pinned_by_commit(path: Path) -> None:
    for line in path.read_text(encoding="utf-8").splitlines():
        if "uses:" in line:
            assert re.search(r"uses: actions/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line), line


def test_an_action_has_one_commit_everywhere() -> None:
    used: dict[str, set[str]] = {}
    for path in WORKFLOWS:
        for step in steps(path):
            if "uses" in step:
                name, commit = step["uses"].split("@")
                used.setdefault(name, set()).add(commit)
    assert all(len(commits) == 1 for commits in used.values()), used


@each_workflow
def test_permissions_are_the_least(path: Path) -> None:
    workflow = load(path)
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        wanted = {"pages": "write", "id-token": "write"} if name == "publish" else None
        assert job.get("permissions") == wanted
        assert "timeout-minutes" in job
    for step in steps(path):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


@each_workflow
def test_a_job_calls_one_make_target_that_exists(path: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for name, job in load(path)["jobs"].items():
        runs = [step["run"] for step in job["steps"] if "run" in step]
        assert len(runs) == (0 if name == "publish" else 1)
        for run in runs:
            match = re.fullmatch(r"make ([a-z-]+) PYTHON=python", run)
            assert match and re.search(rf"(?m)^{match[1]}:", makefile), run


def test_what_runs_when() -> None:
    triggers = {path.stem: load(path)[True] for path in WORKFLOWS}  # YAML reads `on` as true
    assert "pull_request" in triggers["tests"] and "push" in triggers["tests"]
    for name in ("colab", "links"):
        assert re.fullmatch(r"\d+ \d+ \* \* \d", triggers[name]["schedule"][0]["cron"])
    jobs = load(ROOT / ".github" / "workflows" / "tests.yml")["jobs"]
    assert jobs["everything"]["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13"]
    assert jobs["package-on-macos"]["runs-on"].startswith("macos")


@pytest.mark.parametrize("script", [".ci/run", "tools/find_python.sh", "tools/check_colab.sh"])
def test_a_shell_script_parses_and_stops_on_errors(script: str) -> None:
    path = ROOT / script
    subprocess.run(["bash", "-n", str(path)], check=True)
    assert re.search(r"(?m)^set -[eu]", path.read_text(encoding="utf-8"))


def test_ci_makes_a_missing_browser_a_failure() -> None:
    text = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "export SAB_REQUIRE_CHROMIUM=1" in text
    assert text.index("SAB_REQUIRE_CHROMIUM") < text.index("make test") < text.index("make book")
