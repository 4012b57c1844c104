"""Builds and loads the C++ forms of the two scans (SAB and dense attention) on first use.

Builds are kept by source, versions of torch and Python, compiler flags and processor features, so
that one folder can serve several machines. One process at a time writes them
(`torch.utils.cpp_extension` holds a lock). Where there is no compiler, or no folder can be written,
one log line says so and the torch form runs.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import logging
import os
import platform
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType

import torch

log = logging.getLogger("sab")
STALE_SECONDS = 900  # a build takes one to two minutes
# scan.cpp is compiled and includes the headers; a change of any of them makes a new build.
SOURCES = (
    "scan.cpp",
    "scan_common.h",
    "scan_gemm.h",
    "scan_math.h",
    "scan_read.h",
    "scan_rows.h",
    "scan_vector.h",
    "attentive.h",
)


def _flags() -> list[str]:
    flags = ["-O3", "-std=c++20", "-fno-math-errno", "-fno-trapping-math"]
    if sys.platform == "linux":
        flags += ["-fopenmp", "-march=native"]
        if platform.machine() == "x86_64" and "avx512f" in _cpu_features().split():
            flags.append("-mprefer-vector-width=512")
    return flags


@functools.cache
def _cpu_features() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")


def _name() -> str:
    """A name that changes with whatever the binary depends on."""
    here = Path(__file__).parent
    parts = [torch.__version__, sys.version, *_flags(), _cpu_features()]
    parts += [(here / source).read_text() for source in SOURCES]
    return "sab_scan_" + hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def _private(folder: Path) -> bool:
    """Whether ``folder`` is ours alone to write: what lies in it will be loaded as code."""
    if not hasattr(os, "getuid"):
        return True
    info = folder.stat()
    return info.st_uid == os.getuid() and not info.st_mode & 0o022


def _folder(name: str) -> Path:
    """Return where the build goes: torch's extensions folder, or a private temporary one."""
    from torch.utils.cpp_extension import get_default_build_root

    root = Path(os.environ.get("TORCH_EXTENSIONS_DIR") or get_default_build_root())
    user = os.getuid() if hasattr(os, "getuid") else "user"
    spare = Path(tempfile.gettempdir()) / f"sab-extensions-{user}"
    for parent in (root, spare):
        folder = parent / name
        try:
            parent.mkdir(parents=True, exist_ok=True, mode=0o700 if parent == spare else 0o777)
            if parent == spare and not _private(parent):
                continue
            folder.mkdir(exist_ok=True)
            probe = folder / f".probe-{os.getpid()}"
            probe.touch()
            probe.unlink()
            return folder
        except OSError:
            continue
    raise OSError("no writable folder for the compiled scan; set TORCH_EXTENSIONS_DIR to one")


def _clear_stale_lock(folder: Path, name: str) -> None:
    """Remove the lock of a build that was killed: torch would wait for it for ever."""
    lock = folder / "lock"
    try:
        age = time.time() - lock.stat().st_mtime
    except OSError:
        return
    if age > STALE_SECONDS:
        lock.unlink(missing_ok=True)
    elif not (folder / f"{name}.so").exists():
        log.info("Waiting for another process to build the C++ scan (%s).", folder)


def _finished(folder: Path, name: str) -> ModuleType | None:
    """Load a build that once was loaded whole, without asking ninja.

    Ninja would build again for a second clone of the same source, whose paths differ, and then for
    the first, and so on.
    """
    library, mark = folder / f"{name}.so", folder / "loaded"
    if not mark.exists():
        return None
    spec = importlib.util.spec_from_file_location(name, library)
    if spec is None or spec.loader is None:
        return None
    try:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except ImportError:  # cut off or removed meanwhile: build again
        mark.unlink(missing_ok=True)
        return None
    return module


@functools.cache
def load_scan() -> ModuleType | None:
    """Return the compiled scan, or ``None`` where it cannot be built (one log line says why)."""
    path = os.environ.get("PATH", "")
    try:
        from torch.utils import cpp_extension

        name = _name()
        here, folder = Path(__file__).parent, _folder(name)
        _clear_stale_lock(folder, name)
        finished = _finished(folder, name)
        if finished is not None:
            return finished
        # ninja from PyPI sits beside the interpreter, which need not be on the path
        os.environ["PATH"] = os.pathsep.join([path, str(Path(sys.executable).parent)])
        if not (folder / f"{name}.so").exists():
            log.info("Building the C++ scan, once, in %s.", folder)
        module = cpp_extension.load(
            name,
            [str(here / "scan.cpp")],
            extra_cflags=_flags(),
            extra_ldflags=["-fopenmp"] if sys.platform == "linux" else [],
            build_directory=str(folder),
        )
        (folder / "loaded").touch()
        return module
    except Exception as error:  # a missing compiler shows up in many ways
        reason = next((line for line in str(error).splitlines() if line.strip()), repr(error))
        log.warning("The C++ scan cannot be built (%s); the torch form runs instead.", reason)
        return None
    finally:
        os.environ["PATH"] = path
