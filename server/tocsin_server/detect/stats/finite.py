"""Fast checks for finite values; every rule runs them first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast


def all_finite(values: list[float | None]) -> bool:
    """Return whether no value is NaN or infinite; missing values are ignored."""
    try:
        return math.isfinite(sum(values)) or _one_by_one(values)  # type: ignore[arg-type]
    except TypeError:
        return _one_by_one(values)


def finite_of(values: Sequence[float | None]) -> Sequence[float]:
    """Return the finite values.

    If all are finite, ``values`` itself is returned, which must not be modified.
    """
    try:
        if math.isfinite(sum(values)):  # type: ignore[arg-type]
            return cast(Sequence[float], values)
    except TypeError:
        pass
    return [value for value in values if value is not None and math.isfinite(value)]


def positive(values: list[float | None]) -> bool:
    """Return whether there are values, and all are present, finite and above 0."""
    try:
        return math.isfinite(sum(values)) and min(values) > 0  # type: ignore[arg-type,type-var,operator]
    except TypeError:
        return False


def not_negative(values: list[float | None]) -> list[float]:
    """Return the values that are present and at least 0; do not modify: it may be ``values`` itself."""
    try:
        if sum(values) >= 0 and min(values, default=0.0) >= 0:  # type: ignore[arg-type,type-var,operator]
            return cast(list[float], values)  # the sum with a NaN is NaN
    except TypeError:
        pass
    return [value for value in values if value is not None and value >= 0]


def none_finite(values: list[float | None]) -> bool:
    """Return whether all values are present, and each is NaN or infinite."""
    try:
        return not any(map(math.isfinite, values))  # type: ignore[arg-type]
    except TypeError:
        return False


def _one_by_one(values: list[float | None]) -> bool:
    return all(value is None or math.isfinite(value) for value in values)
