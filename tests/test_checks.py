"""Bad arguments are refused with their name, their value and what is allowed."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from sab.checks import dtype, finite_float, one_of, positive_int, shape, within


def test_good_values_come_back_unchanged() -> None:
    assert positive_int("k", 3) == 3
    assert positive_int("k", 0, minimum=0) == 0
    assert one_of("mode", "a", ["a", "b"]) == "a"
    assert one_of("offset", 0, (0, 1)) == 0
    value = finite_float("lr", 2)
    assert value == 2.0 and isinstance(value, float)
    assert finite_float("p", 0.5, minimum=0.5, maximum=0.5) == 0.5
    x = torch.zeros(2, 3)
    assert shape("x", x, (None, 3)) is x
    assert dtype("x", x, torch.float32) is x
    labels = torch.tensor([0, 2])
    assert within("labels", labels, 0, 2) is labels
    nothing = torch.zeros(0, dtype=torch.int64)
    assert within("labels", nothing, 0, 2) is nothing


@pytest.mark.parametrize("value", [0, -1, 1.0, "1", None, True])
def test_positive_int_refuses(value: Any) -> None:
    with pytest.raises(ValueError) as error:
        positive_int("k_top", value)
    assert str(error.value) == f"k_top={value!r}: must be an integer of at least 1"


def test_positive_int_names_its_minimum() -> None:
    with pytest.raises(ValueError, match="T=4: must be an integer of at least 5"):
        positive_int("T", 4, minimum=5)


@pytest.mark.parametrize("value", ["c", None, 2])
def test_one_of_refuses(value: Any) -> None:
    with pytest.raises(ValueError, match="must be one of 'a', 'b'") as error:
        one_of("mode", value, iter(["a", "b"]))  # an iterator is read once
    assert str(error.value).startswith(f"mode={value!r}")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, "1", None, False])
def test_finite_float_refuses(value: Any) -> None:
    with pytest.raises(ValueError, match="must be a finite number") as error:
        finite_float("lr", value)
    assert str(error.value).startswith(f"lr={value!r}")


def test_finite_float_names_its_bounds() -> None:
    with pytest.raises(ValueError, match=r"lr=-0\.1: must be at least 0"):
        finite_float("lr", -0.1, minimum=0)
    with pytest.raises(ValueError, match=r"p=1\.5: must be at most 1"):
        finite_float("p", 1.5, maximum=1)


@pytest.mark.parametrize("expected", [(2,), (2, 4), (None, None, 3), (3, 2)])
def test_shape_refuses(expected: tuple[int | None, ...]) -> None:
    with pytest.raises(ValueError, match=r"x has shape \(2, 3\): must be \(") as error:
        shape("x", torch.zeros(2, 3), expected)
    wanted = ", ".join("any" if size is None else str(size) for size in expected)
    assert str(error.value).endswith(f"must be ({wanted})")


def test_dtype_and_within_refuse() -> None:
    with pytest.raises(ValueError, match=r"x has dtype torch\.float32: must be torch\.bool"):
        dtype("x", torch.zeros(2), torch.bool)
    with pytest.raises(ValueError, match=r"y has dtype torch\.float32: must be torch\.int64"):
        within("y", torch.zeros(2), 0, 2)
    for value in (-1, 3):
        with pytest.raises(ValueError, match=rf"y: must be between 0 and 2, got {value}"):
            within("y", torch.tensor([1, value]), 0, 2)
