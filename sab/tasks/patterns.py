"""Patterns for associative memories: 10×10 letters, random patterns, and noise on both.

A pattern is a row of -1 and +1, float64 (the dense memories need its range).
"""

from __future__ import annotations

import torch
from torch import Tensor

from sab.checks import finite_float, positive_int

SIDE = 10

_DRAWN = {
    "A": """
        ....##....
        ...####...
        ..##..##..
        .##....##.
        .##....##.
        .########.
        .########.
        .##....##.
        .##....##.
        .##....##.
    """,
    "C": """
        ..######..
        .########.
        ##......##
        ##........
        ##........
        ##........
        ##........
        ##......##
        .########.
        ..######..
    """,
    "X": """
        ##......##
        ###....###
        .###..###.
        ..######..
        ...####...
        ...####...
        ..######..
        .###..###.
        ###....###
        ##......##
    """,
    "O": """
        ..######..
        .########.
        ##......##
        ##......##
        ##......##
        ##......##
        ##......##
        ##......##
        .########.
        ..######..
    """,
    "T": """
        ##########
        ##########
        ....##....
        ....##....
        ....##....
        ....##....
        ....##....
        ....##....
        ....##....
        ....##....
    """,
    "Z": """
        ##########
        ##########
        ......###.
        .....###..
        ....###...
        ...###....
        ..###.....
        .###......
        ##########
        ##########
    """,
}
LETTERS = "".join(_DRAWN)


def letter(name: str) -> Tensor:
    """Return a letter as (100,) of -1 (paper) and +1 (ink), row by row.

    Raises:
        ValueError: the letter is not drawn.
    """
    if name not in _DRAWN:
        raise ValueError(f"name={name!r}: must be one of {', '.join(LETTERS)}")
    cells = "".join(_DRAWN[name].split())
    return torch.tensor([1.0 if cell == "#" else -1.0 for cell in cells], dtype=torch.float64)


def letters(names: str) -> Tensor:
    """Return several letters as (len(names), 100).

    Raises:
        ValueError: there is none, or one is not drawn.
    """
    if not names:
        raise ValueError(f"names={names!r}: must be at least one of {', '.join(LETTERS)}")
    return torch.stack([letter(name) for name in names])


def random_patterns(count: int, neurons: int, generator: torch.Generator) -> Tensor:
    """Return (count, neurons) of independent fair -1 and +1.

    Raises:
        ValueError: a size is not a positive integer.
    """
    positive_int("count", count)
    positive_int("neurons", neurons)
    bits = torch.randint(0, 2, (count, neurons), generator=generator)
    return 2.0 * bits.double() - 1.0


def flip(patterns: Tensor, fraction: float, generator: torch.Generator) -> Tensor:
    """Return the patterns (…, M) with exactly ``round(fraction · M)`` entries of each flipped.

    Raises:
        ValueError: ``fraction`` lies outside 0 … 1.
    """
    finite_float("fraction", fraction, 0.0, 1.0)
    count = round(fraction * patterns.shape[-1])
    order = torch.rand(patterns.shape, generator=generator).argsort(-1)
    return torch.where(order < count, -patterns, patterns)
