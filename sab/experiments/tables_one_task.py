"""One task, many memories: every system on copy and on recall, at the same budget.

The same parameters (the LSTM's, within 15 %), the same updates, batches and schedule, and the same
small search: two learning rates each. Which one counts is decided on held-out data.
"""

from __future__ import annotations

from typing import Any

from sab.experiments.profiles import SMALL
from sab.experiments.rows import Experiment, Row

LEARNING_RATES = (3e-3, 1e-2)
BUDGET = {"updates": 2000, "schedule": "cosine", "lr_factor": 0.02, "solved_at": None}

SYSTEMS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "lstm": ("LSTM", "lstm", {"hidden_size": 64}),
    "sab": ("SAB (5, 5)", "sab", {"hidden_size": 54, "k_trunc": 5, "k_top": 5}),
    "sab_2": ("SAB (5, 2)", "sab", {"hidden_size": 54, "k_trunc": 5, "k_top": 2}),
    "dense": ("LSTM with attention to every past state", "attentive_lstm", {"hidden_size": 54}),
    "reader": ("LSTM, its states read in two hops", "memory_reader", {"hidden_size": 54}),
    "transformer": (
        "causal Transformer, two layers",
        "transformer",
        {"hidden_size": 28, "layers": 2, "causal": True},
    ),
    "ntm": ("neural Turing machine", "ntm", {"hidden_size": 50, "slots": 32, "width": 16}),
}


def _experiment(name: str, title: str, task: str, settings: dict[str, Any]) -> Experiment:
    rows = tuple(
        Row(
            f"{system}_lr{lr:g}",
            f"{label}, lr {lr:g}",
            model,
            config,
            settings,
            {**BUDGET, "lr": lr},
            seeds=1,
        )
        for system, (label, model, config) in SYSTEMS.items()
        for lr in LEARNING_RATES
    )
    return Experiment(name, title, task, rows, ("one_task",))


def _binding() -> Experiment:
    """The chapter's live questions with seeds: hops, how many keys, what SAB's two cuts cost."""
    train = {"lr": 0.01, "clip": 1.0, "schedule": "constant", "updates": 400, "eval_every": 25}
    train |= {"log_every": 10, "solved_at": None}
    longer = {**train, "updates": 800}
    sab = {"k_trunc": 5, "k_top": 5}
    few, all_keys = {"pairs": 3, "keys": 6, "values": 4}, {"pairs": 6, "keys": 6, "values": 4}
    rows: tuple[tuple[str, str, str, dict[str, Any], dict[str, int], dict[str, Any]], ...] = (
        ("one_hop", "reader, 1 hop", "memory_reader", {"hops": 1}, few, train),
        ("two_hops", "reader, 2 hops", "memory_reader", {"hops": 2}, few, train),
        ("one_hop_800", "reader, 1 hop, 800 updates", "memory_reader", {"hops": 1}, few, longer),
        (
            "two_hops_six",
            "reader, 2 hops, six of six keys",
            "memory_reader",
            {"hops": 2},
            all_keys,
            train,
        ),
        ("sab", "SAB (5, 5)", "sab", sab, few, {**longer, "clip": 0.1}),
        (
            "sab_whole",
            "SAB, no truncation",
            "sab",
            {**sab, "k_trunc": None},
            few,
            {**longer, "clip": 0.1},
        ),
        (
            "sab_states",
            "SAB, exact gradient of the scorer",
            "sab",
            {**sab, "score_gradient": "states"},
            few,
            {**longer, "clip": 0.1},
        ),
    )
    return Experiment(
        "binding",
        "Recall of three pairs, a first look",
        "recall",
        tuple(
            Row(name, title, model, {"hidden_size": 40, **config}, task, recipe, 3, scales=SMALL)
            for name, title, model, config, task, recipe in rows
        ),
    )


ONE_TASK = (
    _binding(),
    _experiment("one_task_copy", "Many memories on one task: copy, T=20", "copy", {"T": 20}),
    _experiment("one_task_recall", "Many memories on one task: recall", "recall", {"pairs": 6}),
)
