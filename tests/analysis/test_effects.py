"""Effects of switches from records: means, norms, and the arithmetic of a full design."""

import math
from typing import Any

import pytest

from sab.analysis.effects import Effect, effect, factor_effects, typical_norm
from sab.experiments.records import Record
from sab.experiments.rows import Row

ROW = Row("a", "the switch", "sab")


def record(seed: int, accuracy: float, norms: list[float | None], **more: Any) -> Record:
    history = [{"update": 10 * i, "accuracy": accuracy / (i + 1), "grad_norm": norm}
               for i, norm in enumerate(norms)]  # fmt: skip
    metrics = {"accuracy": accuracy, "grad_norm_max": 100.0 * (seed + 1), "updates": 30.0}
    settings = {"experiment": "learns", "row": "a", "profile": "cpu", **more}
    return Record(
        config={}, seed=seed, metrics=metrics, history=history, machine={}, seconds=2.0,
        peak_mb=1.0, **settings,
    )  # fmt: skip


def test_means_over_seeds_and_norms_over_training() -> None:
    found = [record(0, 0.5, [None, 1.0, 3.0, 50.0]), record(1, 0.75, [None, 5.0, 5.0, 5.0])]
    other = record(0, 0.1, [1.0], row="b")
    got = effect(ROW, [*found, other])
    assert (got.n, got.accuracy, got.lowest, got.highest) == (2, 0.625, 0.5, 0.75)
    assert got.best == 0.625 and got.norm == 4.0 and got.norm_max == 200.0
    assert got.updates == 30 and got.seconds == 4.0


def test_a_typical_norm_of_an_even_number_lies_between_the_two_in_the_middle() -> None:
    assert typical_norm(record(0, 0.5, [None, 1.0, 3.0, 7.0, 50.0])) == 5.0
    assert typical_norm(record(0, 0.5, [None, 1.0, 3.0, 50.0])) == 3.0
    assert math.isnan(typical_norm(record(0, 0.5, [None])))


def test_a_row_without_records_is_said_to_have_none() -> None:
    assert effect(ROW, []) == Effect("a", "the switch")
    with pytest.raises(ValueError, match="cpu, smoke"):
        effect(ROW, [record(0, 0.5, [1.0]), record(0, 0.5, [1.0], profile="smoke")])


def test_effects_of_a_design_give_back_what_was_put_in() -> None:
    def value(a: int, b: int, c: int) -> float:
        return 50 + 10 * a - 3 * b + 2 * a * b + 0.5 * a * b * c

    values: dict[tuple[str, ...], float] = {
        (str(a), str(b), str(c)): value(a, b, c)
        for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)
    }  # fmt: skip
    got = factor_effects(values)
    want = {(0,): 20, (1,): -6, (2,): 0, (0, 1): 4, (0, 2): 0, (1, 2): 0, (0, 1, 2): 1}
    assert got == pytest.approx(want)
    assert list(got)[:3] == [(0,), (1,), (2,)]


def test_a_design_must_be_whole() -> None:
    with pytest.raises(ValueError, match="every combination"):
        factor_effects({("a", "x"): 1.0, ("b", "x"): 1.0, ("a", "y"): 2.0})
    with pytest.raises(ValueError, match="two"):
        factor_effects({("a",): 1.0, ("b",): 1.0, ("c",): 1.0})
    with pytest.raises(ValueError, match="same factors"):
        factor_effects({})
