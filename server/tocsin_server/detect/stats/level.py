"""The usual level of a heavy-tailed positive signal: its median, and the spread of its logarithm.

Gradient norms are log-normal at best. Several times the median is usual for some runs and alarming for
others, so a value's ratio to the median is compared with the spread of the same run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import cast

import msgspec

from tocsin_server.detect.interface.view import Values
from tocsin_server.detect.stats.finite import none_finite
from tocsin_server.detect.stats.printed import DIGIT, DROP
from tocsin_server.detect.stats.rolling import MAD_TO_SIGMA, middle

LEAST_SPREAD = 0.05
"""Minimum spread of the logarithm; smoother signals are treated as having it."""

FIRST, FLOOR = 40, 0.3
"""Number of values whose median is the first level, and the share of it below which no value is unusual.

A norm that has fallen a millionfold may rise a thousandfold and is still negligible.
"""
NEWEST = 50
"""Number of newest values that an unusual value must exceed too, because norms start high."""


class Level(msgspec.Struct):
    """Median of the last ``kept`` values, recomputed after every ``refresh`` values."""

    kept: int = 200
    refresh: int = 40
    values: list[float] = []
    left: int = 0
    """Number of values added since the median was computed; always below ``refresh``."""
    median: float = 0.0
    low: float = 0.0
    """The least median that the next ``refresh`` values can lead to; 0 if unknown."""
    first: float = 0.0
    """The median of the first values; 0 until it is known."""

    @property
    def room(self) -> int:
        """Return how many values may be added before the median changes; at least 1."""
        return max(1, self.refresh - self.left)

    def extend(self, values: list[float]) -> None:
        """Add at most ``room`` finite values."""
        self.values += values
        self.left += len(values)
        if self.left >= self.refresh or len(self.values) <= self.refresh:
            self.left %= self.refresh
            if len(self.values) > self.kept:
                del self.values[: -self.kept]
            self._measure()
            if not self.first and len(self.values) >= FIRST:
                self.first = self.median

    def quick(self, values: Values, ratio: float, warm_up: int) -> bool:
        """Add a single calm value without recomputing the median; return False if the slow path is needed.

        Args:
            values: The values of a view.
            ratio: Multiple of the median up to which a value is calm.
            warm_up: Number of values before the level is used.
        """
        if len(values) != 1 or self.left + 1 >= self.refresh or len(self.values) < warm_up:
            return False
        value = values[0]
        if value is None or not value <= ratio * self.median:
            return False
        self.values.append(value)
        self.left += 1
        return True

    def unusual(self, norms: Values, ratio: float, quiet: Callable[[], bool]) -> Iterable[int]:
        """Return the rows of ``norms`` that must be checked one by one.

        Stretches of calm values are added at once. Values that are NaN or infinite are ignored, so there is
        nothing to check if all of them are.

        Args:
            norms: The norms of a view.
            ratio: Multiple of the median up to which a value is calm.
            quiet: Function that returns whether calm values matter to nothing in progress.
        """
        return () if none_finite(norms) else self._by_parts(norms, ratio, quiet)

    def _by_parts(self, norms: Values, ratio: float, quiet: Callable[[], bool]) -> Iterator[int]:
        start, n = 0, len(norms)
        while start < n:
            stop = min(n, start + self.room)
            part = norms if stop - start == n else norms[start:stop]
            if quiet() and self.calm(part, ratio):
                self.extend(cast(list[float], part))
            else:
                yield from range(start, stop)
            start = stop

    def begin(self, values: list[float]) -> None:
        """Start again with ``values``."""
        self.values, self.left = values[-self.kept :], 0
        self._measure()

    def _measure(self) -> None:
        ordered = sorted(self.values)
        self.median = middle(ordered)
        rank = (len(ordered) - 1) // 2 - self.refresh
        self.low = ordered[rank] if rank >= 0 else 0.0

    def ceiling(self, ratio: float, records: int) -> float:
        """Return a value that is at most ``ratio`` times the median at each of the next ``records`` values.

        It holds whatever these values are; 0 if nothing is known.
        """
        if records > self.refresh:
            return 0.0
        return ratio * (self.median if self.left + records < self.refresh else min(self.median, self.low))

    def calm(self, values: Values, ratio: float) -> bool:
        """Return whether all of ``values`` are present, finite and at most ``ratio`` times the median."""
        try:
            return math.isfinite(sum(values)) and max(values) <= ratio * self.median  # type: ignore[arg-type,type-var,operator]
        except TypeError:
            return False

    def leaves(self, value: float, ratio: float, deviations: float, quantum: float = 0.0) -> bool:
        """Return whether ``value`` is unusually high.

        Args:
            value: A finite norm.
            ratio: Multiple of the median that it must exceed.
            deviations: Number of robust standard deviations of the logarithm that it must exceed.
            quantum: Distance between two values that can be printed; 0 if they are recorded in full. The
                ratio to a median of only a few quanta is unknown, as is the spread.
        """
        median = self.median
        if quantum and median < DIGIT * quantum and value < DROP * quantum:
            return False
        if median <= 0 or value <= max(ratio * median, FLOOR * self.first, *self.values[-NEWEST:]):
            return False
        off = [abs(math.log(other)) for other in [other / median for other in self.values] if other > 0]
        spread = max(MAD_TO_SIGMA * middle(sorted(off)), LEAST_SPREAD)
        return math.log(value / median) > deviations * spread
