"""Buckets for a logarithmic axis: each decade of distance from an origin is read like a window.

Buckets of equal numbers of records would leave a run of a million steps with one for the first three
decades.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tocsin_server.store.results import SeriesLayer

BASE = 10.0
FEWEST = 128
"""Buckets of a decade: more than are visible of it, and enough that one chunk is decoded."""

_ARRAYS = [field.name for field in fields(SeriesLayer)][4:]

Read = Callable[[float | None, float | None, Sequence[int], int], list[tuple[int, SeriesLayer, int]]]
"""Reads columns between two steps in a number of buckets: (column, layer, bucket size in records)."""


def decades(origin: float, start: float | None, stop: float, buckets: int) -> tuple[list[float], int]:
    """Return the first steps of the decades, last decade first, and the number of buckets of each.

    Args:
        origin: Where the axis has no logarithm.
        start: Start of the window, or None.
        stop: End of the window.
        buckets: Maximum number of buckets of the window.
    """
    least = max(origin + 1, origin if start is None else start)
    share = max(FEWEST, buckets // max(1, math.ceil(math.log10(max(1.0, stop - origin)))))
    found: list[float] = []
    distance = (stop - origin) / BASE
    while origin + distance > least:
        found.append(origin + distance)
        if distance <= share:  # the rest has no more records than buckets
            break
        distance /= BASE
    return found, share


def read_decades(
    read: Read,
    columns: Sequence[int],
    window: tuple[float | None, float | None],
    edges: list[float],
    share: int,
) -> list[tuple[int, SeriesLayer, int]]:
    """Return (column, its layer, largest bucket size in records) over all decades.

    A bucket that begins before its decade is left to the previous one, which is read to the end of that
    bucket. So no value is lost in whatever order the steps are, and none is counted twice if they ascend.
    """
    start, stop = window
    parts: dict[int, list[SeriesLayer]] = {}
    sizes: dict[int, int] = {}
    ends: dict[float | None, list[int]] = {stop: list(columns)}
    for low in [*edges, start]:
        earlier: dict[float | None, list[int]] = {}
        for end, cols in ends.items():
            found = {col: (made, size) for col, made, size in read(low, end, cols, share)}
            for col in cols:
                before = end if low is None else math.ceil(low) - 1
                if col in found:
                    made, size = found[col]
                    early = made.x < (-math.inf if low is None or low == start else low)
                    before = max(made.x1[early], default=before)
                    parts.setdefault(col, []).append(_where(made, ~early))
                    sizes[col] = max(size, sizes.get(col, 0))
                earlier.setdefault(before, []).append(col)
        ends = earlier
    return [(col, joined_layers(made[::-1]), sizes[col]) for col, made in parts.items()]


def _where(layer: SeriesLayer, keep: NDArray[np.bool_]) -> SeriesLayer:
    arrays = {name: getattr(layer, name) for name in _ARRAYS}
    kept: dict[str, Any] = {name: array[keep] for name, array in arrays.items() if array is not None}
    return replace(layer, **kept)


def joined_layers(parts: Sequence[SeriesLayer]) -> SeriesLayer:
    """Return layers of one writer, in order of their steps, as one."""
    if len(parts) == 1:
        return parts[0]
    exact = all(part.exact for part in parts)
    given = parts if exact else [as_buckets(part) for part in parts]
    arrays = [name for name in _ARRAYS if getattr(given[0], name) is not None]
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in given]) for name in arrays
    }
    return replace(given[0], **columns)


def as_buckets(layer: SeriesLayer) -> SeriesLayer:
    """Return exact records as buckets of one."""
    if not layer.exact:
        return layer
    finite = np.where(np.isfinite(layer.first), layer.first, np.nan)
    ends = (layer.x, layer.x1, layer.t, layer.first, layer.n, layer.nan, layer.pinf, layer.ninf)
    of = (layer.attempt, layer.rank, layer.writer_no)
    return SeriesLayer(*of, False, *ends, finite, finite, finite, layer.first)
