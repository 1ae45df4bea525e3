"""The curve of one series in bounded memory: range and last value of equal numbers of records. Pure."""

from __future__ import annotations

from math import inf, isfinite

BUCKETS = 240
"""Maximum number of buckets. If they are full, each two become one."""


class Bucket:
    """A stretch of records."""

    __slots__ = ("high", "last", "low", "nonfinite", "step")

    def __init__(self, step: int) -> None:
        self.step = step
        """The step of its last record."""
        self.low, self.high, self.last = inf, -inf, inf
        self.nonfinite = 0

    def add(self, step: int, value: float) -> None:
        """Add a value."""
        self.step = step
        if not isfinite(value):
            self.nonfinite += 1
            return
        self.last = value
        self.low, self.high = min(self.low, value), max(self.high, value)

    def join(self, later: Bucket) -> None:
        """Add the records of the next stretch."""
        self.step = later.step
        self.nonfinite += later.nonfinite
        if later.high >= later.low:
            self.low, self.high = min(self.low, later.low), max(self.high, later.high)
            self.last = later.last

    @property
    def is_empty(self) -> bool:
        """Whether it has no finite value."""
        return self.high < self.low


class Curve:
    """The buckets of one series, oldest first."""

    def __init__(self) -> None:
        self.buckets: list[Bucket] = []
        self.value = inf
        """The newest value, finite or not."""
        self._each = 1
        self._in_last = 0

    def add(self, step: int, value: float) -> None:
        """Add a record. NaN and infinities are counted, never lost."""
        self.value = value
        if not self.buckets or self._in_last >= self._each:
            if len(self.buckets) >= BUCKETS:
                self._halve()
            self.buckets.append(Bucket(step))
            self._in_last = 0
        self.buckets[-1].add(step, value)
        self._in_last += 1

    def _halve(self) -> None:
        pairs = zip(self.buckets[::2], self.buckets[1::2], strict=True)
        for first, second in pairs:
            first.join(second)
        self.buckets = self.buckets[::2]
        self._each *= 2
