"""Builds and loads the C++ form of the scan on first use.

Builds are kept by torch version, compiler flags and processor features, so that one folder can
serve several machines, and written by one process at a time (`torch.utils.cpp_extension` holds a
lock). Where there is no compiler, or the folder cannot be written, one log line says so and the
torch form runs.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import platform
import sys
import tempfile
from pathlib import Path
from types import ModuleType

import torch

log = logging.getLogger("sab")
SOURCES = ("scan.cpp", "scan_common.h", "scan_math.h", "attentive.h")


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


def _folder(name: str) -> Path:
    """Where the build goes: torch's extensions folder, or a private temporary one if that is
    read-only."""
    from torch.utils.cpp_extension import get_default_build_root

    root = Path(os.environ.get("TORCH_EXTENSIONS_DIR") or get_default_build_root())
    for parent in (root, Path(tempfile.gettempdir()) / f"sab-extensions-{os.getuid()}"):
        folder = parent / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            probe = folder / f".probe-{os.getpid()}"
            probe.touch()
            probe.unlink()
            return folder
        except OSError:
            continue
    raise OSError("no writable folder for the compiled scan; set TORCH_EXTENSIONS_DIR to one")


@functools.cache
def load_scan() -> ModuleType | None:
    """The compiled scan, or ``None`` where it cannot be built (one log line says why)."""
    try:
        from torch.utils import cpp_extension

        name = _name()
        here = Path(__file__).parent
        return cpp_extension.load(
            name,
            [str(here / "scan.cpp")],
            extra_cflags=_flags(),
            extra_ldflags=["-fopenmp"] if sys.platform == "linux" else [],
            build_directory=str(_folder(name)),
        )
    except Exception as error:  # a missing compiler shows up in many ways
        reason = next((line for line in str(error).splitlines() if line.strip()), repr(error))
        log.warning("The C++ scan cannot be built (%s); the torch form runs instead.", reason)
        return None
