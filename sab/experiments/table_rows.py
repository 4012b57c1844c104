"""Rows that several tables share: SAB and the LSTM on copy, with the budget of their delay."""

from __future__ import annotations

import dataclasses
from typing import Any

from sab.experiments.rows import Row
from sab.models.sab import SABConfig

ADDING = 2000  # updates of every row of the adding table
BUDGET = {20: 8000, 100: 7000, 200: 8000, 300: 9000}  # updates by T


def preset(config: SABConfig, **changes: Any) -> dict[str, Any]:
    """The fields in which a preset differs from the recipe's defaults, then ``changes``."""
    default = SABConfig()
    names = [item.name for item in dataclasses.fields(config)]
    changed = {n: getattr(config, n) for n in names if getattr(config, n) != getattr(default, n)}
    return {**changed, **changes}


# How a row's note reads in its title, where the name alone would not explain it.
NOTES = {
    "none": "without mental updates (nothing)",
    "write_step": "without mental updates (the writing step)",
}


def sab_row(k_trunc: int, k_top: int, T: int, note: str = "", seeds: int = 99, **more: Any) -> Row:
    """A SAB row of a copy table; ``more`` are model settings."""
    suffix = f"_{note}" if note else ""
    return Row(
        f"sab_{k_trunc}_{k_top}{suffix}_T{T}",
        f"SAB ({k_trunc}, {k_top}){' ' + NOTES.get(note, note) if note else ''}, T={T}",
        "sab",
        {"k_trunc": k_trunc, "k_top": k_top, **more},
        {"T": T},
        {"updates": BUDGET.get(T, 5000)},
        seeds,
    )


def lstm_row(T: int, k_trunc: int | None = None, model: str = "lstm", seeds: int = 99) -> Row:
    """A row of the LSTM, with or without self-attention, by full or truncated backpropagation."""
    name = {"lstm": "lstm", "attentive_lstm": "attentive_lstm"}[model]
    title = {"lstm": "LSTM", "attentive_lstm": "LSTM + full self-attention"}[model]
    if k_trunc is not None:
        name, title = f"tbptt_{k_trunc}", f"{title}, TBPTT-{k_trunc}"
    config = {} if k_trunc is None else {"k_trunc": k_trunc}
    train = {"updates": BUDGET.get(T, 5000)}
    bptt = ", full BPTT" if k_trunc is None else ""
    return Row(f"{name}_T{T}", f"{title}{bptt}, T={T}", model, config, {"T": T}, train, seeds)
