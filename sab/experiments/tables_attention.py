"""Experiments on attention and external memory: what the second part's chapters show."""

from __future__ import annotations

import dataclasses

from sab.experiments.profiles import SMALL, SMOKE_TRAIN
from sab.experiments.rows import Experiment, Row

# The norm is clipped at 2, as Vinyals et al. 2015 do (section 4.1); the rest was not searched for.
DATES: dict[str, object] = {"embed_size": 32, "hidden_size": 64, "longest": 11}
POINTING = {"lr": 4e-3, "clip": 2.0, "batch_size": 128, "schedule": "cosine", "lr_factor": 0.02}


def _sorting() -> Experiment:
    rows = tuple(
        Row(
            f"pointer_N{length}",
            f"pointer network, {length} numbers",
            "pointer",
            {"hidden_size": 64},
            {"length": length},
            {**POINTING, "updates": updates, "solved_at": None},
            seeds=2,
        )
        for length, updates in ((5, 2000), (10, 3000))
    )
    return Experiment("sorting", "Sorting numbers by pointing at them", "sorting", rows)


def _hull() -> Experiment:
    rows = tuple(
        Row(
            f"pointer_N{length}",
            f"pointer network, {length} points",
            "pointer",
            {"hidden_size": 64},
            {"length": length},
            {**POINTING, "lr": 3e-3, "updates": 7000, "solved_at": None},
            seeds=seeds,
        )
        for length, seeds in ((5, 2), (10, 1))
    )
    return Experiment("hull", "The planar convex hull by pointing", "hull", rows)


def _dates() -> Experiment:
    train = {"lr": 5e-3, "clip": 1.0, "batch_size": 64, "schedule": "cosine", "lr_factor": 0.02}
    train |= {"updates": 300, "eval_every": 50, "solved_at": None}
    rows = tuple(
        Row(name, title, "seq2seq", {**DATES, "attention": attention}, {}, train, seeds=2)
        for name, title, attention in (
            ("attention", "GRU encoder-decoder with attention", True),
            ("one_vector", "GRU encoder-decoder, one vector for the whole source", False),
        )
    )
    return Experiment("dates", "Dates in words to ISO 8601", "dates", rows)


def _short(name: str, title: str, task: str, row: Row) -> Experiment:
    """The minute's training of a chapter's live cell, with seeds."""
    return Experiment(name, title, task, (dataclasses.replace(row, seeds=3, scales=SMALL),))


def _dates_short() -> Experiment:
    train = {"lr": 0.01, "clip": 1.0, "batch_size": 48, "schedule": "constant", "updates": 120}
    train |= {"eval_every": 20, "log_every": 10, "solved_at": None}
    row = Row("attention", "looks back, 120 updates", "seq2seq", DATES, {}, train)
    return _short("dates_short", "Dates to ISO 8601, a first look", "dates", row)


def _sorting_short() -> Experiment:
    train = {"lr": 0.01, "clip": 2.0, "batch_size": 64, "schedule": "constant", "updates": 250}
    train |= {"eval_every": 25, "log_every": 10, "solved_at": None}
    title = "pointer network, 32 units, 250 updates"
    row = Row("pointer_N5", title, "pointer", {"hidden_size": 32}, {"length": 5}, train)
    return _short("sorting_short", "Sorting five numbers, a first look", "sorting", row)


def _multi30k() -> Experiment:
    model = {"embed_size": 128, "hidden_size": 160, "longest": 40, "dropout": 0.2}
    train = {"lr": 2e-3, "clip": 1.0, "batch_size": 64, "schedule": "cosine", "lr_factor": 0.05}
    train |= {"updates": 2250, "eval_every": 450, "solved_at": None}  # about five epochs
    small = {"train": SMOKE_TRAIN, "model": {**model, "hidden_size": 16, "embed_size": 16}}
    row = Row(
        "attention",
        "GRU encoder-decoder with attention, 3,000 words a language",
        "seq2seq",
        model,
        {"words": 3000},
        train,
        seeds=1,
        scales={"smoke": small},
    )
    return Experiment("multi30k", "Multi30k, English to German", "translation", (row,))


def _lookup() -> Experiment:
    """Soft attention by the chain rule, hard attention by trial and error."""
    train = {"lr": 0.01, "clip": None, "batch_size": 64, "schedule": "constant", "updates": 200}
    train |= {"eval_every": 10, "log_every": 10, "solved_at": None}
    hard = {"mode": "hard"}
    rows = tuple(
        Row(name, title, "lookup", config, {"items": 12}, train, seeds=3, scales=SMALL)
        for name, title, config in (
            ("soft", "soft", {}),
            ("hard_plain", "hard, rewards 0 and 1", {**hard, "baseline": False}),
            ("hard_base", "hard, 10 and 11, baseline", {**hard, "offset": 10.0}),
            (
                "hard_none",
                "hard, 10 and 11, no baseline",
                {**hard, "baseline": False, "offset": 10.0},
            ),
        )
    )
    return Experiment("lookup", "Soft and hard attention on one question", "lookup", rows)


def _reversal() -> Experiment:
    """What positions are good for: the same small Transformer with two kinds and with none."""
    train = {"lr": 5e-3, "clip": None, "batch_size": 32, "schedule": "constant", "updates": 400}
    train |= {"eval_every": 50, "log_every": 25, "solved_at": None}
    rows = tuple(
        Row(name, f"positions: {name}", "transcriber", {"positions": name, "longest": 8}, {}, train,
            seeds=3, scales=SMALL)
        for name in ("sinusoidal", "learned", "none")
    )  # fmt: skip
    return Experiment("reversal", "Reversing six digits", "reversal", rows)


ATTENTION = (
    _sorting(),
    _hull(),
    _dates(),
    _multi30k(),
    _lookup(),
    _reversal(),
    _dates_short(),
    _sorting_short(),
)
