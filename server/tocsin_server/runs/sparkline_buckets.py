"""Aggregate a series into at most 72 buckets, record by record, without losing a spike. Pure.

Buckets lie on the grid of steps ``k * width``. When there would be too many, the width doubles and neighbors
merge. Minimum, maximum, sum and the counts of NaN, +Inf and -Inf merge exactly, so no spike and no non-finite
value is lost.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from tocsin_server.core import exact_json
from tocsin_server.core.models import F64, I64

MOST_BUCKETS = 72
SHORT = 24
"""Up to this many values, a plain loop is faster than NumPy."""


@dataclass(slots=True)
class Bucket:
    """Aggregates of one bucket: low, high, total and count of finite values; counts of the others."""

    low: float = math.inf
    high: float = -math.inf
    total: float = 0.0
    count: int = 0
    nan: int = 0
    pinf: int = 0
    ninf: int = 0

    @property
    def nonfinite(self) -> int:
        return self.nan + self.pinf + self.ninf

    def add(self, value: float) -> None:
        """Add one value."""
        if math.isfinite(value):
            if value < self.low:
                self.low = value
            if value > self.high:
                self.high = value
            self.total += value
            self.count += 1
        elif value != value:
            self.nan += 1
        elif value > 0:
            self.pinf += 1
        else:
            self.ninf += 1

    def merge(self, other: Bucket) -> None:
        """Add all values of ``other``."""
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        self.total += other.total
        self.count += other.count
        self.nan, self.pinf, self.ninf = self.nan + other.nan, self.pinf + other.pinf, self.ninf + other.ninf

    def cells(self) -> list[float | None]:
        """Return ``[min, max, mean, nan, pinf, ninf]``; the first three are None without a finite value."""
        if not self.count:
            return [None, None, None, self.nan, self.pinf, self.ninf]
        mean = self.total / self.count
        if not math.isfinite(mean):  # the sum of huge values overflowed; use the midpoint instead
            mean = self.low / 2 + self.high / 2
        return [self.low, self.high, mean, self.nan, self.pinf, self.ninf]


def bucket_of(values: F64) -> Bucket:
    """Return one bucket over ``values`` [k]."""
    found = Bucket()
    if values.size <= SHORT:
        for value in values.tolist():
            found.add(value)
        return found
    finite = values[np.isfinite(values)]
    if finite.size:
        found.low, found.high = float(finite.min()), float(finite.max())
        with np.errstate(over="ignore"):
            found.total, found.count = float(finite.sum()), int(finite.size)
    found.nan = int(np.isnan(values).sum())
    found.pinf, found.ninf = int((values == math.inf).sum()), int((values == -math.inf).sum())
    return found


class Grid:
    """Steps [k] assigned to buckets, computed once for all series that share them."""

    def __init__(self, steps: I64) -> None:
        self.steps = steps
        self.low, self.high = int(np.minimum.reduce(steps)), int(np.maximum.reduce(steps))
        self._runs: dict[int, tuple[list[int], list[int]]] = {}

    def runs(self, width: int) -> tuple[list[int], list[int]]:
        """Return the buckets in the order in which steps fall into them, and the index of each one's first
        step.
        """
        found = self._runs.get(width)
        if found is None:
            keys = self.steps // width
            starts = [0, *(np.flatnonzero(keys[1:] != keys[:-1]) + 1).tolist()]
            found = self._runs[width] = keys[starts].tolist(), starts
        return found


def buckets_of(values: F64, starts: list[int]) -> list[Bucket]:
    """Return a bucket for each slice of ``values`` [k] that begins at one of ``starts``."""
    with np.errstate(over="ignore", invalid="ignore"):
        totals = np.add.reduceat(values, starts).tolist()
    if not math.isfinite(sum(totals)):  # a value is not finite, or a sum overflowed
        return [bucket_of(values[start:stop]) for start, stop in pairwise([*starts, values.size])]
    lows, highs = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
    counts = [stop - start for start, stop in pairwise([*starts, values.size])]
    return list(map(Bucket, lows.tolist(), highs.tolist(), totals, counts))


class Spark:
    """The sparkline of one series over the steps of a run."""

    def __init__(self) -> None:
        self.width = 1
        self.buckets: dict[int, Bucket] = {}
        self.first: int | None = None
        self.last: int | None = None
        self._settled = ""
        """Cached JSON of all buckets before ``_upto``, which rarely change."""
        self._upto: int | None = None
        """None if ``_settled`` must be rebuilt."""

    def take(self, steps: I64, values: F64, grid: Grid | None = None) -> None:
        """Add ``values`` [k] at ``steps`` [k]; ``grid``: the grid of these steps, if already computed."""
        if steps.size <= SHORT:
            self.take_few(steps.tolist(), values.tolist())
            return
        grid = grid or Grid(steps)
        self._widen(grid.low, grid.high)
        keys, starts = grid.runs(self.width)
        for key, bucket in zip(keys, buckets_of(values, starts), strict=True):
            self._put(key, bucket)

    def take_few(self, steps: list[int], values: list[float]) -> None:
        """Add a few values one by one; :meth:`take` for short inputs, where this is faster than NumPy."""
        for step, value in zip(steps, values, strict=True):
            if self.first is None or self.last is None or not self.first <= step <= self.last:
                self._reach(step)
            key = step // self.width
            bucket = self.buckets.get(key)
            if bucket is None:
                bucket = self.buckets[key] = Bucket()
            bucket.add(value)
            self._touch(key)

    def _touch(self, key: int) -> None:
        """Invalidate the cached JSON if it contains this bucket."""
        if self._upto is not None and key < self._upto:
            self._upto = None

    def _put(self, key: int, bucket: Bucket) -> None:
        self._touch(key)
        found = self.buckets.get(key)
        if found is None:
            self.buckets[key] = bucket
        else:
            found.merge(bucket)

    def _reach(self, step: int) -> None:
        """Extend the range to a step beyond it. Usually it is the next step, which fits without widening."""
        first = self.first
        if first is not None and step > first and step // self.width - first // self.width < MOST_BUCKETS:
            self.last = step
        else:
            self._widen(step, step)

    def _widen(self, low: int, high: int) -> None:
        if self.first is None or low < self.first:
            self.first, self._upto = low, None
        first = self.first
        last = self.last = high if self.last is None or high > self.last else self.last
        while last // self.width - first // self.width >= MOST_BUCKETS:
            self.width *= 2
            self._upto = None
            halved, self.buckets = self.buckets, {}
            for key, bucket in halved.items():
                self._put(key // 2, bucket)

    def _grid(self) -> range:
        if self.first is None or self.last is None:
            return range(0)
        return range(self.first // self.width, self.last // self.width + 1)

    def row(self) -> dict[str, Any]:
        """Return ``{"x0", "x1", "buckets"}`` of docs/reference/http-api.md; empty buckets are None."""
        found = [self.buckets.get(key) for key in self._grid()]
        cells = [bucket.cells() if bucket else None for bucket in found]
        return {"x0": self.first, "x1": self.last, "buckets": cells}

    def json(self) -> str:
        """Return :meth:`row` as JSON text; buckets that did not change come from a cache."""
        grid = self._grid()
        if not grid:
            return '{"x0":null,"x1":null,"buckets":[]}'
        if self._upto is None:
            self._settled, self._upto = "", grid[0]
        self._settled += "".join([self._text(key) + "," for key in range(self._upto, grid[-1])])
        self._upto = grid[-1]
        return f'{{"x0":{self.first},"x1":{self.last},"buckets":[{self._settled}{self._text(grid[-1])}]}}'

    def _text(self, key: int) -> str:
        bucket = self.buckets.get(key)
        return exact_json.dumps(bucket.cells()) if bucket else "null"

    def saved(self) -> dict[str, Any]:
        """Return the complete state as plain data for :meth:`restore`."""
        kept = {
            str(key): [b.low, b.high, b.total, b.count, b.nan, b.pinf, b.ninf]
            for key, b in self.buckets.items()
        }
        return {"width": self.width, "first": self.first, "last": self.last, "buckets": kept}

    @classmethod
    def restore(cls, saved: Mapping[str, Any]) -> Spark:
        """Restore a saved sparkline, also after a round trip through JSON."""
        spark = cls()
        spark.width = int(saved["width"])
        spark.first, spark.last = (
            None if saved[name] is None else int(saved[name]) for name in ("first", "last")
        )
        for key, (low, high, total, *counts) in saved["buckets"].items():
            bucket = spark.buckets[int(key)] = Bucket()
            bucket.low, bucket.high = exact_json.parse_number(low), exact_json.parse_number(high)
            bucket.total = exact_json.parse_number(total)
            bucket.count, bucket.nan, bucket.pinf, bucket.ninf = (int(count) for count in counts)
        return spark
