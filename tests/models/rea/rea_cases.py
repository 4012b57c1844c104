"""Batches of different lengths, padded in every way, for the tests of Part III's models."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

PLACES = {"right": [0, 1, 2, 3, 4], "left": [6, 7, 8, 9, 10], "gaps": [1, 2, 5, 6, 9]}


def features(n: int, width: int, batch: int = 1, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, n, width, generator=generator, dtype=torch.float64)


def shaken(model: nn.Module, seed: int = 0) -> nn.Module:
    """Double precision and the same random parameters for all, so that no channel is shut."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.double().parameters():
        noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        parameter.data.copy_(0.5 * noise)
    return model


def alone_and_in_a_batch(
    run: Callable[[Tensor, Tensor | None], Tensor], width: int, place: str
) -> tuple[Tensor, Tensor]:
    """A log of five steps by itself, and the same beside a log of eleven, with rubbish as padding.

    Returns:
        Outputs at the five real steps, (5, …), both ways.
    """
    short, long = features(5, width), features(11, width, seed=1)
    keep = torch.ones(2, 11, dtype=torch.bool)
    keep[0] = False
    keep[0, PLACES[place]] = True
    both = torch.cat([torch.full_like(long, 1e3), long])
    both[0, PLACES[place]] = short[0]
    return run(short, None)[0], run(both, keep)[0, PLACES[place]]
