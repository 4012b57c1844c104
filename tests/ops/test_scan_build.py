"""Building the C++ form: without a compiler, without a writable folder, and by two processes at
once.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import torch

from sab.ops.sab_scan import ScanOptions, cpp, dispatch

# What a process does: run the automatic form twice, print which form that was and a fingerprint.
RUN = """
import logging, sys
logging.basicConfig(format="LOG %(name)s %(levelname)s %(message)s")
import torch
from sab.models.sab import SAB, SABConfig
from sab.ops.sab_scan import cpp
{change}
torch.set_num_threads(1)
torch.manual_seed(0)
model = SAB(SABConfig(3, 6, 4, k_top=2)).double()
x = torch.randn(2, 9, 3, dtype=torch.float64)
for _ in range(2):
    y, _ = model(x)
    y.sum().backward()
built = cpp.load_scan()
print("FORM", "torch" if built is None else "cpp")
print("SUM %.10f" % (y.sum() + model.layer.w1.grad.sum()).item())
print("FILE", getattr(built, "__file__", None))
"""
# Compiles in a third of the time, and is what a platform without OpenMP uses.
PORTABLE = 'cpp._flags = lambda: ["-O0", "-std=c++20"]'


def start(
    change: str = "", cwd: Path = Path(__file__).parents[2], **environment: str
) -> subprocess.Popen[str]:
    inherited = {k: v for k, v in os.environ.items() if k not in ("SAB_SCAN", "CXX")}
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(RUN).format(change=change)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**inherited, "OMP_NUM_THREADS": "1", **environment},
    )


def finish(process: subprocess.Popen[str]) -> tuple[dict[str, str], list[str]]:
    """What it printed by name, and its log lines."""
    try:
        out, err = process.communicate(timeout=500)
    finally:
        process.kill()
    assert process.returncode == 0, err
    printed = dict(line.split(" ", 1) for line in out.splitlines())
    return printed, [line for line in err.splitlines() if line.startswith("LOG")]


def test_no_compiler_runs_the_torch_form_and_says_so_once(tmp_path: Path) -> None:
    process = start(CXX="/nonexistent", TORCH_EXTENSIONS_DIR=str(tmp_path))
    expected = start(SAB_SCAN="reference")
    printed, log = finish(process)
    assert printed["FORM"] == "torch"
    assert len(log) == 1
    assert log[0].startswith("LOG sab WARNING The C++ scan cannot be built (")
    assert log[0].endswith("; the torch form runs instead.")
    assert printed["SUM"] == finish(expected)[0]["SUM"]


def test_two_processes_build_at_once_beside_a_read_only_folder(tmp_path: Path) -> None:
    """Neither can write where torch puts extensions; they share one temporary folder's build."""
    blocked = tmp_path / "file"
    blocked.touch()
    folder = tmp_path / "temporary"
    folder.mkdir()
    where = str(blocked / "extensions")
    processes = [start(PORTABLE, TORCH_EXTENSIONS_DIR=where, TMPDIR=str(folder)) for _ in range(2)]
    found = [finish(process) for process in processes]
    for printed, log in found:
        assert printed["FORM"] == "cpp", log
        assert Path(printed["FILE"]).is_relative_to(folder)
        assert not log
    assert found[0][0] == found[1][0]
    assert found[0][0]["SUM"] == finish(start(SAB_SCAN="torch"))[0]["SUM"]
    libraries = list(folder.rglob("*.so"))
    assert len(libraries) == 1, "built once"
    assert not list(folder.rglob("lock")), "a lock left behind would block the next process"


def test_two_processes_load_the_same_build() -> None:
    found = [finish(process) for process in [start() for _ in range(2)]]
    assert found[0] == found[1]
    assert found[0][0]["FORM"] == "cpp" and not found[0][1]


def test_a_second_clone_loads_the_build_of_the_first(tmp_path: Path) -> None:
    """Ninja would build for it again, and then for the first again: the paths differ."""
    assert cpp.load_scan() is not None
    source = Path(cpp.__file__).parents[2]
    shutil.copytree(source, tmp_path / "sab", ignore=shutil.ignore_patterns("__pycache__"))
    printed, log = finish(start(cwd=tmp_path, CXX="/nonexistent", PYTHONPATH=str(tmp_path)))
    assert printed["FORM"] == "cpp" and not log
    assert printed == finish(start())[0]


def test_a_build_cut_off_is_not_loaded(tmp_path: Path) -> None:
    assert cpp._finished(tmp_path, "scan") is None  # never built
    (tmp_path / "scan.so").write_bytes(b"\x7fELF")
    assert cpp._finished(tmp_path, "scan") is None  # no process has loaded it yet
    (tmp_path / "loaded").touch()
    assert cpp._finished(tmp_path, "scan") is None
    assert not (tmp_path / "loaded").exists(), "the next process builds again"


def test_a_machine_with_a_compiler_builds() -> None:
    """Without this, comparisons with C++ could compare the torch form twice, unnoticed."""
    assert shutil.which("ninja") and (shutil.which("c++") or shutil.which("g++"))
    assert cpp.load_scan() is not None


def test_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "extensions"))
    assert cpp._folder("scan") == tmp_path / "extensions" / "scan"
    blocked = tmp_path / "file"
    blocked.touch()
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(blocked))
    folder = cpp._folder("scan")
    assert folder.is_dir() and folder.is_relative_to(tmp_path / "temporary")
    assert folder.parent.name == f"sab-extensions-{os.getuid()}"
    monkeypatch.setattr("tempfile.tempdir", str(blocked))
    with pytest.raises(OSError, match="set TORCH_EXTENSIONS_DIR"):
        cpp._folder("scan")


def test_the_temporary_folder_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library is loaded from there: nobody else may write in it."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    blocked = tmp_path / "file"
    blocked.touch()
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(blocked))
    parent = cpp._folder("scan").parent
    assert parent.stat().st_mode & 0o077 == 0
    parent.chmod(0o777)  # as somebody else might have left it for us
    with pytest.raises(OSError):
        cpp._folder("scan")


def test_a_lock_left_by_a_killed_build_is_removed(tmp_path: Path) -> None:
    """torch waits for a lock for ever; one that is new may be another process's, and stays."""
    lock = tmp_path / "lock"
    lock.touch()
    cpp._clear_stale_lock(tmp_path, "scan")
    assert lock.exists()
    old = time.time() - 2 * cpp.STALE_SECONDS
    os.utime(lock, (old, old))
    cpp._clear_stale_lock(tmp_path, "scan")
    assert not lock.exists()
    cpp._clear_stale_lock(tmp_path, "scan")  # nothing to do


def test_an_old_lock_does_not_hold_up_the_load() -> None:
    """The whole way: the lock of a build that was killed long ago, then a process that needs it."""
    library = cpp.load_scan()
    assert library is not None and library.__file__ is not None
    lock = Path(library.__file__).parent / "lock"
    lock.touch()
    old = time.time() - 2 * cpp.STALE_SECONDS
    os.utime(lock, (old, old))
    printed, log = finish(start())
    assert printed["FORM"] == "cpp" and not log and not lock.exists()


def test_refusals_come_before_a_build(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        raise AssertionError("built for a call that is refused")

    monkeypatch.setattr(dispatch, "load_scan", build)
    sliding = ScanOptions(truncation="sliding")
    with pytest.raises(ValueError, match="truncation='sliding'"):
        dispatch.choose_form("cpp", sliding, torch.device("cpu"))


def test_a_build_is_kept_by_what_it_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    name = cpp._name()
    assert name == cpp._name() and name.startswith("sab_scan_")
    monkeypatch.setattr(cpp, "_flags", lambda: ["-O0"])
    other = cpp._name()
    monkeypatch.setattr(cpp, "_cpu_features", lambda: "flags: none")
    third = cpp._name()
    monkeypatch.setattr("torch.__version__", "0.0")
    assert len({name, other, third, cpp._name()}) == 4


def test_every_source_counts() -> None:
    """A header that is not listed would leave an old build in use after a change."""
    folder = Path(cpp.__file__).parent
    assert set(cpp.SOURCES) == {
        path.name for path in folder.iterdir() if path.suffix in (".cpp", ".h")
    }
