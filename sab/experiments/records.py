"""One small JSON record a run: written whole or not at all, checked when read."""

from __future__ import annotations

import dataclasses
import datetime
import json
import math
import os
import platform
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

import sab
from sab.experiments.files import project_root, results_dir, write_atomic

STATUSES = ("finished", "solved", "diverged")


class RecordError(ValueError):
    """A record file that cannot be used; the message says which and how to mend it."""


@dataclass(frozen=True)
class Record:
    """What a run leaves: ``results/<experiment>/<row>-<profile>-s<seed>.json``.

    ``metrics`` is flat (name → number). ``history`` has one dict an evaluation: ``update``,
    ``loss`` (training, mean since the last), ``accuracy`` and the task's other metrics on held-out
    data, ``grad_norm`` and ``grad_norm_max`` (before clipping, mean and largest since the last),
    ``lr``, ``seconds``. ``seconds`` counts training and evaluation over all restarts; of the
    metrics, ``step_seconds`` is an update's time without evaluation (on a CPU the processor's, so
    that other work on the machine does not count) and ``kept_mb`` what the backward pass of one
    batch needs kept, in 10⁶ bytes; ``peak_mb`` is the process's largest resident size (the device's
    on a GPU), with python, torch and the data in it.
    """

    experiment: str
    row: str
    config: dict[str, Any]
    seed: int
    profile: str
    metrics: dict[str, float]
    history: list[dict[str, Any]]
    machine: dict[str, Any]
    seconds: float
    peak_mb: float
    version: str = sab.__version__
    commit: str = ""
    created: str = ""
    status: str = "finished"
    path: Path | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        """The file's name without ``.json``."""
        return f"{self.row}-{self.profile}-s{self.seed}"


KEYS = {
    "experiment": str,
    "row": str,
    "config": dict,
    "seed": int,
    "profile": str,
    "metrics": dict,
    "history": list,
    "machine": dict,
    "seconds": (int, float),
    "peak_mb": (int, float),
    "version": str,
    "commit": str,
    "created": str,
    "status": str,
}


def finite(value: Any) -> Any:
    """Replace what JSON has no word for (NaN, infinities) by ``None``, in lists and dicts too."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def path_of(experiment: str, name: str, results: Path | None = None) -> Path:
    """Where the record ``name`` of ``experiment`` is."""
    return (results or results_dir()) / experiment / f"{name}.json"


def write(record: Record, results: Path | None = None) -> Path:
    """Write ``record`` atomically under ``results`` and return its path.

    Raises:
        RecordError: the record breaks the schema.
        OSError: the file cannot be written; an older record of the run is untouched.
    """
    plain = dataclasses.asdict(record)
    del plain["path"]
    path = path_of(record.experiment, record.name, results)
    plain = finite(plain)
    check(plain, path)
    text = json.dumps(plain, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    write_atomic(path, lambda file: file.write(text.encode()))
    return path


def check(plain: Any, path: Path) -> None:
    """See that ``plain`` has every key of a record, of its type, and fits its file's name.

    Raises:
        RecordError: it does not.
    """

    def wrong(what: str) -> RecordError:
        return RecordError(
            f"{path}: not a usable record ({what}); restore it from git, or delete it and run "
            "its experiment again"
        )

    if not isinstance(plain, dict):
        raise wrong("not a JSON object")
    for key, kind in KEYS.items():
        if key not in plain:
            raise wrong(f"{key} is missing")
        if not isinstance(plain[key], kind) or isinstance(plain[key], bool):  # type: ignore[arg-type]
            raise wrong(f"{key} has the wrong type")
    unknown = set(plain) - set(KEYS)
    if unknown:
        raise wrong(f"unknown keys: {', '.join(sorted(unknown))}")
    for name, value in plain["metrics"].items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise wrong(f"metric {name} is not a number")
    if not all(isinstance(entry, dict) and "update" in entry for entry in plain["history"]):
        raise wrong("a history entry has no update")
    if plain["status"] not in STATUSES:
        raise wrong(f"status {plain['status']!r} is not one of {', '.join(STATUSES)}")
    name = f"{plain['row']}-{plain['profile']}-s{plain['seed']}"
    if path.stem != name or path.parent.name != plain["experiment"]:
        raise wrong(f"the file's name should be {plain['experiment']}/{name}.json")


def read(path: Path) -> Record:
    """Read and check one record.

    Raises:
        RecordError: the file is not JSON or breaks the schema; the message says how to mend it.
    """
    path = Path(path)
    try:
        plain = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise RecordError(
            f"{path}: not a usable record (broken JSON: {error}); restore it from git, or delete "
            "it and run its experiment again"
        ) from None
    check(plain, path)
    return Record(**plain, path=path)


def load(
    experiment: str,
    row: str | None = None,
    profile: str | None = None,
    results: Path | None = None,
) -> list[Record]:
    """Read the records of an experiment, of one ``row`` or ``profile`` if given, in order.

    Raises:
        RecordError: one of the files cannot be used.
    """
    folder = (results or results_dir()) / experiment
    found = [read(path) for path in sorted(folder.glob("*.json"))]
    found = [record for record in found if row in (None, record.row)]
    found = [record for record in found if profile in (None, record.profile)]
    return sorted(found, key=lambda record: (record.row, record.profile, record.seed))


def machine(device: torch.device, form: str | None = None) -> dict[str, Any]:
    """Describe the hardware and software of a run, without names of hosts or people.

    ``form``: which form of the scan was used, where one was.
    """
    facts: dict[str, Any] = {
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": _cpu_name(),
        "cores": os.cpu_count() or 1,
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "device": device.type,
    }
    if form is not None:
        facts["scan"] = form
    if device.type == "cuda":
        facts["gpu"] = torch.cuda.get_device_name(device)
    return facts


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def peak_mb(device: torch.device) -> float:
    """Largest memory so far, in MB of 2**20 bytes: the device's on CUDA, else the process's."""
    if device.type == "cuda":
        return round(torch.cuda.max_memory_allocated(device) / 2**20, 1)
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (2**20 if sys.platform == "darwin" else 2**10), 1)


def commit() -> str:
    """The checkout's commit, with ``+`` if tracked files differ; empty outside a checkout."""
    command = ["git", "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*"]
    try:
        answer = subprocess.run(
            command, cwd=project_root(), capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout.strip()


def now() -> str:
    """The time, UTC, to the second, as ISO 8601."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
