"""What a running summary keeps of the past: its gradient, signal to noise, capacity."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from sab.checks import finite_float, positive_int
from sab.ops.ema_scan import ema_scan


def reach(call: Callable[[Tensor], Tensor], x: Tensor) -> np.ndarray:
    """Norm of ``∂ out_t / ∂ x_s`` for one sequence: row t, column s.

    Args:
        call: (1, N, D) → (1, N, E), a layer.
        x: (1, N, D), where the derivative is taken.

    Returns:
        (N, N), the Frobenius norm of each Jacobian block, in output units an input unit.
    """
    x = x.detach().requires_grad_()
    out = call(x)[0]
    squares = torch.zeros(out.shape[0], x.shape[1], dtype=x.dtype)
    for t in range(out.shape[0]):
        for channel in range(out.shape[1]):
            (grad,) = torch.autograd.grad(out[t, channel], x, retain_graph=True)
            squares[t] += grad[0].square().sum(-1)
    norms: np.ndarray = squares.sqrt().numpy()
    return norms


def signal_to_noise(alpha: float, lag: int) -> float:
    """One event's weight in a running average over the deviation that all others give it.

    The event has weight α (1 - α)^lag; independent inputs of variance 1 give the state the
    variance α / (2 - α). Their ratio is (1 - α)^lag · √(α (2 - α)), greatest near α = 1 / (2 lag).

    Raises:
        ValueError: ``alpha`` is not between 0 and 1, or ``lag`` is negative.
    """
    finite_float("alpha", alpha, 0.0, 1.0)
    positive_int("lag", lag, 0)
    return float((1 - alpha) ** lag * math.sqrt(alpha * (2 - alpha)))


def recall_by_lag(
    alphas: Sequence[float], lags: Sequence[int], *, symbols: int, channels: int, seed: int = 0
) -> list[float]:
    """How often the symbol ``lag`` steps back can be read off a running average, by lag.

    Random symbols get random vectors of ``channels`` numbers, a running average with its own α in
    each channel is taken, and a least-squares decoder is fitted for each lag on one half of the
    steps and tested on the other. That is the best linear read-out: an upper bound for the gate,
    the norm and the linear layer that stand behind the state, not for a deep network.

    Args:
        alphas: one α, or several dealt out over the channels in turn.
        lags: steps back, each at least 0.
        symbols: kinds of symbol.
        channels: width of the state.
        seed: of symbols and vectors.

    Returns:
        Accuracy by lag, fractions; guessing has 1 / ``symbols``.

    Raises:
        ValueError: a size or an α is out of range.
    """
    positive_int("symbols", symbols, 2)
    positive_int("channels", channels)
    for alpha in alphas:
        finite_float("alphas", alpha, 0.0, 1.0)
    generator = torch.Generator().manual_seed(seed)
    steps = 60 * (channels + symbols) + max(lags)
    tokens = torch.randint(0, symbols, (steps,), generator=generator)
    vectors = torch.randn(symbols, channels, generator=generator, dtype=torch.float64)
    rates = torch.tensor([alphas[c % len(alphas)] for c in range(channels)], dtype=torch.float64)
    states = ema_scan(vectors[tokens][None], rates)[0]
    states = torch.cat([states, torch.ones(steps, 1, dtype=torch.float64)], 1)
    found = []
    for lag in lags:
        positive_int("lag", lag, 0)
        seen, wanted = states[lag:], tokens[: steps - lag]
        half = len(wanted) // 2
        targets = torch.nn.functional.one_hot(wanted, symbols).double()
        square = seen[:half].T @ seen[:half]  # a touch of ridge: channels may say the same
        square += 1e-9 * square.diagonal().mean() * torch.eye(len(square), dtype=torch.float64)
        weights = torch.linalg.solve(square, seen[:half].T @ targets[:half])
        right = (seen[half:] @ weights).argmax(1) == wanted[half:]
        found.append(right.double().mean().item())
    return found
