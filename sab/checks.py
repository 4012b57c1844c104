"""Argument checks shared by the whole package.

Every check raises ``ValueError`` with the argument's name, the value it got and what is allowed,
so that a wrong setting is reported before any work starts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor


def positive_int(name: str, value: Any, minimum: int = 1) -> int:
    """Return ``value`` if it is an integer of at least ``minimum``.

    Raises:
        ValueError: ``value`` is not an integer (booleans are refused) or is below ``minimum``.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise ValueError(f"{name}={value!r}: must be an integer of at least {minimum}")
    return value


def one_of(name: str, value: Any, allowed: Iterable[Any]) -> Any:
    """Return ``value`` if it is one of ``allowed``.

    Raises:
        ValueError: it is not.
    """
    choices = list(allowed)
    if value not in choices:
        raise ValueError(f"{name}={value!r}: must be one of {', '.join(map(repr, choices))}")
    return value


def finite_float(
    name: str, value: Any, minimum: float | None = None, maximum: float | None = None
) -> float:
    """Return ``value`` as a float if it is a finite number within ``[minimum, maximum]``.

    Raises:
        ValueError: ``value`` is not a number, not finite or out of range.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name}={value!r}: must be a finite number")
    if minimum is not None and value < minimum:
        raise ValueError(f"{name}={value!r}: must be at least {minimum}")
    if maximum is not None and value > maximum:
        raise ValueError(f"{name}={value!r}: must be at most {maximum}")
    return float(value)


def shape(name: str, tensor: Tensor, expected: Sequence[int | None]) -> Tensor:
    """Return ``tensor`` if its shape is ``expected``; ``None`` stands for any size.

    Raises:
        ValueError: the number of dimensions or a size differs.
    """
    fits = tensor.dim() == len(expected) and all(
        want is None or got == want for got, want in zip(tensor.shape, expected, strict=True)
    )
    if not fits:
        wanted = ", ".join("any" if size is None else str(size) for size in expected)
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}: must be ({wanted})")
    return tensor


def dtype(name: str, tensor: Tensor, expected: torch.dtype) -> Tensor:
    """Return ``tensor`` if its numbers are of the type ``expected``.

    Raises:
        ValueError: they are not.
    """
    if tensor.dtype != expected:
        raise ValueError(f"{name} has dtype {tensor.dtype}: must be {expected}")
    return tensor


def within(name: str, tensor: Tensor, minimum: int, maximum: int) -> Tensor:
    """Return ``tensor`` if it holds int64 numbers from ``minimum`` to ``maximum``.

    Reading them makes a GPU's program wait, so this is for what comes from outside.

    Raises:
        ValueError: the type differs, or a number is out of range.
    """
    dtype(name, tensor, torch.int64)
    outside = (tensor < minimum) | (tensor > maximum)
    if bool(outside.any()):
        found = int(tensor[outside][0])
        raise ValueError(f"{name}: must be between {minimum} and {maximum}, got {found}")
    return tensor
