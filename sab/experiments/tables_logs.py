"""Which runs make the tables of Part III's scenes: logs (6.1), image patches (6.2), agents (6.3).

The systems of a table have about as many parameters, one recipe and one division of the data. All
read the mean of their positions. System calls are cropped to the first 2,048, so that full
attention fits; the row ``rea_whole`` has them all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from sab.experiments.profiles import SMOKE_TRAIN
from sab.experiments.rows import Experiment, Row
from sab.experiments.tables_rea import NARROW, REA, Systems, systems
from sab.experiments.tables_real import MNIST, epochs
from sab.tasks.logs import NORMAL, TRAINED

CROP = 2048
RECIPE: dict[str, Any] = {
    "lr": 3e-3,
    "clip": 1.0,
    "schedule": "cosine",
    "solved_at": None,
    "checkpoint_every": 100,
}
SMOKE: dict[str, Any] = {**SMOKE_TRAIN, "patience": None}


def _scales(
    sequences: int, batch: int, cpu: float, paper: float, smoke: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """``cpu`` and ``paper``: epochs; ``smoke``: settings of its task."""
    return {
        "smoke": {"train": SMOKE, "task": dict(smoke)},
        "cpu": {"train": epochs(cpu, sequences, batch)},
        "paper": {"train": epochs(paper, sequences, batch)},
    }


def _rows(
    these: Systems, task: Mapping[str, Any], batch: int, size: Mapping[str, Mapping[str, Any]]
) -> tuple[Row, ...]:
    train = {**RECIPE, "batch_size": batch}
    return tuple(
        Row(name, title, model, config, task, train, scales=size)
        for name, (title, model, config) in these.items()
    )


def _pooled(these: Systems) -> Systems:
    """Each read by the mean, padding passed over."""
    how = {"readout": "mean", "padding": "zero_rows"}
    return {
        name: (title, model, config if model == "bag" else {**config, **how})
        for name, (title, model, config) in these.items()
    }


def _classifiers() -> Systems:
    """Tell attacks: the systems of the synthetic table, a small REA, and a bag of events."""
    these = systems(32, 40, 22, 0.01)
    del these["gru"]
    small = {**REA, "hidden_size": 12, "heads": 2, "alpha_start": 0.01}
    these["fifth"] = ("REA, a fifth of the parameters", "rea", small)
    these["bag"] = ("bag of events, logistic regression", "bag", {})
    return _pooled(these)


def _logs(source: str, batch: int, cpu: float, paper: float, title: str) -> Experiment:
    task: dict[str, Any] = {"source": source}
    if source == "adfa":
        task["longest"] = CROP
    size = _scales(TRAINED[source], batch, cpu, paper, {"source": "made"})
    rows = list(_rows(_classifiers(), task, batch, size))
    for at, row in enumerate(rows):
        if row.model == "bag":  # its problem is convex: larger steps arrive, at no one's cost
            rows[at] = dataclasses.replace(row, train={**row.train, "lr": 3e-2})
    if source == "adfa":
        slow = next(row for row in rows if row.name == "rea_slow")
        title_whole = f"{slow.title}, not cropped"
        rows.append(
            dataclasses.replace(
                slow, name="rea_whole", title=title_whole, task_config={"source": source}
            )
        )
    return Experiment(f"rea_{source}", title, "logs", tuple(rows))


def _anomaly() -> Experiment:
    """Learn what is normal, be surprised by the rest: the anomaly head."""
    these = systems(32, 40, 22, 0.01)
    chosen = {
        name: (title, model, {**config, "causal": True, "padding": "zero_rows"})
        for name, (title, model, config) in these.items()
        if name in ("rea_slow", "window", "state", "point", "full")
    }
    chosen["lstm"] = ("LSTM", "lstm", {"hidden_size": 56})
    size = _scales(NORMAL["adfa"], 16, 4, 30, {"source": "made"})
    rows = _rows(chosen, {"source": "adfa", "longest": CROP}, 16, size)
    title = "Anomalies among system calls: trained on normal traces, by the next event"
    return Experiment("rea_anomaly", title, "next_event", rows)


def _patches() -> Experiment:
    """A picture as a sequence of patches: REA against a ViT of its size, and other baselines."""
    these = systems(32, 40, 26, 0.02, window=8)
    kept = {name: these[name] for name in ("full", "window", "rea", "state", "point", "bilstm")}
    titles = {"full": "full attention, as in a ViT"}
    size = {
        "mnist": _scales(MNIST, 64, 3, 30, {"source": "digits", "patch": 2}),
        "digits": _scales(1_200, 32, 30, 100, {"source": "digits", "patch": 2}),
    }
    rows: list[Row] = []
    for source, patch, batch in (("mnist", 4, 64), ("digits", 2, 32)):
        prefix = "" if source == "mnist" else "digits_"
        place = "" if source == "mnist" else ", digits"
        here: Systems = {
            f"{prefix}{name}": (
                titles.get(name, title) + place,
                model,
                {**config, "readout": "mean"}
                | ({"positions": "sinusoid"} if model == "rea" else {}),
            )
            for name, (title, model, config) in kept.items()
        }
        rows += _rows(here, {"source": source, "patch": patch}, batch, size[source])
    title = "Pictures as patches: MNIST in 4 x 4, digits in 2 x 2, accuracy"
    return Experiment("rea_patches", title, "patches", tuple(rows))


def _calls() -> tuple[Experiment, Experiment]:
    """An agent's history: learnt on up to 128 calls, then streamed on longer ones."""
    base = {**NARROW, "causal": True}
    blind = {**base, "state": "none"}
    these: Systems = {
        "rea": ("REA, α from 0.01", "rea", {**base, "alpha_start": 0.01}),
        "rea_slower": ("REA, α from 0.001", "rea", {**base, "alpha_start": 0.001}),
        "window": ("window attention", "rea", blind),
        "full": ("full attention", "rea", {**blind, "attention": "full"}),
        "lstm": ("LSTM", "lstm", {"hidden_size": 26}),
        "sab": ("SAB (5, 5)", "sab", {"hidden_size": 22}),
    }
    task = {"T": 128, "shortest": 0.25}
    train = {**RECIPE, "batch_size": 32, "updates": 1500, "solved_at": 0.999, "test_batches": 16}
    trained = tuple(
        Row(name, title, model, config, task, {**train, "eval_every": 100})
        for name, (title, model, config) in these.items()
    )
    lengths = (32, 64, 128, 256, 512, 1024, 2048, 4096)
    test = {"lengths": lengths, "sequences": 512, "sequences_beyond": 256, "batch_size": 256}
    streamed = tuple(
        dataclasses.replace(
            row,
            title=f"{row.title}, streamed",
            train={},
            transfer={"experiment": "rea_calls", "row": row.name, **test}
            | ({"chunk": max(lengths)} if row.name == "full" else {}),
        )
        for row in trained
    )
    return (
        Experiment(
            "rea_calls", "What did that call return? Histories of 32 to 128", "calls", trained
        ),
        Experiment("rea_stream", "The same, streamed over longer histories", "calls", streamed),
    )


LOGS: tuple[Experiment, ...] = (
    _logs("adfa", 16, 5, 30, "Attacks among system-call traces (ADFA-LD)"),
    _logs("hdfs", 16, 4, 30, "Faulty sessions of a file system (HDFS)"),
    _anomaly(),
    _patches(),
    *_calls(),
)
