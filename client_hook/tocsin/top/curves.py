"""Turn a table of ``Api.metrics`` into charts of a given number of characters. Pure.

No extreme is lost: a bucket is drawn from its minimum to its maximum. The line below a chart marks every
column with a NaN, an infinity or a skipped step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ..read.table import Table
from .braille import Canvas

LOG_RATIO = 20.0
"""A chart is logarithmic if its values span more than this and none is negative."""
NONFINITE, SKIPPED = "×", "▾"
SKIPPED_SERIES = "skipped"


@dataclass(frozen=True)
class Point:
    """A value, or a bucket of values. ``low`` to ``last`` are NaN if none is finite."""

    start: int
    stop: int
    low: float
    high: float
    first: float
    last: float
    nonfinite: int


Layer = list[Point]
"""Points of one attempt and rank, in order of steps."""


@dataclass(frozen=True)
class Series:
    """One series of a run: what is drawn, and the steps with faults, of superseded attempts too."""

    layers: list[Layer]
    nonfinite: list[Point]

    @property
    def steps(self) -> tuple[int, int] | None:
        """First and last step."""
        found = [point for layer in self.layers for point in layer]
        return (min(p.start for p in found), max(p.stop for p in found)) if found else None


@dataclass(frozen=True)
class Plot:
    """A drawn chart: lines of braille, the line of faults, and the values at the top and the bottom.

    On a logarithmic axis, zero is drawn at the bottom too; ``has_zero`` says so.
    """

    lines: list[str]
    faults: str
    top: float
    bottom: float
    is_log: bool
    has_zero: bool


def series_of(table: Table) -> dict[str, Series]:
    """Return the series of a table by name.

    Where attempts overlap, the newest one is drawn from its first step, and the older ones before it.
    """
    found: dict[str, dict[tuple[int, int], Layer]] = {}
    for row in table.rows():
        layers = found.setdefault(row["series"], {})
        layers.setdefault((row["attempt"], row["rank"]), []).append(_point(row))
    return {name: _series(layers) for name, layers in found.items()}


def _point(row: Mapping[str, float]) -> Point:
    nonfinite = int(row["nan"] + row["pinf"] + row["ninf"])
    low, high, first, last = (_finite(row[name]) for name in ("min", "max", "first", "last"))
    return Point(int(row["step"]), int(row["step_end"]), low, high, first, last, nonfinite)


def _finite(value: float) -> float:
    return value if math.isfinite(value) else math.nan


def _series(found: Mapping[tuple[int, int], Layer]) -> Series:
    layers: list[Layer] = []
    ends = math.inf
    for attempt in sorted({key[0] for key in found}, reverse=True):
        own = [sorted(layer, key=lambda p: p.start) for key, layer in found.items() if key[0] == attempt]
        layers += [[point for point in layer if point.start < ends] for layer in own]
        ends = min(ends, *(layer[0].start for layer in own))
    faults = [point for layer in found.values() for point in layer if point.nonfinite]
    return Series([layer for layer in layers if layer], faults)


def skipped_steps(series: Series | None) -> list[Point]:
    """Return the points of the series ``skipped`` with a skipped step."""
    layers = series.layers if series is not None else []
    return [point for layer in layers for point in layer if point.high > 0]


def plot(series: Series, skipped: Iterable[Point], steps: tuple[int, int], width: int, height: int) -> Plot:
    """Draw a series.

    Args:
        series: What to draw.
        skipped: Points with skipped steps.
        steps: First and last step of the chart.
        width: Characters.
        height: Lines, without the line of faults.
    """
    canvas = Canvas(width, height)
    points = [point for layer in series.layers for point in layer]
    scale = _scale(points)
    across, down = canvas.dots

    def x(step: int) -> int:
        return _column(step, steps, across)

    def y(value: float) -> int:
        return round((down - 1) * (1 - scale.place(value)))

    for layer in series.layers:
        _draw(canvas, layer, x, y)
    faults = _faults(series.nonfinite, skipped, steps, width)
    has_zero = scale.is_log and any(point.low <= 0 for point in points)
    return Plot(canvas.rows(), faults, scale.top, scale.bottom, scale.is_log, has_zero)


def _draw(canvas: Canvas, layer: Layer, x: Callable[[int], int], y: Callable[[float], int]) -> None:
    before: Point | None = None
    for point in layer:
        if math.isfinite(point.low) and math.isfinite(point.high):
            for column in range(x(point.start), x(point.stop) + 1):
                canvas.bar(column, y(point.high), y(point.low))
        if before is not None and math.isfinite(before.last) and math.isfinite(point.first):
            canvas.line(x(before.stop), y(before.last), x(point.start), y(point.first))
        before = point


@dataclass(frozen=True)
class _Scale:
    bottom: float
    top: float
    is_log: bool

    def place(self, value: float) -> float:
        """Return the place of a value between 0 (bottom) and 1 (top)."""
        if self.is_log and value <= self.bottom:
            return 0.0  # zero, which a logarithmic axis does not have, is drawn at the bottom
        if self.top == self.bottom:
            return 0.5
        if self.is_log:
            bottom = math.log(self.bottom)
            return (math.log(value) - bottom) / (math.log(self.top) - bottom)
        # Halves, because the difference of two large numbers may be infinite.
        if math.isinf(self.top - self.bottom):
            return (value / 2 - self.bottom / 2) / (self.top / 2 - self.bottom / 2)
        return (value - self.bottom) / (self.top - self.bottom)


def _scale(points: Iterable[Point]) -> _Scale:
    values = [value for point in points for value in (point.low, point.high) if math.isfinite(value)]
    if not values:
        return _Scale(0.0, 0.0, False)
    low, high = min(values), max(values)
    smallest = min((value for value in values if value > 0), default=0.0)
    if low >= 0 and smallest > 0 and high / smallest > LOG_RATIO:
        return _Scale(smallest, high, True)
    return _Scale(low, high, False)


def _column(step: int, steps: tuple[int, int], columns: int) -> int:
    first, last = steps
    return min(max((step - first) * (columns - 1) // max(1, last - first), 0), columns - 1)


def _faults(nonfinite: Iterable[Point], skipped: Iterable[Point], steps: tuple[int, int], width: int) -> str:
    marks = [" "] * width
    for points, mark in ((skipped, SKIPPED), (nonfinite, NONFINITE)):
        for point in points:
            if point.stop < steps[0] or point.start > steps[1]:
                continue
            first, last = (_column(step, steps, 2 * width) // 2 for step in (point.start, point.stop))
            marks[first : last + 1] = mark * (last + 1 - first)
    return "".join(marks)
