"""What a summary keeps: against closed forms and simulation."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sab.analysis.summary import reach, recall_by_lag, signal_to_noise
from sab.ops.ema_scan import ema_scan


def test_reach_of_a_running_average_is_its_kernel() -> None:
    alpha = torch.tensor([0.3], dtype=torch.float64)
    norms = reach(lambda x: ema_scan(x, alpha), torch.randn(1, 6, 1, dtype=torch.float64))
    t, s = np.indices((6, 6))
    want = np.where(s <= t, 0.3 * 0.7 ** np.maximum(t - s, 0), 0.0)
    np.testing.assert_allclose(norms, want, atol=1e-12)


def test_reach_is_the_norm_of_the_jacobian() -> None:
    weight = torch.tensor([[1.0, 2.0], [2.0, 4.0]], dtype=torch.float64)
    norms = reach(lambda x: x @ weight.T, torch.randn(1, 3, 2, dtype=torch.float64))
    np.testing.assert_allclose(norms, 5.0 * np.eye(3))


def test_signal_to_noise_by_simulation() -> None:
    alpha, lag = 0.1, 7
    noise = torch.randn(1, 4000, 50, generator=torch.Generator().manual_seed(0))
    deviation = ema_scan(noise, torch.full((50,), alpha))[:, 200:].std().item()
    impulse = torch.zeros(1, 20, 1)
    impulse[:, 3] = 1
    weight = ema_scan(impulse, torch.tensor([alpha]))[0, 3 + lag, 0].item()
    assert signal_to_noise(alpha, lag) == pytest.approx(weight / deviation, rel=0.02)
    assert signal_to_noise(1.0, 0) == 1.0 and signal_to_noise(1.0, 1) == 0.0
    values = [signal_to_noise(a / 1000, 100) for a in range(1, 20)]
    assert values.index(max(values)) + 1 == 5  # 1 / (2 · 100)


def test_recall_falls_with_the_lag_and_wants_several_rates() -> None:
    lags = [0, 1, 2, 8]
    sizes = {"symbols": 6, "channels": 24}
    one, wider, several = (
        recall_by_lag(alphas, lags, **{**sizes, **more})
        for alphas, more in (([0.5], {}), ([0.5], {"channels": 48}), ([0.9, 0.5, 0.3, 0.1], {}))
    )
    assert one[0] > 0.95  # with one rate the present outweighs all the past together
    assert all(value < 0.3 for value in one[1:])
    # And its state is a map of one average a symbol: more channels hold no more.
    assert max(abs(a - b) for a, b in zip(one, wider, strict=True)) < 0.04
    assert several[0] > 0.95 and several[1] > 0.9 and several[2] > 0.4 > several[3]
    assert recall_by_lag([1.0], [1], symbols=4, channels=8)[0] == pytest.approx(0.25, abs=0.08)


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match=r"alpha=1\.5"):
        signal_to_noise(1.5, 3)
    with pytest.raises(ValueError, match="lag=-1"):
        signal_to_noise(0.5, -1)
    with pytest.raises(ValueError, match="symbols=1"):
        recall_by_lag([0.1], [0], symbols=1, channels=4)
    with pytest.raises(ValueError, match="alphas=2"):
        recall_by_lag([2.0], [0], symbols=2, channels=4)
