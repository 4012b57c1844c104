"""The committed measurements against what the fast forms are meant to reach on two CPU threads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).parents[2] / "results" / "bench"


def record(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((BENCH / f"{name}.json").read_text(encoding="utf-8"))
    assert found["header"]["machine"]["threads"] == 2, name
    return found


def step(name: str) -> dict[str, dict[str, Any]]:
    """One training step's rows by form: length 300, batch 64, 128 units, (5, 5), k_att 2."""
    rows = {row["form"]: row for row in record(name)["rows"] if row["length"] == 300}
    for row in rows.values():
        sizes = [row[key] for key in ("batch", "hidden", "k_top", "k_trunc", "k_att", "mode")]
        assert sizes == [64, 128, 5, 5, 2, "train"]
    return rows


@pytest.mark.parametrize(("name", "most"), [("scan-random", 1.5), ("scan-copy", 1.3)])
def test_a_training_step_beside_the_lstm(name: str, most: float) -> None:
    rows = step(name)
    assert rows["cpp"]["ms_median"] <= most * rows["lstm"]["ms_median"]
    assert (rows["cpp"]["weights"] == "trained") is (name == "scan-copy")


@pytest.mark.parametrize(("form", "least"), [("cpp", 15), ("torch", 4)])
def test_a_training_step_beside_the_released_algorithm(form: str, least: float) -> None:
    rows = step("scan-random")
    assert rows["released"]["ms_median"] >= least * rows[form]["ms_median"]


def test_peak_memory_beside_the_released_algorithm() -> None:
    rows = step("scan-random")
    assert 10 * rows["cpp"]["peak_mb"] <= rows["released"]["peak_mb"]


def test_long_copy_is_evaluated_in_a_minute() -> None:
    """T=5000, batch 32, trained weights, a process of its own: time and peak memory."""
    (row,) = (row for row in record("scaling")["evaluation"] if row["length"] == 5000)
    assert (row["batch"], row["input"], row["weights"]) == (32, "copy", "trained")
    assert row["seconds"] < 60
    assert row["peak_mb"] < 2000


def test_a_long_sequence_is_streamed() -> None:
    """20,000 steps carrying the state; what stays is the memories and their keys."""
    rows = {row["form"]: row for row in record("scaling")["streaming"]}
    row = rows["cpp"]
    assert row["steps_done"][-1] == 20000
    held = 2 * 8 * 20000 // 2 * 128 * 4 / 1e6  # two floats a unit, of every second step
    assert row["peak_mb"] - row["resident_mb"][0] < 5 * held


def test_a_training_step_at_the_size_of_the_language_model() -> None:
    """SAB (20, 10, 20), 1,000 units, batch 32, length 100, beside the LSTM."""
    rows = {row["form"]: row for row in record("language")["rows"]}
    for row in rows.values():
        sizes = [row[key] for key in ("batch", "hidden", "length", "k_top", "k_trunc", "k_att")]
        assert sizes == [32, 1000, 100, 10, 20, 20]
    assert rows["cpp"]["ms_median"] <= 1.5 * rows["lstm"]["ms_median"]
