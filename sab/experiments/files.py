"""Files that are whole or absent: atomic writing, and the checks made before a run starts."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

ELSEWHERE = "choose another folder with --results and --runs"
NEEDED_MB = 20  # room for a checkpoint, a few snapshots and the record


def project_root() -> Path:
    """The checkout this package runs from, or the working folder where there is none."""
    root = Path(__file__).resolve().parents[2]
    return root if (root / "pyproject.toml").is_file() else Path.cwd()


def results_dir() -> Path:
    """Where records are: ``SAB_RESULTS``, or ``results/`` of the checkout."""
    return Path(os.environ.get("SAB_RESULTS") or project_root() / "results")


def runs_dir() -> Path:
    """Where checkpoints and weights are: ``SAB_RUNS``, or ``runs/`` of the checkout."""
    return Path(os.environ.get("SAB_RUNS") or project_root() / "runs")


def explain(error: OSError, path: Path) -> str:
    """Say in one line what went wrong with ``path`` and how to mend it."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{path}: no space left on the disk; free some and give the same command again"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{path}: cannot be written ({error.strerror}); {ELSEWHERE}"
    if error.errno in (errno.EEXIST, errno.ENOTDIR):
        return f"{path}: a file is in the way of a folder; move it, or {ELSEWHERE}"
    return f"{path}: cannot be written ({error.strerror or error}); {ELSEWHERE}"


def write_atomic(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Call ``write`` on a new file beside ``path``, then put it in its place in one step.

    Whoever stops the program in between, a reader finds the old file or the new one, never a part
    of it.

    Raises:
        OSError: with a message that names the path and the cure; what stood at ``path`` is
            untouched.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(part, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise OSError(explain(error, path)) from error
    except BaseException:
        part.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep ``folder`` for this process; the lock goes with it, however it ends.

    Raises:
        ValueError: another process has it.
        OSError: the folder cannot be written.
    """
    check_writable(folder)
    with open(folder / ".lock", "wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"{folder}: another process is at this run; let it end") from None
        yield


def check_writable(folder: Path, needed_mb: int = NEEDED_MB) -> None:
    """Make ``folder`` if need be and see that a file can be written and there is room.

    Raises:
        OSError: it cannot, with a message that says how to mend it.
    """
    probe = folder / ".write-test"
    write_atomic(probe, lambda file: file.write(b"0" * 4096))
    probe.unlink(missing_ok=True)
    free = shutil.disk_usage(folder).free // 2**20
    if free < needed_mb:
        raise OSError(
            f"{folder}: only {free} MB free and a run needs {needed_mb}; free some space, "
            f"or {ELSEWHERE}"
        )
