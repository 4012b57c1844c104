"""Experiments on external memories: what the chapter on them shows.

None of the settings was searched for beyond a trial or two; they are the same for all rows of a
table where nothing else is said.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from sab.experiments.profiles import SMALL
from sab.experiments.rows import Experiment, Row

# Adam where the paper has RMSprop; heads start on the first slot.
BITS: dict[str, Any] = {
    "lr": 3e-3,
    "clip": 1.0,
    "batch_size": 16,
    "schedule": "constant",
    "eval_every": 100,
    "test_batches": 32,
    "solved_at": 0.9995,
}
FEEDFORWARD = {"controller": "feedforward"}
# 10 % of the questions held out, width 20, 32 at a time: Sukhbaatar et al. 2015, section 4.2. Adam
# and a fixed number of updates instead of their schedule.
STORIES: dict[str, Any] = {
    "lr": 1e-2,
    "clip": 1.0,
    "batch_size": 32,
    "schedule": "cosine",
    "lr_factor": 0.02,
    "eval_every": 50,
    "solved_at": None,
    "updates": 1500,
}
LINEAR = 500  # updates without softmax


def _copy() -> Experiment:
    ntm = {"slots": 128, "width": 16}
    rows = (
        Row("ntm_lstm", "NTM, LSTM", "ntm", ntm, {}, {}, 3),
        Row("ntm_feedforward", "NTM, feed-forward", "ntm", {**ntm, **FEEDFORWARD}, {}, {}, 1),
        Row("dnc", "DNC, feed-forward", "dnc", FEEDFORWARD, {}, {}, 1),
        Row("lstm", "LSTM alone", "lstm", {"hidden_size": 128}, {}, {}, 1),
    )
    return Experiment("bits_copy", "Copying 1 to 20 random vectors", "bits_copy", _with(rows, 2000))


def _copy_short() -> Experiment:
    """The chapter's live machine, whose controller has no state, with seeds."""
    model = {"hidden_size": 64, "slots": 20, "width": 12, **FEEDFORWARD}
    train = {**BITS, "lr": 1e-2, "schedule": "cosine", "lr_factor": 0.02, "updates": 400}
    train |= {"eval_every": 50, "log_every": 10, "solved_at": None}
    title = "NTM, feed-forward, 20 slots, 400 updates"
    row = Row("ntm_feedforward", title, "ntm", model, {"T": 8}, train, 3, scales=SMALL)
    return Experiment("bits_copy_short", "Copying 1 to 8 random vectors", "bits_copy", (row,))


def _sort() -> Experiment:
    rows = (
        Row("ntm_lstm", "NTM, LSTM", "ntm", {"slots": 32, "width": 16}, {}, {}, 1),
        Row("lstm", "LSTM alone", "lstm", {"hidden_size": 128}, {}, {}, 1),
    )
    short = _with(rows, 2000)
    long = {**BITS, "lr": 1e-2, "schedule": "cosine", "lr_factor": 0.02, "updates": 8000}
    longer = dataclasses.replace(
        short[0], name="ntm_lstm_long", title="NTM, LSTM, 8,000 updates, lr 0.01", train=long
    )
    title = "Sorting 8 vectors by priority"
    return Experiment("bits_sort", title, "bits_sort", (*short, longer))


def _recall() -> Experiment:
    rows = (
        Row("ntm_lstm", "NTM, LSTM", "ntm", {"slots": 32, "width": 16}, {}, {}, 1),
        Row("lstm", "LSTM alone", "lstm", {"hidden_size": 128}, {}, {}, 1),
    )
    short = _with(rows, 2000)
    more = {**BITS, "updates": 10_000}
    longer = [
        dataclasses.replace(
            row, name=f"{row.name}_long", title=f"{row.title}, 10,000 updates", train=more
        )
        for row in short
    ]
    title = "Recalling what came after an item, 2 to 6 items"
    return Experiment("bits_recall", title, "bits_recall", (*short, *longer))


def _with(rows: tuple[Row, ...], updates: int) -> tuple[Row, ...]:
    """The rows with the common recipe."""
    train = {**BITS, "updates": updates}
    return tuple(dataclasses.replace(row, train=train) for row in rows)


def _story(name: str, title: str, task: int, seeds: int, **model: Any) -> Row:
    """A memory network on a bAbI task; two facts and more are learned with a linear start."""
    far = task in (2, 3)
    settings = {"hops": 3, "linear_start": LINEAR if far else 0, **model}
    train = {**STORIES, "updates": 1500 if far else 1000}
    return Row(name, f"task {task}, {title}", "memn2n", settings, {"task": task}, train, seeds)


def _babi() -> Experiment:
    rows = [_story(f"task{task}", "3 hops", task, 3) for task in (1, 2, 3, 4, 16)]
    rows += [
        _story("task1_linear", "3 hops, linear start", 1, 1, linear_start=LINEAR),
        _story("task2_softmax", "3 hops, softmax from the start", 2, 1, linear_start=0),
        _story("task2_one_hop", "1 hop", 2, 1, hops=1),
        _story("task2_layerwise", "3 hops, tied layer-wise", 2, 1, tying="layerwise"),
        _story("task4_bag", "3 hops, word order ignored", 4, 1, encoding="bag"),
    ]
    return Experiment("babi", "Questions about stories (bAbI en-1k)", "babi", tuple(rows))


def _two_facts() -> Experiment:
    """Hops and the linear start, on stories made here."""
    task = {"world": "two facts", "memory": 25}
    train = {**STORIES, "updates": 800, "eval_every": 50}
    rows = tuple(
        Row(name, title, "memn2n", {"hops": hops, "linear_start": linear}, task, train, seeds=3)
        for name, title, hops, linear in (
            ("one_hop", "1 hop", 1, 250),
            ("two_hops", "2 hops", 2, 250),
            ("three_hops", "3 hops", 3, 250),
            ("three_hops_softmax", "3 hops, softmax from the start", 3, 0),
        )
    )
    title = "Made questions that need two facts"
    return Experiment("two_facts", title, "babi", rows)


def _digits_memory() -> Experiment:
    """A Hopfield layer as the memory of a classifier: its training pictures, looked up."""
    train = {"lr": 0.01, "clip": None, "batch_size": 128, "schedule": "constant", "updates": 150}
    train |= {"eval_every": 25, "solved_at": None}
    row = Row(
        "hopfield",
        "a look-up among the training pictures",
        "hopfield",
        {},
        {"source": "digits", "order": "pixel"},
        train,
        seeds=3,
        scales=SMALL,
    )
    title = "Digits of 8 x 8 pixels, told by those they resemble"
    return Experiment("digits_memory", title, "images", (row,))


MEMORY = (
    _copy(),
    _copy_short(),
    _sort(),
    _recall(),
    _babi(),
    _two_facts(),
    _digits_memory(),
)
