"""Weights kept beside a run, and the checkpoint it can go on from.

A run's folder ``runs/<experiment>/<name>/`` holds ``checkpoint.pt`` (while it runs), ``best.npz``
(the model chosen on held-out data) and a snapshot ``u<update>.npz`` for each update asked for.
``export`` copies chosen ones, with the same layout, under ``results/checkpoints/``, where they can
be committed.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sab.experiments.config import RunConfig, model_settings
from sab.experiments.files import explain, results_dir, runs_dir, write_atomic
from sab.models import registry as models
from sab.tasks import registry as tasks

CHECKPOINT = "checkpoint.pt"
FORMAT = 1


class CheckpointError(ValueError):
    """A checkpoint or weights file that cannot be used; says which, and how to mend it."""


def snapshot_name(update: int | None) -> str:
    """File name of the weights after ``update`` updates, or of the chosen model for ``None``."""
    return "best.npz" if update is None else f"u{update:06d}.npz"


def save_weights(path: Path, run: RunConfig, state: Mapping[str, Tensor]) -> None:
    """Write a state dict as compressed float32 arrays, with the run's settings beside them.

    Raises:
        OSError: the file cannot be written.
    """
    arrays: dict[str, Any] = {
        name: value.detach().cpu().float().numpy() for name, value in state.items()
    }
    config = np.array(json.dumps(run.resolved()))
    write_atomic(path, lambda file: np.savez_compressed(file, __config__=config, **arrays))


def read_weights(path: Path) -> tuple[RunConfig, dict[str, Tensor]]:
    """Read what :func:`save_weights` wrote.

    Raises:
        FileNotFoundError: there is no such file.
        CheckpointError: the file is damaged.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            state = {
                name: torch.from_numpy(file[name]) for name in file.files if name != "__config__"
            }
            return RunConfig.from_dict(json.loads(str(file["__config__"]))), state
    except FileNotFoundError:
        raise
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise CheckpointError(
            f"{path}: damaged weights ({type(error).__name__}); delete the file and run its "
            "experiment again with --force"
        ) from None


def build_model(run: RunConfig) -> nn.Module:
    """Build the run's model from its own random stream: the same seed gives the same weights.

    A model whose memory is the data it is trained on has a method ``remember(x, y)``; it is given
    the task's training part.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(run.stream("init"))
        model: nn.Module = models.build(run.model, model_settings(run))
    remember = getattr(model, "remember", None)
    if callable(remember):
        task: Any = tasks.build(run.task, run.task_config)
        remember(*task.take("train", torch.arange(task.sequences("train"))))
    return model


def find_weights(
    experiment: str,
    row: str,
    profile: str,
    seed: int,
    update: int | None = None,
    runs: Path | None = None,
    results: Path | None = None,
) -> Path:
    """Return the file of a run's weights: from ``runs/``, or from ``results/checkpoints/``.

    Raises:
        FileNotFoundError: neither has it; the message says how to make it.
    """
    tail = Path(experiment) / f"{row}-{profile}-s{seed}" / snapshot_name(update)
    places = [(runs or runs_dir()) / tail, (results or results_dir()) / "checkpoints" / tail]
    for path in places:
        if path.is_file():
            return path
    again = f"sab run {experiment} --row {row} --seed {seed} --profile {profile} --force"
    raise FileNotFoundError(
        f"{places[0]}: no such weights (nor {places[1]}); make them with: {again}"
    )


def load_model(
    experiment: str,
    row: str,
    profile: str = "cpu",
    seed: int = 0,
    update: int | None = None,
    runs: Path | None = None,
    results: Path | None = None,
) -> tuple[nn.Module, RunConfig]:
    """Return a run's model (the chosen one, or its snapshot after ``update`` updates) and the run.

    Raises:
        FileNotFoundError: the weights are not here.
        CheckpointError: they are damaged, or do not fit the model.
    """
    path = find_weights(experiment, row, profile, seed, update, runs, results)
    run, state = read_weights(path)
    model = build_model(run)
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        raise CheckpointError(f"{path}: does not fit model {run.model!r}: {error}") from None
    return model.eval(), run


def export(
    experiment: str,
    row: str,
    profile: str,
    seed: int,
    updates: list[int | None],
    runs: Path | None = None,
    results: Path | None = None,
) -> list[Path]:
    """Copy weights from ``runs/`` to ``results/checkpoints/`` and return the new paths.

    Raises:
        FileNotFoundError: a file is not there.
        OSError: a copy cannot be written.
    """
    made = []
    for update in updates:
        source = find_weights(experiment, row, profile, seed, update, runs, results)
        target = (results or results_dir()) / "checkpoints" / experiment / source.parent.name
        target = target / source.name
        if source != target:
            data = source.read_bytes()
            write_atomic(target, lambda file, data=data: file.write(data))  # type: ignore[misc]
        made.append(target)
    return made


def save_checkpoint(folder: Path, run: RunConfig, state: Mapping[str, Any]) -> None:
    """Write all that training needs to go on as if it had not stopped.

    Raises:
        OSError: the file cannot be written; the checkpoint before it is untouched.
    """
    whole = {"format": FORMAT, "config": run.resolved(), **state}
    payload = io.BytesIO()
    torch.save(whole, payload)
    data = payload.getvalue()
    write_atomic(folder / CHECKPOINT, lambda file: file.write(_digest(data) + data))


def _digest(data: bytes) -> bytes:
    """Stand before a checkpoint: torch itself does not notice a changed byte."""
    return b"sab-checkpoint " + hashlib.sha256(data).hexdigest().encode() + b"\n"


def load_checkpoint(folder: Path, run: RunConfig, device: torch.device) -> dict[str, Any] | None:
    """Return the checkpoint of ``run`` in ``folder``, or ``None`` where there is none.

    Raises:
        CheckpointError: the file is damaged, or belongs to a run with other settings.
    """
    path = folder / CHECKPOINT
    if not path.exists():
        return None
    cure = f"to start this run anew, add --fresh or delete {path}"
    try:
        head, _, data = path.read_bytes().partition(b"\n")
        if head + b"\n" != _digest(data):
            raise ValueError("checksum")
        state = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
        if state["format"] != FORMAT:
            raise ValueError(f"format {state['format']}")
    except PermissionError as error:
        raise OSError(explain(error, path)) from error
    except Exception as error:  # torch raises errors of many kinds
        raise CheckpointError(
            f"{path}: damaged checkpoint ({type(error).__name__}); {cure}"
        ) from None
    changed = differences(state["config"], run.resolved())
    if changed:
        raise CheckpointError(f"{path}: made with other settings ({', '.join(changed)}); {cure}")
    return dict(state)


def differences(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Names of the settings in which two plain configs differ, as ``name: old → new``."""
    found = []
    for key in sorted({*old, *new}):
        before, after = old.get(key), new.get(key)
        if isinstance(before, dict) and isinstance(after, dict):
            found += differences(before, after, f"{prefix}{key}.")
        elif before != after:
            found.append(f"{prefix}{key}: {before} → {after}")
    return found


def clear(folder: Path) -> None:
    """Remove what a run has left in its folder: checkpoint, weights and snapshots."""
    for path in (*folder.glob("*.npz"), folder / CHECKPOINT):
        path.unlink(missing_ok=True)
