"""Join single values, as trackers store them, to rows."""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from .items import Parsed, Row, Unread

SYSTEM = "system/"
"""Beginning of the names of system metrics, which have a step count of their own. They are left out."""


class Point(NamedTuple):
    """One value of one metric. ``line`` is its place in the file or table."""

    line: int
    name: str
    step: float
    value: float
    time_ns: int | None = None


def joined(points: Iterable[Point | Unread]) -> Iterator[Parsed]:
    """Yield a row for each series of consecutive points of the same step. The order is kept, so that points
    which are added later come after the rows of those before.
    """
    row: Row | None = None
    for point in points:
        if isinstance(point, Unread):
            yield point
            continue
        if point.name.startswith(SYSTEM):
            continue
        if row is not None and (row.step != point.step or point.name in row.values):
            yield row
            row = None
        if row is None:
            row = Row(point.line, {}, step=point.step, time_ns=point.time_ns, binary=True)
        row.values[point.name] = point.value
    if row is not None:
        yield row


class Numbered:
    """Number the points of a run in which all have step 0, because the script gave no steps: the metric that
    was logged most often counts the steps, and the others have the current step.
    """

    def __init__(self) -> None:
        self._count: dict[str, int] = {}
        self._step = 0

    def of(self, point: Point) -> Point:
        """Return the point with its step."""
        count = self._count.get(point.name, 0)
        self._count[point.name] = count + 1
        self._step = max(self._step, count)
        return point._replace(step=float(self._step))


class SeriesByStep:
    """The values of a run whose tracker stores each series on its own, yielded in the order of the steps.

    They are held in memory: 24 bytes for each value.
    """

    def __init__(self) -> None:
        self._series: dict[str, tuple[array[float], array[float], array[float]]] = {}

    def add(self, name: str, step: float, value: float, time_s: float) -> None:
        """Add a value; ``time_s`` is a Unix time, 0 if it is unknown."""
        series = self._series.setdefault(name, (array("d"), array("d"), array("d")))
        for column, number in zip(series, (step, value, time_s), strict=True):
            column.append(number)

    def points(self) -> Iterator[Point]:
        """Yield all values, those of a step together."""
        return heapq.merge(*map(self._ordered, self._series), key=lambda point: point.step)

    def _ordered(self, name: str) -> Iterator[Point]:
        steps, values, times = self._series[name]
        for place in sorted(range(len(steps)), key=steps.__getitem__):
            time_ns = int(times[place] * 1e9) if 0 < times[place] < 9.2e9 else None
            yield Point(place + 1, name, steps[place], values[place], time_ns)
