"""Aggregate one series of many runs into buckets of the x axis: mean, spread and range over runs. Pure code.

In each bucket a run counts once, with the mean of its finite values there. Between two buckets with records
it is interpolated, so that runs that log at different steps are comparable. It does not count before its
first record, after its last one, and next to a bucket in which it has only NaN or Inf.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from tocsin_server.core.models import F64, I64
from tocsin_server.store.results import SeriesLayer

COUNTS = ("nan", "pinf", "ninf")


class Span(NamedTuple):
    """``buckets`` of equal width over the x axis from ``first`` to ``last``, both included."""

    first: float
    last: float
    buckets: int

    def places(self, x: F64) -> I64:
        """Return the bucket of each position; those outside are in the first and the last one."""
        width = (self.last - self.first) / self.buckets or 1.0
        return np.clip(np.floor((x - self.first) / width), 0, self.buckets - 1).astype(np.int64)


class Moments:
    """Mean and sample standard deviation of rows that arrive in blocks (Chan, Golub and LeVeque, 1979)."""

    def __init__(self, size: int) -> None:
        self.n, self.mean, self._squares = np.zeros(size), np.zeros(size), np.zeros(size)

    def add(self, values: F64) -> None:
        """Count the finite ``values`` f64[rows, size]."""
        known = np.isfinite(values)
        count = known.sum(axis=0)
        some, lowest = np.maximum(count, 1), np.fmin.reduce(np.where(known, values, np.nan))
        # Divided first, because a sum may overflow; above the lowest, so that equal values have their mean.
        above = np.where(known, values / some - lowest / some, 0.0).sum(axis=0)
        mean = np.where(count, lowest + above, 0.0)
        squares = (np.where(known, values - mean, 0.0) ** 2).sum(axis=0)
        total, off = np.maximum(self.n + count, 1), np.where(count, mean - self.mean, 0.0)
        self._squares += squares + off * off * self.n * (count / total)
        self.mean += off * (count / total)
        self.n += count

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

    def add(
        self, runs: Sequence[Sequence[SeriesLayer]], placed: Sequence[Sequence[Items]] | None = None
    ) -> None:
        """Add some runs.

        Args:
            runs: The layers of each, newest attempt first, then by rank.
            placed: What is drawn of each, on the x axis; by default at its steps.
        """
        newest = [next((layer for layer in layers if len(layer.x)), None) for layers in runs]
        parts = [list(visible(layers)) for layers in runs] if placed is None else placed
        drawn = [part for part, one in zip(parts, newest, strict=True) if one is not None]
        if not drawn:
            return
        last = np.array([(one.first if one.last is None else one.last)[-1] for one in newest if one])
        self.runs += len(drawn)
        self.nonfinite += int(np.sum(~np.isfinite(last)))
        with np.errstate(all="ignore"):
            self.newest.add(last[:, np.newaxis])
            self._add(drawn)

    def _add(self, runs: Sequence[Sequence[Items]]) -> None:
        """Add what is drawn of some runs: all at once, because each call of NumPy has its price."""
        parts = [part for parts in runs for part in parts]
        if not parts:
            return
        items = Items(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
        of_run = np.repeat(np.arange(len(runs)), [sum(len(part.x) for part in parts) for parts in runs])
        size, shape = self.span.buckets, (len(runs), self.span.buckets)
        place = self.span.places(items.x)
        at = of_run * size + place

        def summed(weights: F64, chosen: Any = slice(None)) -> Any:
            return np.bincount(at[chosen], weights, len(runs) * size)

        finite = items.n - items.nan - items.pinf - items.ninf
        known = finite > 0
        weight = summed(finite)
        share = finite[known] / weight[at[known]]  # first, because n x mean may overflow
        own = summed(items.n).reshape(shape) > 0
        mean = np.where(weight > 0, summed(share * items.mean[known], known), np.nan)
        low, high = np.full(mean.shape, np.inf), np.full(mean.shape, -np.inf)
        np.minimum.at(low, at[known], items.low[known])
        np.maximum.at(high, at[known], items.high[known])
        mean = np.clip(mean, low, high)  # rounding may move it out of the range
        values = _interpolated(mean.reshape(shape), own)
        self.values.add(values)
        self.low = np.fmin(self.low, np.fmin.reduce(np.fmin(low.reshape(shape), values)))
        self.high = np.fmax(self.high, np.fmax.reduce(np.fmax(high.reshape(shape), values)))
        for name in COUNTS:
            self.counts[name] += np.bincount(place, getattr(items, name), size)
        middle = (summed((items.x + items.x1) / 2) / np.maximum(summed(np.ones(len(at))), 1)).reshape(shape)
        self._own += own.sum(axis=0)
        self._x += np.where(own, middle, 0.0).sum(axis=0)

    def columns(self) -> dict[str, F64]:
        """Return the buckets in which a run has records: ``x`` is the mean position of those records."""
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
    """Records or buckets of a run, f64[m] each."""

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
    return Items(*columns) if kept.all() else Items(*(column[kept] for column in columns))


def _interpolated(mean: F64, own: Any) -> F64:
    """Return ``mean`` f64[runs, size] with the buckets between two ``own`` ones interpolated.

    It is NaN before the first and after the last one.
    """
    size = mean.shape[1]
    every = np.arange(size)
    left = np.maximum.accumulate(np.where(own, every, -1), axis=1)
    right = np.minimum.accumulate(np.where(own, every, size)[:, ::-1], axis=1)[:, ::-1]
    inside = (left >= 0) & (right < size)
    before = np.take_along_axis(mean, np.maximum(left, 0), axis=1)
    after = np.take_along_axis(mean, np.minimum(right, size - 1), axis=1)
    between = before + (every - left) / (right - left) * (after - before)
    return np.where(own, mean, np.where(inside, between, np.nan))
