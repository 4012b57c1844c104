"""Which runs make the tables of Part III: REA (Recursive Embedding Attention) on event logs.

The source gives no learning rate, no width and no read-out. Ours: Adam at 3e-3, clipped at 1, two
blocks, and both read-outs, from the last position and from the mean of all. Shorter logs have a
key event that is as many times more frequent, so that the base rate stays the source's 72 %:
``rea_quick`` has 128 events, ``rea_table`` 256, ``rea_table_1024`` the source's 1,024. On two cores
blocks are 16 wide, ``rea_table`` is left to the profile ``paper``, and of ``rea_table_1024`` only
those rows run that a claim or a chapter reads.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from sab.experiments.rows import Experiment, Row
from sab.models.rea_listing import FIXES

TRAIN: dict[str, Any] = {
    "updates": 1000,
    "batch_size": 32,
    "lr": 3e-3,
    "clip": 1.0,
    "schedule": "cosine",
    "eval_every": 100,
    "test_batches": 64,
}
QUICK = {"T": 128, "rate": 0.04}
HALF = {"T": 64, "rate": 0.07717}
"""Short enough that REA with a slow state solves it: what a change costs or saves shows."""
SHORT = {"T": 256, "rate": 0.02}
SOURCE = {"T": 1024, "rate": 0.005}
REA: dict[str, Any] = {"hidden_size": 32, "layers": 2, "heads": 4, "window": 16}
SLOW = 0.005
"""An α that keeps a third of an event over 200 steps; at 0.1 nothing is left."""
NARROW: dict[str, Any] = {**REA, "hidden_size": 16, "window": 8}
SHORTER: dict[str, Any] = {"batch_size": 16, "updates": 1600}
"""Blocks, batch and budget of ``rea_quick``, shared by the tables that vary one thing."""

Systems = dict[str, tuple[str, str, dict[str, Any]]]


def systems(width: int, alone: int, bilstm: int, slow: float = SLOW, **more: Any) -> Systems:
    """Systems of about as many parameters: name → title, model, settings.

    Args:
        width: of the systems with attention.
        alone: of those without.
        bilstm: of each direction of the BiLSTM.
        slow: α at the start that suits the length.
        **more: settings of all but the BiLSTM.
    """
    base = {**REA, "hidden_size": width, **more}
    narrow = {**base, "hidden_size": alone, "attention": "none"}
    return {
        "full": ("full attention", "rea", {**base, "attention": "full", "state": "none"}),
        "window": ("window attention", "rea", {**base, "state": "none"}),
        "rea": ("REA, α from 0.1", "rea", base),
        "rea_slow": (f"REA, α from {slow:g}", "rea", {**base, "alpha_start": slow}),
        "gru": ("REA with a GRU state", "rea", {**base, "state": "gru"}),
        "state": (f"state alone, α from {slow:g}", "rea", {**narrow, "alpha_start": slow}),
        "point": ("each position alone", "rea", {**narrow, "state": "none"}),
        "bilstm": ("BiLSTM, two layers", "bilstm", {"hidden_size": bilstm}),
    }


READOUTS = {"last": "each", "mean": "mean"}
ROLES = {"sab": "SAB (5, 5)", "lstm": "LSTM"}


def _row(
    name: str,
    title: str,
    settings: Mapping[str, Any],
    task: Mapping[str, Any],
    model: str = "rea",
    seeds: int = 99,
    **train: Any,
) -> Row:
    """A row on the event log; ``train`` holds what differs from `TRAIN`."""
    return Row(name, title, model, settings, task, {**TRAIN, **train}, seeds)


def _table(
    name: str,
    title: str,
    task: Mapping[str, Any],
    these: Systems,
    recurrent: Mapping[str, int],
    paper: tuple[Systems, Mapping[str, int]] | None = None,
    cpu: Mapping[str, Mapping[str, Any]] | None = None,
    **train: Any,
) -> Experiment:
    """The source's table: every system by both read-outs, recurrent ones by the last position.

    ``paper``: the wider systems, and recurrent ones, of that profile. ``cpu``: rows that this
    profile runs, each with what it changes there; the others only when asked for by name.
    """
    rows = [
        _row(f"{key}_{shown}", f"{words}, read {shown}", {**config, "readout": kind}, task, model,
             **train)
        for shown, kind in READOUTS.items()
        for key, (words, model, config) in these.items()
    ]  # fmt: skip
    rows += [
        _row(f"{key}_last", f"{ROLES[key]}, read last", {"hidden_size": n}, task, key, **train)
        for key, n in recurrent.items()
    ]
    if paper is not None:
        wide = {key: config["hidden_size"] for key, (_, _, config) in paper[0].items()}
        wide |= paper[1]
        rows = [
            dataclasses.replace(row, scales={"paper": _wider(wide[row.name.rpartition("_")[0]])})
            for row in rows
        ]
    if cpu is not None:
        rows = [
            dataclasses.replace(row, scales={**row.scales, "cpu": cpu.get(row.name, {"seeds": 0})})
            for row in rows
        ]
    return Experiment(name, title, "events", tuple(rows))


def _wider(hidden: int) -> dict[str, dict[str, Any]]:
    """The profile ``paper`` of a row that is narrow on two cores."""
    train = {"batch_size": TRAIN["batch_size"], "updates": 2 * TRAIN["updates"]}
    return {"train": train, "model": {"hidden_size": hidden}}


def _windows() -> Experiment:
    """The window's size, with and without a state."""
    rows = [
        _row(
            f"{state}_w{window}",
            f"{'REA' if state == 'linear' else 'window alone'}, window {window}",
            {**NARROW, "window": window, "state": state, "alpha_start": 0.01},
            HALF,
            **SHORTER,
        )
        for window in (4, 16, 64)
        for state in ("linear", "none")
    ]
    return Experiment("rea_window", "The window's size: events, read last", "events", tuple(rows))


def _ablation() -> Experiment:
    """One switch at a time, from REA with a slow state, read at the last position."""
    base: dict[str, Any] = {**NARROW, "alpha_start": 0.01}

    def row(name: str, title: str, task: Mapping[str, Any] = HALF, **change: Any) -> Row:
        return _row(name, title, {**base, **change}, task, **SHORTER)

    padded: dict[str, Any] = {**HALF, "shortest": 0.25, "read_at": "row_end"}
    listing: dict[str, Any] = {"layer": "listing", "norm": False}
    hold = {"padding": "zero_rows"}
    rows = (
        row("base", "REA, α from 0.01, gate from 0.02"),
        row("gate_half", "gate from 0.5", gate_start=0.5),
        row("no_norm", "state not normalised", state_norm=False),
        row("quarter", "state a quarter as wide", state_size=4),
        row("gru", "GRU in place of the average", state="gru"),
        row("listing", "the listing as written", **listing),
        row("listing_mended", "the listing, all mended", **listing, fixes=FIXES),
        row("padded", "lengths 16–64, padding handled", padded, **hold),
        row("padded_unseen", "lengths 16–64, padding read as input", padded),
    )
    return Experiment("rea_ablation", "REA: one switch at a time, events", "events", rows)


def _alpha() -> Experiment:
    """α at the start against the length of the log."""
    rows = [
        _row(
            f"a{alpha:g}_T{T}",
            f"α from {alpha:g}, {T} events",
            {**NARROW, "alpha_start": alpha},
            {"T": T, "rate": round(1 - 0.2766 ** (4 / T), 5)},
            **{**SHORTER, "updates": 2500},
        )
        for T in (32, 64, 128)
        for alpha in (0.005, 0.1, 0.5)
    ]
    title = "α at the start against the length: events, read last"
    return Experiment("rea_alpha", title, "events", tuple(rows))


def _depth() -> Experiment:
    """Six layers, with and without the cures of sections 5.1 and 5.4, one at a time.

    At a rate at which the layers as written diverge; at a third of it they do not.
    """
    deep: dict[str, Any] = {
        **NARROW,
        "layers": 6,
        "layer": "listing",
        "norm": False,
        "readout": "mean",
    }
    train: dict[str, Any] = {
        "batch_size": 16,
        "updates": 1000,
        "solved_at": None,
        "clip": 1e9,
        "schedule": "constant",
        "lr": 3e-2,
    }
    rows = [
        _row(name, title, {**deep, **change}, HALF, **{**train, **more})
        for name, title, change, more in (
            ("written", "six layers as written, no clipping", {}, {}),
            ("normed", "state normalised", {"fixes": ("norm",)}, {}),
            ("clipped", "gradient clipped at 1", {}, {"clip": 1.0}),
            ("gated", "gate from 0.02", {"fixes": ("gate",)}, {}),
            ("slower", "α from 0.1", {"fixes": ("alpha",)}, {}),
            ("blocks", "normalised blocks", {"norm": True}, {}),
            ("written_lr2", "as written, lr 1e-2", {}, {"lr": 1e-2}),
        )
    ]
    return Experiment("rea_depth", "Six layers: does it diverge?", "events", tuple(rows))


def _beside_sab(task: str, T: int) -> Experiment:
    """What a summary can do and a recall can, on a task of Part I."""
    causal = {**REA, "hidden_size": 64, "causal": True, "positions": "sinusoid"}
    systems = {
        "rea": ("REA", "rea", {**causal, "alpha_start": 0.02}),
        "window": ("window attention", "rea", {**causal, "state": "none"}),
        "full": ("full attention", "rea", {**causal, "attention": "full", "state": "none"}),
        "sab": ("SAB (5, 5)", "sab", {}),
    }
    train = {**TRAIN, "updates": 2000, "solved_at": None if task == "adding" else 0.999}
    own = {"sab": {"lr": 1e-2, "clip": 0.1}}  # each by the recipe that was found for it
    rows = [
        Row(f"{name}_T{T}", f"{words}, T={T}", model, config, {"T": T},
            {**train, **own.get(name, {})})
        for name, (words, model, config) in systems.items()
    ]  # fmt: skip
    return Experiment(f"rea_{task}", f"REA beside SAB: {task}, T={T}", task, tuple(rows))


_FULL = systems(32, 40, 23)
_NEAR = {"sab": 52, "lstm": 60}
_SOURCE_CPU: dict[str, dict[str, Any]] = {
    **{f"{key}_mean": {} for key in ("full", "window", "rea", "rea_slow")},
    **{f"{key}_last": {} for key in ("full", "rea_slow")},
    # Slow, and read for the time of its updates alone.
    "gru_mean": {"seeds": 1, "train": {"updates": 100}},
}
TABLES = (
    _table(
        "rea_quick",
        "REA's table at an eighth of its length: events",
        QUICK,
        systems(16, 20, 10, 0.01, window=8),
        {"sab": 22, "lstm": 25},
        **SHORTER,
    ),
    _table(
        "rea_table",
        "REA's table at a quarter of its length: events",
        SHORT,
        _FULL,
        _NEAR,
        cpu={},
    ),
    _table(
        "rea_table_1024",
        "REA's table at its own length: events",
        SOURCE,
        systems(16, 20, 10, 0.002),
        {"sab": 22, "lstm": 25},
        (systems(32, 40, 23, 0.002), _NEAR),
        _SOURCE_CPU,
        batch_size=16,
        updates=800,
    ),
    _windows(),
    _ablation(),
    _alpha(),
    _depth(),
    _beside_sab("copy", 50),
    _beside_sab("adding", 100),
)
