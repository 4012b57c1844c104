"""The set-up cell, run where ``sab`` is missing, with this clone standing in for the address."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tools import colab_setup
from tools.notebooks import convert, sources
from tools.paths import ROOT, repository


def set_up_cell() -> str:
    cells = convert(sources()[0]).cells
    return next(cell.source for cell in cells if "setup" in cell.metadata.get("tags", ()))


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has torch and the rest, and not ``sab``, as a Colab runtime."""
    folder = tmp_path_factory.mktemp("runtime")
    venv.create(folder, with_pip=False)
    site = next((folder / "lib").glob("python*")) / "site-packages"
    # A folder added this way brings its packages, but not the link to this clone's sab.
    (site / "shared.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    for name in ("git", "sh", "git-upload-pack"):
        program = shutil.which(name)
        if program:
            (folder / "bin" / name).symlink_to(program)
    return folder / "bin" / "python"


def in_runtime(runtime: Path, code: str, folder: Path) -> str:
    environment = {
        **os.environ,
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.file://{ROOT}.insteadOf",
        "GIT_CONFIG_VALUE_0": repository(),
        # What is asked for is here already: nothing may be fetched.
        "PIP_NO_INDEX": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip reads it so: no isolation
        "PATH": str(runtime.parent),  # git, but neither ninja nor nvidia-smi
    }
    environment.pop("SAB_SCAN", None)
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        [str(runtime), "-c", code], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_the_set_up_cell_installs_sab_and_leaves_torch_alone(runtime: Path, tmp_path: Path) -> None:
    assert "None" in in_runtime(
        runtime, "import importlib.util as u; print(u.find_spec('sab'))", tmp_path
    )
    before = "import torch, numpy; print(torch.__file__, numpy.__version__)"
    kept = in_runtime(runtime, before, tmp_path).split()
    report = "\nimport sab, torch, numpy\nprint(os.getcwd(), sab.__file__, os.environ['SAB_SCAN'])"
    cell = set_up_cell() + report + "\nprint(torch.__file__, numpy.__version__)"
    folder, package, scan, torch_file, numpy_version = in_runtime(runtime, cell, tmp_path).split()
    clone = (tmp_path / "sab-book").resolve()
    assert Path(folder) == clone
    assert Path(package) == clone / "sab" / "__init__.py"
    assert scan == "torch", "neither ninja nor a GPU: no attempt at building"
    assert [torch_file, numpy_version] == kept
    assert (clone / "results").is_dir() and (clone / "sab/ops/sab_scan/scan.cpp").is_file()
    # After a restart of the kernel, in the first folder, sab imports and the cell does nothing.
    again = set_up_cell() + "\nimport sab; print(os.getcwd(), sab.__file__)"
    folder, package = in_runtime(runtime, again, tmp_path).split()
    assert Path(folder) == tmp_path.resolve() and Path(package).parents[1] == clone


def test_only_what_is_missing_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = {"pooch", "seaborn"}
    monkeypatch.setattr(
        colab_setup, "installed", lambda r: colab_setup.distribution(r) not in absent
    )
    first, second = colab_setup.commands(tmp_path / "kept.txt")
    assert first[-3:] == ["--no-deps", "-e", str(ROOT)]
    assert {colab_setup.distribution(item) for item in second[-2:]} == absent
    assert second[-4:-2] == ["-c", str(tmp_path / "kept.txt")]


def test_torch_is_never_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(colab_setup, "installed", lambda requirement: False)
    for command in colab_setup.commands(tmp_path / "kept.txt"):
        assert not any(item.startswith(("torch", "numpy")) for item in command)
    with pytest.raises(SystemExit, match="torch, numpy missing here"):
        colab_setup.main()


def test_names() -> None:
    assert colab_setup.distribution("pooch>=1.8") == "pooch"
    assert colab_setup.installed("torch>=2.6")
    assert not colab_setup.installed("no-such-distribution")
    with pytest.raises(ValueError, match="must start with a name"):
        colab_setup.distribution(">=1")


def test_a_kernel_of_this_environment_needs_no_set_up() -> None:
    code = set_up_cell() + "\nimport sab; print(os.getcwd())"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT / "tests", capture_output=True, text=True, check=True
    )
    assert Path(done.stdout.strip()) == ROOT / "tests"
