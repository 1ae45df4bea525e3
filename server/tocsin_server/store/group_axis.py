"""Place the records of runs on the common x axis of a comparison: steps, times, or the values of a metric.

Pure code, except ``placing``, which reads where a run is on the axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tocsin_server.core.models import F64
from tocsin_server.store.group_buckets import Items, Span, visible
from tocsin_server.store.results import SeriesAnswer, SeriesLayer
from tocsin_server.store.series_window import ManySeries, Window

COARSE = 100
"""Buckets in which the times of a run, or the steps of a range of a metric, are found."""

ROUNDED_MS = 1e-3
"""Unix ms as float64 are rounded to a quarter of this, so that a record at an end may be beyond it."""


@dataclass(frozen=True, slots=True)
class Axis:
    """What the x axis shows: the step, ms since the first record, Unix ms, or a metric."""

    kind: Literal["step", "relative", "wall", "metric"] = "step"
    metric: str = ""

    @property
    def also(self) -> list[str]:
        """The series to read besides those that are shown."""
        return [self.metric] if self.kind == "metric" else []


@dataclass(frozen=True, slots=True)
class Placing:
    """Where one run is on the axis, from ``low`` to ``high``, and by how much its times are shifted.

    ``ranges`` of a metric: in each bucket of steps, its first and last step and the smallest and largest
    value.
    """

    low: float
    high: float
    origin: float = 0.0
    ranges: tuple[F64, F64, F64, F64] | None = None

    def window(self, axis: Axis, span: Span) -> Window:
        """Return what to read of the run for a range of the axis."""
        if axis.kind in ("relative", "wall"):
            start, stop = self.origin + span.first, self.origin + span.last
            return Window(start - ROUNDED_MS, stop + ROUNDED_MS, "time")
        if self.ranges is None:
            return Window(span.first, span.last, "step")
        first, last, low, high = self.ranges
        touched = (low <= span.last) & (high >= span.first)
        if not touched.any():
            return Window(-1, -1, "step")
        return Window(float(first[touched].min()), float(last[touched].max()), "step")


def placing(series: ManySeries, run_id: str, names: Sequence[str], axis: Axis) -> Placing | None:
    """Return where a run is on the axis, or None if it is nowhere.

    Raises:
        DamagedError: Records of the run cannot be decoded.
    """
    if axis.kind == "step":
        answer = series.of(run_id, [], Window(None, None, "step"), 1)
        if answer.first_step is None or answer.last_step is None:
            return None
        return Placing(float(answer.first_step), float(answer.last_step))
    by = "step" if axis.kind == "metric" else "time"
    known = series.names(run_id)
    for name in [each for each in axis.also or names if each in known]:
        answer = series.of(run_id, [name], Window(None, None, by), COARSE)
        layers = [layer for layer in answer.series[name] if len(layer.x)]
        if layers:  # all series of a run have about the same times
            return _by_metric(layers) if axis.kind == "metric" else _by_time(layers, axis)
    return None


def _by_time(layers: Sequence[SeriesLayer], axis: Axis) -> Placing:
    first = float(min(layer.x.min() for layer in layers))
    last = float(max(layer.x1.max() for layer in layers))
    origin = first if axis.kind == "relative" else 0.0
    return Placing(first - origin, last - origin, origin)


def _by_metric(layers: Sequence[SeriesLayer]) -> Placing | None:
    low = np.concatenate([layer.first if layer.min is None else layer.min for layer in layers])
    high = np.concatenate([layer.first if layer.max is None else layer.max for layer in layers])
    first = np.concatenate([layer.x for layer in layers])
    last = np.concatenate([layer.x1 for layer in layers])
    known = np.isfinite(low) & np.isfinite(high)
    if not known.any():
        return None
    return Placing(
        float(low[known].min()),
        float(high[known].max()),
        ranges=(first[known], last[known], low[known], high[known]),
    )


def placed(answer: SeriesAnswer, name: str, axis: Axis, placing: Placing, span: Span) -> list[Items]:
    """Return what is drawn of a series of a run, on the axis; what has no place there is left out."""
    items = list(visible(answer.series[name]))
    if axis.kind in ("step", "wall"):
        return items
    if axis.kind == "relative":
        return [each._replace(x=each.x - placing.origin, x1=each.x1 - placing.origin) for each in items]
    steps, values = _clock(answer.series[axis.metric])
    return [_at_metric(each, steps, values, span) for each in items] if len(steps) else []


def _clock(layers: Sequence[SeriesLayer]) -> tuple[F64, F64]:
    """Return steps, ascending, and the value of the metric at each."""
    steps, values = [np.empty(0)], [np.empty(0)]
    edge, attempt = np.inf, None
    for layer in layers:
        if not len(layer.x) or layer.attempt == attempt:
            continue
        attempt = layer.attempt
        value = layer.first if layer.last is None else layer.last
        kept = (layer.x < edge) & np.isfinite(value)
        steps.insert(0, layer.x[kept])
        values.insert(0, value[kept])
        edge = min(edge, float(layer.x[0]))
    return np.concatenate(steps), np.concatenate(values)


def _at_metric(items: Items, steps: F64, values: F64, span: Span) -> Items:
    """Return records at the last known value of the metric at or before their step."""
    place = np.searchsorted(steps, items.x, side="right") - 1
    x = np.where(place >= 0, values[np.maximum(place, 0)], np.nan)
    kept = (x >= span.first) & (x <= span.last)
    return Items(*(column[kept] for column in items._replace(x=x, x1=x)))
