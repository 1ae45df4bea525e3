"""Represent one writer's series as a curve that keeps its range and all non-finite values. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from tocsin_server.core.models import F64
from tocsin_server.store.results import SeriesLayer

FAULTS = ("nan", "pinf", "ninf")


@dataclass(frozen=True, slots=True)
class Curve:
    """``m`` items in order of step, each f64[m]: first and last step; lowest, highest and mean finite value
    (NaN if an item has none); and the counts of all values, NaN, +Inf and -Inf.
    """

    attempt: int
    rank: int
    exact: bool
    x0: F64
    x1: F64
    low: F64
    high: F64
    mean: F64
    n: F64
    nan: F64
    pinf: F64
    ninf: F64

    @property
    def x(self) -> F64:
        """Return the middle step of each item."""
        return (self.x0 + self.x1) / 2

    def within(self, start: float, stop: float) -> Curve:
        """Return the items that begin in ``[start, stop)``."""
        keep = (self.x0 >= start) & (self.x0 < stop)
        arrays = (self.x0, self.x1, self.low, self.high, self.mean, self.n, self.nan, self.pinf, self.ninf)
        return Curve(self.attempt, self.rank, self.exact, *(array[keep] for array in arrays))


def curve_of(layer: SeriesLayer, *, held: bool = False) -> Curve:
    """Return the curve of a layer: exact records, or buckets of them.

    ``held``: a value holds until the next one, so that an item is drawn at its last value instead of its
    mean.
    """
    if layer.exact or layer.min is None or layer.max is None or layer.mean is None:
        low = high = mean = np.where(np.isfinite(layer.first), layer.first, np.nan)
    else:
        low, high, mean = layer.min, layer.max, layer.mean
        if held and layer.last is not None:
            mean = np.where(np.isfinite(layer.last), layer.last, np.nan)
    counts = (layer.n, layer.nan, layer.pinf, layer.ninf)
    return Curve(layer.attempt, layer.rank, layer.exact, layer.x, layer.x1, low, high, mean, *counts)


@dataclass(frozen=True, slots=True)
class Stretch:
    """The part of a curve that is drawn: ``faint`` for steps that a later attempt repeated."""

    curve: Curve
    faint: bool


def leads(curves: Iterable[Curve]) -> list[Curve]:
    """Return the lowest rank of each attempt, newest attempt first."""
    found: dict[int, Curve] = {}
    for curve in sorted(curves, key=lambda one: (-one.attempt, one.rank)):
        if curve.x0.size:
            found.setdefault(curve.attempt, curve)
    return list(found.values())


def stretches(curves: Iterable[Curve]) -> Iterator[Stretch]:
    """Yield the newest attempt, and each older one up to the next one's first step; repeats are faint."""
    edge = np.inf
    for curve in leads(curves):
        before, after = curve.within(-np.inf, edge), curve.within(edge, np.inf)
        if after.x0.size:
            yield Stretch(after, True)
        if before.x0.size:
            yield Stretch(before, False)
        edge = min(edge, float(curve.x0[0]))


def others(curves: Iterable[Curve]) -> list[Curve]:
    """Return all ranks except the lowest of each attempt."""
    found = list(curves)
    first = {id(curve) for curve in leads(found)}
    return [curve for curve in found if curve.x0.size and id(curve) not in first]


def band(curves: list[Curve], slots: int) -> Curve | None:
    """Return the range over several curves on a grid of ``slots`` items, with all extremes and counts."""
    if not curves:
        return None
    start, stop = min(float(one.x0[0]) for one in curves), max(float(one.x1[-1]) for one in curves)
    width = (stop - start) / slots or 1.0
    low, high = np.full(slots, np.inf), np.full(slots, -np.inf)
    counts = {name: np.zeros(slots) for name in ("n", *FAULTS)}
    for one in curves:
        place = np.minimum(((one.x - start) / width).astype(int), slots - 1)
        np.fmin.at(low, place, one.low)
        np.fmax.at(high, place, one.high)
        for name, sums in counts.items():
            np.add.at(sums, place, getattr(one, name))
    there = counts["n"] > 0
    edges = start + np.arange(slots) * width
    low, high = np.where(np.isinf(low), np.nan, low), np.where(np.isinf(high), np.nan, high)
    shown = (edges, edges + width, low, high, low / 2 + high / 2, *counts.values())
    return Curve(curves[0].attempt, -1, False, *(array[there] for array in shown))


def finite(curve: Curve) -> F64:
    """Return the number of finite values of each item, f64[m]."""
    left: F64 = curve.n - curve.nan - curve.pinf - curve.ninf
    return left
