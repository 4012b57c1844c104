"""Accuracy by length from records, and its intervals."""

import pytest

from sab.analysis.transfer import length_curve
from sab.experiments.records import Record
from sab.experiments.statistics import estimate


def record(seed: int, **points: tuple[float, float, int]) -> Record:
    metrics: dict[str, float] = {}
    for name, (accuracy, halfwidth, sequences) in points.items():
        metrics |= {f"accuracy_{name}": accuracy, f"halfwidth_{name}": halfwidth}
        metrics |= {f"sequences_{name}": sequences, f"seconds_per_sequence_{name}": 1.0 + seed}
    return Record("table5", "sab", {}, seed, "cpu", metrics, [], {}, 1.0, 1.0)


def test_one_seed_has_the_interval_of_its_sequences() -> None:
    found = length_curve([record(0, T200=(0.9, 0.02, 100), T100=(1.0, 0.0, 59))])
    assert [point.length for point in found] == [100, 200]
    perfect, other = found
    assert (other.low, other.high) == (pytest.approx(0.88), pytest.approx(0.92))
    # 59 right in a row: a fault of 5 % would have shown itself 19 times in 20
    assert perfect.low == pytest.approx(0.9505, abs=5e-4) and perfect.high == 1.0
    assert (perfect.seeds, perfect.sequences) == (1, 59)


def test_several_seeds_have_the_interval_of_their_means() -> None:
    values = [0.9, 0.96, 0.99]
    runs = [record(seed, T100=(value, 0.001, 50)) for seed, value in enumerate(values)]
    (point,) = length_curve(runs)
    want = estimate(values)
    assert point.mean == pytest.approx(want.mean) and want.halfwidth is not None
    assert point.low == pytest.approx(want.mean - want.halfwidth)
    assert point.high == 1.0, "an accuracy ends at 1"
    assert (point.seeds, point.sequences, point.lowest) == (3, 150, 0.9)
    assert point.seconds == pytest.approx(2.0)


def test_equal_seeds_still_have_a_width() -> None:
    runs = [record(seed, T100=(1.0, 0.0, 32)) for seed in range(2)]
    (point,) = length_curve(runs)
    assert point.low == pytest.approx(0.05 ** (1 / 64)) and point.low < 0.96


def test_a_curve_without_points_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        length_curve([])
    with pytest.raises(ValueError, match="no accuracy by T"):
        length_curve([record(0)])
