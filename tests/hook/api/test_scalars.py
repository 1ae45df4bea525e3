"""Reading numbers from what a script passes."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from tocsin.api.scalars import nonfinite, number
from tocsin.core.values import whole


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, 1.0),
        (True, 1.0),
        (np.float64(2.5), 2.5),
        (np.ones((1, 1)), 1.0),
        (torch.tensor([4]), 4.0),
        (10**400, None),
    ],
)
def test_one_number_is_read(value: Any, expected: float | None) -> None:
    """Python, NumPy and torch numbers of one element become floats; others are None."""
    assert number(value) == expected


@pytest.mark.parametrize("value", [None, "1.5", b"1", [1.0], np.ones(2), torch.ones(2), {}])
def test_the_rest_is_none(value: Any) -> None:
    """Text, lists and vectors are not single numbers."""
    assert number(value) is None


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_one_bad_value_is_found_anywhere(dtype: torch.dtype, bad: float) -> None:
    """A single non-finite element is found; the largest finite values are not reported."""
    batch = torch.full((3, 5), torch.finfo(dtype).max, dtype=dtype)
    batch[0, 0] = torch.finfo(dtype).min
    assert nonfinite({"a": [batch]}) == 0.0
    batch[2, 4] = bad
    assert nonfinite({"a": (1, "name", [batch])}) == 1.0


def test_what_holds_no_float_is_fine() -> None:
    """Integers, text, empty tensors and objects are never non-finite."""
    assert nonfinite([torch.ones(2, dtype=torch.int32), torch.empty(0), "x", object(), 3]) == 0.0
    assert nonfinite(math.nan) == 1.0


def test_an_array_of_another_library_is_not_called_finite() -> None:
    """A JAX array is on its device: the result is unknown, rather than finite."""
    other = SimpleNamespace(shape=(2,), dtype="float32")
    assert nonfinite({"x": other, "y": 1.0}) is None
    assert nonfinite({"x": other, "y": math.nan}) == 1.0


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *[(3, 3), (3.0, 3), (True, 1), (np.int32(3), 3), (torch.tensor(3), 3), ("3", 3)],
        *[
            (math.nan, None),
            (math.inf, None),
            ("x", None),
            (None, None),
            (1 << 63, None),
            (torch.ones(2), None),
        ],
    ],
)
def test_whole_numbers_of_64_bits_are_read(value: Any, expected: int | None) -> None:
    """Numbers of every kind become an ``int``, the rest None."""
    found = whole(value)
    assert (found, type(found)) == (expected, type(expected))
