import math
import statistics

import pytest
import torch

from sab.experiments.statistics import difference, estimate, t_probability, t_value


@pytest.mark.parametrize(
    ("df", "want"),
    # printed tables of Student's t, two-sided 95 %
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (30, 2.042), (1000, 1.962)],
)
def test_t_value_is_the_printed_one(df: int, want: float) -> None:
    assert t_value(df) == pytest.approx(want, abs=5e-4)
    assert t_probability(t_value(df), df) == pytest.approx(0.95, abs=1e-12)


def test_t_value_other_confidence_and_bad_arguments() -> None:
    assert t_value(5, 0.99) == pytest.approx(4.032, abs=5e-4)
    with pytest.raises(ValueError, match="df=0"):
        t_value(0)


def test_estimate() -> None:
    values = [0.9, 1.0, 0.95]
    found = estimate(values)
    assert found.n == 3
    assert found.mean == pytest.approx(0.95)
    assert found.deviation == pytest.approx(statistics.stdev(values))
    assert found.halfwidth == pytest.approx(
        4.3027 * statistics.stdev(values) / math.sqrt(3), rel=1e-4
    )
    assert estimate([2.0]).halfwidth is None
    with pytest.raises(ValueError, match="at least one"):
        estimate([])


def test_the_interval_holds_the_truth_95_times_in_100() -> None:
    draws = torch.randn(4000, 3, generator=torch.Generator().manual_seed(0)).tolist()
    inside = sum(abs(estimate(d).mean) <= (estimate(d).halfwidth or 0) for d in draws)
    assert inside / 4000 == pytest.approx(0.95, abs=0.015)


def test_difference() -> None:
    gap, half = difference([3.0, 3.1, 2.9], [1.0, 1.1, 0.9])
    assert gap == pytest.approx(2.0)
    assert half == pytest.approx(t_value(4) * math.sqrt(2 * 0.01 / 3))
    assert difference([1.0], [3.0]) == (-2.0, None)
    assert difference([3.0, 3.2], [1.0]) == (pytest.approx(2.1), None)
    assert difference([1.0], [3.0, 3.2]) == (pytest.approx(-2.1), None)
    # A known number has no spread: the interval is that of the mean.
    for gap, half in (difference([3.0, 3.2], 1.0), difference(1.0, [3.0, 3.2])):
        assert abs(gap) == pytest.approx(2.1)
        assert half == pytest.approx(estimate([3.0, 3.2]).halfwidth)
    assert difference([1.0], 3.0) == (-2.0, None) and difference(1.0, 3) == (-2.0, 0.0)
    assert difference([1.0, 1.0], [0.0, 0.0]) == (1.0, 0.0)
