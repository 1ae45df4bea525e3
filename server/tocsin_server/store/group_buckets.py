"""Aggregate one series of many runs into buckets of steps: mean, spread and range over the runs. Pure code.

In each bucket a run counts once, with the mean of its finite values there. Between two buckets with records
it is interpolated, so that runs that log at different steps are comparable. It does not count before its
first record, after its last one, and next to a bucket in which it has only NaN or Inf.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tocsin_server.core.models import F64, I64
from tocsin_server.store.results import SeriesLayer

COUNTS = ("nan", "pinf", "ninf")


class Span(NamedTuple):
    """``buckets`` of equal width over the steps from ``first`` to ``last``, both included."""

    first: float
    last: float
    buckets: int

    def places(self, x: F64) -> I64:
        """Return the bucket of each step; those outside are in the first and the last one."""
        width = (self.last - self.first) / self.buckets or 1.0
        return np.clip(np.floor((x - self.first) / width), 0, self.buckets - 1).astype(np.int64)


class Moments:
    """Mean and sample standard deviation by Welford's method, of numbers or of arrays of one shape."""

    def __init__(self, size: int) -> None:
        self.n, self.mean, self._squares = np.zeros(size), np.zeros(size), np.zeros(size)

    def add(self, values: F64) -> None:
        """Count the finite ``values`` f64[size]."""
        known = np.isfinite(values)
        self.n += known
        off = np.where(known, values - self.mean, 0.0)
        self.mean += off / np.maximum(self.n, 1)
        self._squares += off * np.where(known, values - self.mean, 0.0)

    def result(self) -> tuple[F64, F64]:
        """Return mean and standard deviation; NaN without a value, and 0 for the deviation of one value."""
        none = np.where(self.n > 0, 0.0, np.nan)
        return self.mean + none, np.sqrt(self._squares / np.maximum(self.n - 1, 1)) + none


@dataclass(slots=True)
class GroupBuckets:
    """One series of one group of runs."""

    span: Span
    runs: int = 0
    """Runs that have the series."""
    nonfinite: int = 0
    """Runs whose newest value is not finite."""
    values: Moments = field(init=False)
    newest: Moments = field(init=False)
    low: F64 = field(init=False)
    high: F64 = field(init=False)
    counts: dict[str, F64] = field(init=False)
    _x: F64 = field(init=False)
    _own: F64 = field(init=False)

    def __post_init__(self) -> None:
        size = self.span.buckets
        self.values, self.newest = Moments(size), Moments(1)
        self.low, self.high = np.full(size, np.inf), np.full(size, -np.inf)
        self.counts = {name: np.zeros(size) for name in COUNTS}
        self._x, self._own = np.zeros(size), np.zeros(size)

    def add(self, layers: Sequence[SeriesLayer]) -> None:
        """Add a run: its layers, newest attempt first, then by rank."""
        newest = next((layer for layer in layers if len(layer.x)), None)
        if newest is None:
            return
        last = newest.first if newest.last is None else newest.last
        self.runs += 1
        self.nonfinite += int(not np.isfinite(last[-1]))
        with np.errstate(all="ignore"):
            self.newest.add(last[-1:])
            self._add(list(visible(layers)))

    def _add(self, parts: Sequence[Items]) -> None:
        items = Items(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
        size = self.span.buckets
        at = self.span.places(items.x)
        finite = items.n - items.nan - items.pinf - items.ninf
        known = finite > 0
        weight = np.bincount(at, finite, size)
        share = finite[known] / weight[at[known]]  # first, because n x mean may overflow
        own = np.bincount(at, items.n, size) > 0
        mean = np.where(weight > 0, np.bincount(at[known], share * items.mean[known], size), np.nan)
        column = _interpolated(mean, own)
        low, high = column.copy(), column.copy()
        np.minimum.at(low, at[known], items.low[known])
        np.maximum.at(high, at[known], items.high[known])
        self.values.add(column)
        self.low, self.high = np.fmin(self.low, low), np.fmax(self.high, high)
        for name in COUNTS:
            self.counts[name] += np.bincount(at, getattr(items, name), size)
        middle = np.bincount(at, (items.x + items.x1) / 2, size) / np.maximum(
            np.bincount(at, minlength=size), 1
        )
        self._own += own
        self._x += np.where(own, middle, 0.0)

    def columns(self) -> dict[str, F64]:
        """Return the buckets in which a run has records: ``x`` is the mean step of those records."""
        kept = self._own > 0
        mean, std = self.values.result()
        none = np.where(self.values.n > 0, 0.0, np.nan)
        with np.errstate(all="ignore"):
            found = {
                "x": self._x / np.maximum(self._own, 1),
                "n": self.values.n,
                "mean": mean,
                "std": std,
                "min": self.low + none,
                "max": self.high + none,
            }
        return {name: column[kept] for name, column in (found | self.counts).items()}


class Items(NamedTuple):
    """Records or buckets in order of their steps, f64[m] each."""

    x: F64
    x1: F64
    n: F64
    nan: F64
    pinf: F64
    ninf: F64
    mean: F64
    low: F64
    high: F64


def visible(layers: Sequence[SeriesLayer]) -> Iterator[Items]:
    """Yield what a chart draws of a run, oldest attempt first.

    That is the lowest rank of each attempt, up to the first step of the next one.
    """
    found: list[Items] = []
    edge, attempt = np.inf, None
    for layer in layers:
        if not len(layer.x) or layer.attempt == attempt:
            continue
        attempt = layer.attempt
        kept = layer.x < edge
        found.append(_items(layer, kept))
        edge = min(edge, float(layer.x[0]))
    yield from reversed(found)


def _items(layer: SeriesLayer, kept: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Items:
    mean = layer.first if layer.mean is None else layer.mean
    low = layer.first if layer.min is None else layer.min
    high = layer.first if layer.max is None else layer.max
    columns = (layer.x, layer.x1, layer.n, layer.nan, layer.pinf, layer.ninf, mean, low, high)
    return Items(*(column[kept] for column in columns))


def _interpolated(mean: F64, own: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> F64:
    """Return ``mean`` with the buckets between two ``own`` ones interpolated; NaN before and after."""
    places = np.flatnonzero(own)
    every = np.arange(len(mean))
    after = np.clip(np.searchsorted(places, every), 1, max(1, len(places) - 1))
    if len(places) < 2:
        return mean
    left, right = places[after - 1], places[after]
    between = mean[left] + (every - left) / (right - left) * (mean[right] - mean[left])
    inside = (every >= places[0]) & (every <= places[-1])
    return np.where(own, mean, np.where(inside, between, np.nan))
