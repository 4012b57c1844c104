"""Experiments that check the tables: what was searched for, other rates, more updates, clipping."""

from __future__ import annotations

import dataclasses
from typing import Any

from sab.experiments.profiles import SMALL
from sab.experiments.rows import Experiment, Row
from sab.experiments.table_rows import ADDING, lstm_row, sab_row


def _search() -> Experiment:
    """The same small search for SAB and for each baseline."""
    models = {
        "sab_5_5": ("sab", {"k_trunc": 5, "k_top": 5}),
        "lstm": ("lstm", {}),
        "attentive_lstm": ("attentive_lstm", {}),
        "tbptt_20": ("lstm", {"k_trunc": 20}),
    }
    rows = [
        Row(
            f"{name}_lr{lr:g}_clip{clip:g}",
            f"{name}, lr {lr:g}, clip {clip:g}",
            model,
            config,
            {"T": 100},
            {"updates": 1500, "lr": lr, "clip": clip, "schedule": "constant"},
            seeds=1,
        )
        for name, (model, config) in models.items()
        for lr in (1e-3, 3e-3, 1e-2)
        for clip in (0.1, 1.0)
    ]
    title = "Search for what the paper leaves open: copy, T=100, 1,500 updates"
    return Experiment("search", title, "copy", tuple(rows))


def _longer() -> Experiment:
    """The table's LSTM is still rising when its updates end: how far does it come with more?"""
    row = lstm_row(100, seeds=1)
    title = f"{row.title}, 30,000 updates"
    row = dataclasses.replace(row, title=title, train={"updates": 30_000})
    return Experiment("longer", "Copy, T=100: the LSTM with four times the updates", "copy", (row,))


def _no_replay() -> Experiment:
    """Table 3's first rows in other cells of `learns`' cross: does the recipe cause their failure?

    The three cells besides the recipe's in which SAB with mental updates ends at 99.9 % or more.
    """
    cells = (("scorer", "softmax", 0), ("states", "softmax", 0), ("states", "margin", 1))
    train = {"updates": 3000, "schedule": "constant", "solved_at": None}
    rows = [
        dataclasses.replace(
            sab_row(5, 5, 100, seeds=1, replay=replay, score_gradient=gradient,
                    short_memory=memory, block_offset=offset),
            name=f"{replay}_{gradient}_{memory}_offset{offset}",
            title=f"SAB (5, 5), replay {replay}, gradient into the {gradient}, {memory} while "
            f"short, block offset {offset}",
            train=train,
        )
        for replay in ("none", "write_step")
        for gradient, memory, offset in cells
    ]  # fmt: skip
    title = "Copy, T=100, without mental updates: other settings than the recipe's"
    return Experiment("no_replay", title, "copy", tuple(rows))


def _adding_rate() -> Experiment:
    """SAB and the LSTM again, with the learning rate that the paper states for this task."""
    slow = {"updates": ADDING, "solved_at": None, "eval_every": 100, "lr": 1e-3}
    rows = (sab_row(10, 10, 200), lstm_row(200))
    same = tuple(
        dataclasses.replace(row, title=f"{row.title}, lr 0.001", train=slow, seeds=1)
        for row in rows
    )
    title = "Adding, T=200, at the paper's learning rate of 0.001"
    return Experiment("adding_rate", title, "adding", same)


def _adding_offset() -> Experiment:
    """SAB's rows again with blocks that end with the sequence.

    With block offset 0 the last step, which alone has a loss, is a block of its own.
    """
    train = {"updates": ADDING, "solved_at": None, "eval_every": 100}
    rows = tuple(
        dataclasses.replace(row, title=f"{row.title}, block offset 1", train=train, seeds=2)
        for row in (
            sab_row(10, 10, 200, block_offset=1),
            sab_row(10, 10, 200, "write_step", replay="write_step", block_offset=1),
            sab_row(10, 10, 200, "none", replay="none", block_offset=1),
        )
    )
    return Experiment("adding_offset", "Adding, T=200, block offset 1", "adding", rows)


def _adding_replay() -> Experiment:
    """What mental updates are worth on adding, at chapter 10's live size: T=50, 64 units.

    ``never`` writes its first memory at the last step, too late to be read: SAB's cell alone.
    With block offset 0 the last step, the only one with a loss, opens a block of its own: the chain
    is taught by that step alone. With offset 1 it closes a block, as TBPTT-5's does.
    """
    train = {"updates": 1200, "batch_size": 32, "eval_every": 100, "solved_at": None}
    slow = {"lr": 1e-3}
    rows: tuple[tuple[str, str, str, dict[str, Any], dict[str, Any]], ...] = (
        *(
            (f"{name}{suffix}", f"SAB (5, 5){said}{where}", "sab", {**switch, **offset}, {})
            for suffix, where, offset in (
                ("", "", {}),
                ("_offset1", ", block offset 1", {"block_offset": 1}),
            )
            for name, said, switch in (
                ("full", "", {}),
                ("write_step", ", the writing step is taught", {"replay": "write_step"}),
                ("none", ", nothing is taught", {"replay": "none"}),
                ("never", ", no memory", {"k_att": 50}),
            )
        ),
        ("tbptt_5", "LSTM, TBPTT-5", "lstm", {}, {}),
        ("full_slow", "SAB (5, 5), lr 0.001", "sab", {}, slow),
        ("none_slow", "SAB (5, 5), nothing is taught, lr 0.001", "sab", {"replay": "none"}, slow),
    )
    return Experiment(
        "adding_replay",
        "Adding, T=50: what mental updates are worth",
        "adding",
        tuple(
            Row(
                name,
                title,
                model,
                {
                    "hidden_size": 64,
                    "k_trunc": 5,
                    **({"k_top": 5} if model == "sab" else {}),
                    **config,
                },
                {"T": 50},
                {**train, **recipe},
                3,
                scales=SMALL,
            )
            for name, title, model, config, recipe in rows
        ),
    )


def _clipping(name: str, task: str, T: int) -> Experiment:
    """The gradient's norm with and without clipping (paper, section 8.1), short runs."""
    models: dict[str, tuple[str, dict[str, Any]]] = {
        "sab": ("sab", {}),
        "sab_states": ("sab", {"score_gradient": "states"}),
        "lstm": ("lstm", {}),
    }
    train = {"updates": 800, "schedule": "constant", "solved_at": None, "eval_every": 40}
    rows = [
        Row(
            f"{model}_{'noclip' if clip is None else f'clip{clip:g}'}",
            f"{model}, {'not clipped' if clip is None else f'clipped to {clip:g}'}",
            kind,
            config,
            {"T": T},
            {**train, "clip": clip},
            seeds=1,
        )
        for model, (kind, config) in models.items()
        for clip in (0.1, None)
    ]
    return Experiment(
        name, f"Clipping (section 8.1): {task}, T={T}, 800 updates", task, tuple(rows)
    )


CHECKS: tuple[Experiment, ...] = (
    _search(),
    _longer(),
    _no_replay(),
    _adding_rate(),
    _adding_offset(),
    _adding_replay(),
    _clipping("clipping", "copy", 20),
    _clipping("clipping_adding", "adding", 50),
)
