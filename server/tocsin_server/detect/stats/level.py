"""The usual level of a heavy-tailed positive signal: its median, and the spread of its logarithm.

Gradient norms are log-normal at best, so that several times the median is usual for some runs and
alarming for others: what counts is the ratio together with the run's own spread.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import cast

import msgspec

from tocsin_server.detect.interface.view import Values
from tocsin_server.detect.stats.rolling import MAD_TO_SIGMA, middle

LEAST_SPREAD = 0.05
"""Of the logarithm: smoother signals are treated as if they had this spread."""

FIRST, FLOOR = 40, 0.3
"""Values whose median is the first level, and the share of it below which nothing is off: a norm that has
fallen a millionfold may rise a thousandfold and is still next to nothing."""
NEWEST = 50
"""Values that a value off the level must exceed as well: the first norms of a run are high."""


class Level(msgspec.Struct):
    """Median of the last ``kept`` values, worked out anew after every ``refresh`` of them."""

    kept: int = 200
    refresh: int = 40
    values: list[float] = []
    left: int = 0
    """Values until the median is worked out anew, less than ``refresh``; 0: it is due with the next."""
    median: float = 0.0
    first: float = 0.0
    """The median of the first values; 0 until it is known."""

    @property
    def room(self) -> int:
        """How many values may come before the median changes; at least one."""
        return max(1, self.refresh - self.left)

    def extend(self, values: list[float]) -> None:
        """Takes at most ``room`` values, finite ones."""
        self.values += values
        self.left += len(values)
        if self.left >= self.refresh or len(self.values) <= self.refresh:
            self.left %= self.refresh
            if len(self.values) > self.kept:
                del self.values[: -self.kept]
            self.median = middle(sorted(self.values))
            if not self.first and len(self.values) >= FIRST:
                self.first = self.median

    def quick(self, values: Values, ratio: float, warm_up: int) -> bool:
        """Takes one value that is calm and changes no median; False where more is to be done."""
        if len(values) != 1 or self.left + 1 >= self.refresh or len(self.values) < warm_up:
            return False
        value = values[0]
        if value is None or not value <= ratio * self.median:
            return False
        self.values.append(value)
        self.left += 1
        return True

    def unusual(self, norms: Values, ratio: float, quiet: Callable[[], bool]) -> Iterator[int]:
        """Rows of ``norms`` that must be judged one by one; stretches of calm ones are taken at once.

        ``quiet``: whether nothing is under way that would look at calm ones too.
        """
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
        """Begins anew with ``values``."""
        self.values, self.left = values[-self.kept :], 0
        self.median = middle(sorted(self.values))

    def calm(self, values: Values, ratio: float) -> bool:
        """Whether all of ``values`` are there, finite and at most ``ratio`` times the median."""
        try:
            return math.isfinite(sum(values)) and max(values) <= ratio * self.median  # type: ignore[arg-type,type-var,operator]
        except TypeError:
            return False

    def leaves(self, value: float, ratio: float, deviations: float) -> bool:
        """Whether ``value`` is beyond ``ratio`` times the median, the newest values, and the usual spread."""
        median = self.median
        if median <= 0 or value <= max(ratio * median, FLOOR * self.first, *self.values[-NEWEST:]):
            return False
        off = [abs(math.log(other / median)) for other in self.values if other > 0]
        spread = max(MAD_TO_SIGMA * middle(sorted(off)), LEAST_SPREAD)
        return math.log(value / median) > deviations * spread
