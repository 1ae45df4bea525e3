"""One writer's series as a curve that loses nothing: its range and every fault, whatever was merged. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from tocsin_server.core.models import F64
from tocsin_server.store.results import SeriesLayer

FAULTS = ("nan", "pinf", "ninf")


@dataclass(frozen=True, slots=True)
class Curve:
    """``m`` items in order of step, each f64[m]: first and last step, least, greatest and mean finite
    value (NaN where an item has none), how many values, and how many of them are NaN, +Inf, -Inf."""

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
        """The middle of each item."""
        return (self.x0 + self.x1) / 2

    def within(self, start: float, stop: float) -> Curve:
        """The items that begin in ``[start, stop)``."""
        keep = (self.x0 >= start) & (self.x0 < stop)
        arrays = (self.x0, self.x1, self.low, self.high, self.mean, self.n, self.nan, self.pinf, self.ninf)
        return Curve(self.attempt, self.rank, self.exact, *(array[keep] for array in arrays))


def curve_of(layer: SeriesLayer, *, held: bool = False) -> Curve:
    """The reader's layer: exact records, or buckets of them. ``held``: each value holds until the next,
    so that an item is drawn at its last value in place of its mean."""
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
    """What of a curve is drawn: ``faint`` where a restart did these steps again."""

    curve: Curve
    faint: bool


def leads(curves: Iterable[Curve]) -> list[Curve]:
    """The lowest rank of each attempt, newest attempt first."""
    found: dict[int, Curve] = {}
    for curve in sorted(curves, key=lambda one: (-one.attempt, one.rank)):
        if curve.x0.size:
            found.setdefault(curve.attempt, curve)
    return list(found.values())


def stretches(curves: Iterable[Curve]) -> Iterator[Stretch]:
    """The newest attempt from its first step, each older one before it; what was replayed is faint."""
    edge = np.inf
    for curve in leads(curves):
        before, after = curve.within(-np.inf, edge), curve.within(edge, np.inf)
        if after.x0.size:
            yield Stretch(after, True)
        if before.x0.size:
            yield Stretch(before, False)
        edge = min(edge, float(curve.x0[0]))


def others(curves: Iterable[Curve]) -> list[Curve]:
    """Every rank that does not lead its attempt."""
    found = list(curves)
    first = {id(curve) for curve in leads(found)}
    return [curve for curve in found if curve.x0.size and id(curve) not in first]


def band(curves: list[Curve], slots: int) -> Curve | None:
    """The range over several curves on a grid of ``slots`` places: each extreme and each fault is in it."""
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
    """How many values of each item are finite, f64[m]."""
    left: F64 = curve.n - curve.nan - curve.pinf - curve.ninf
    return left
