"""Convert curves to the points of a chart: lines, outlines of ranges, marks. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tocsin_server.core.models import F64
from tocsin_server.report.curve import Curve, finite

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Points:
    """Points on a chart, f64[m]; NaN ends a line."""

    x: F64
    y: F64


@dataclass(frozen=True, slots=True)
class Axis:
    """The value axis: ``range`` in log10 if ``log``. ``floor``: the lowest value on a log axis."""

    log: bool
    range: tuple[float, float]
    base: int = 10

    @property
    def floor(self) -> float | None:
        return float(10 ** self.range[0]) if self.log else None


def line(curve: Curve, log: bool) -> F64:
    """Return the mean of each item, f64[m]; NaN if it has no finite value or none on the axis."""
    drawn = (finite(curve) > 0) & np.isfinite(curve.mean)
    if log:
        drawn &= curve.mean > 0
    return np.where(drawn, curve.mean, np.nan)


def lone(y: F64) -> Flags:
    """Return where a value is isolated between two gaps, as bool[m], so that no line shows it."""
    there = np.isfinite(y)
    before, after = np.roll(there, 1), np.roll(there, -1)
    if y.size:
        before[0], after[-1] = False, False
    return there & ~before & ~after


def envelope(curve: Curve, floor: float | None) -> Points:
    """Return the range of each item as closed outlines, one per gapless part, separated by NaN."""
    drawn = (finite(curve) > 0) & np.isfinite(curve.high)
    if floor is not None:
        drawn &= curve.high > 0
    low = curve.low if floor is None else np.maximum(curve.low, floor)
    x: list[F64] = []
    y: list[F64] = []
    for begin, end in _runs(drawn):
        part = slice(begin, end)
        if not np.any(curve.high[part] > low[part]):
            continue
        middle, gap = curve.x[part], np.array([np.nan])
        x += [middle, middle[::-1], middle[:1], gap]
        y += [curve.high[part], low[part][::-1], curve.high[part][:1], gap]
    return Points(np.concatenate(x) if x else np.empty(0), np.concatenate(y) if y else np.empty(0))


def _runs(drawn: Flags) -> list[tuple[int, int]]:
    """Return the start and end of each run of True in ``drawn``."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], drawn.astype(int), [0]))))
    return [(int(a), int(b)) for a, b in pairwise(edges.tolist())][::2]


def marks(curve: Curve, log: bool) -> dict[str, tuple[F64, F64]]:
    """Return steps and counts of values that no line can show, by kind; zeros and negatives on log axes."""
    found = {kind: getattr(curve, kind) for kind in ("nan", "pinf", "ninf")}
    if log:
        any_finite = finite(curve) > 0
        found["negative"] = np.where(any_finite & (curve.low < 0), 1.0, 0.0)
        found["zero"] = np.where(any_finite & (curve.low == 0), 1.0, 0.0)
    return {
        kind: (curve.x[count > 0], count[count > 0]) for kind, count in found.items() if np.any(count > 0)
    }


def axis_of(kind: str, curves: list[Curve]) -> Axis:
    """Return the axis of ``kind``: log, log2, linear, or auto (log for positive values over two decades)."""
    low, high, positive = _extent(curves)
    if kind == "auto":
        kind = "log" if positive <= low and low > 0 and high / low >= 100 else "linear"
    if kind == "linear" or not np.isfinite(positive):
        return Axis(False, _padded(*_open(low, high)))
    return Axis(
        True,
        _padded(*_open(float(np.log10(positive)), float(np.log10(high)), 0.1)),
        2 if kind == "log2" else 10,
    )


def _extent(curves: list[Curve]) -> tuple[float, float, float]:
    """Return the lowest and highest finite value and the lowest positive one; else (0, 1, inf)."""
    values = np.concatenate(
        [np.concatenate((one.low, one.mean, one.high)) for one in curves] or [np.empty(0)]
    )
    values = values[np.isfinite(values)]
    if not values.size:
        return 0.0, 1.0, np.inf
    above = values[values > 0]
    return float(values.min()), float(values.max()), float(above.min()) if above.size else np.inf


def _open(low: float, high: float, least: float = 0.0) -> tuple[float, float]:
    """Widen the axis to at least 5 % of the value, so that a flat series is drawn flat."""
    wanted = max(least, max(abs(low), abs(high)) * 0.05) or 1.0
    lack = max(0.0, wanted - (high - low))
    return low - lack / 2, high + lack / 2


def _padded(low: float, high: float) -> tuple[float, float]:
    """Add room below and above for the marks."""
    room = high / 5 - low / 5
    return max(low - room * 0.7, -1.7e308), min(high + room, 1.7e308)
