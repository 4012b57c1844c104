"""Scores of rows: grouping, means, and how they are written."""

from __future__ import annotations

import math

from sab.analysis.scores import by_row, lines, mean, told, values
from sab.experiments.records import Record


def record(row: str, seed: int, **metrics: float) -> Record:
    return Record("e", row, {}, seed, "cpu", metrics, [], {}, 1.0, 100.0 + seed)


def test_rows_keep_their_order_and_metrics_may_be_missing() -> None:
    found = [record("b", 0, auc=0.5), record("a", 0, auc=0.7), record("b", 1, auc=0.6),
             record("b", 2)]  # fmt: skip
    rows = by_row(found)
    assert list(rows) == ["b", "a"] and [r.seed for r in rows["b"]] == [0, 1, 2]
    assert values(rows["b"], "auc", 100) == [50.0, 60.0]
    assert values(rows["b"], "peak_mb") == [100.0, 101.0, 102.0]
    assert mean(rows["b"], "auc") == 0.55 and math.isnan(mean(rows["a"], "f1"))


def test_how_a_score_is_written() -> None:
    rows = by_row([record("b", 0, auc=0.5), record("b", 1, auc=0.6), record("a", 0, auc=1234.5)])
    # two seeds 0.1 apart: the mean's half width would be 12.706 times 0.05
    assert told(rows["b"], "auc", 100) == "50.0; 60.0"
    assert told([*rows["b"], *rows["a"]], "seed", 1, 0) == "–"
    same = [record("c", seed, parameters=7604.0) for seed in range(3)]
    assert told(same[:2], "parameters", 1, 0) == told(same, "parameters", 1, 0) == "7,604"
    third = [*rows["b"], record("b", 2, auc=0.7)]
    assert told(third, "auc", 100) == "60.0 ± 24.8"  # 4.303 times 0.1 over the root of 3
    assert told(rows["a"], "auc", 1, 2) == "1,234.50"
    assert told(rows["a"], "f1") == told([], "auc") == "–"


def test_lines_of_a_table_leave_out_what_was_not_run_and_say_so() -> None:
    found = by_row([record("b", 0, auc=0.5, time=0.002), record("a", 0, auc=0.75)])
    rows = [("a", "first"), ("c", "third"), ("b", "second"), ("d", "fourth")]
    made, without = lines(rows, found, [("auc", 100, 1), ("time", 1000, 0)])
    assert made == [("first", "75.0", "–", "1"), ("second", "50.0", "2", "1")]
    assert without == " Not run: third; fourth."
    assert lines(rows[:1], found, [])[1] == ""
