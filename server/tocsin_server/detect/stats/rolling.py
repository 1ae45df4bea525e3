"""Median and median absolute deviation of the last records, which are robust to outliers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

AT_ONCE = 16
"""Values that are passed over together, if they can be."""
MAD_TO_SIGMA = 1.4826
"""Factor from median absolute deviation to standard deviation, for a normal distribution."""


class RollingMedian(msgspec.Struct):
    """The last ``size`` values in order of arrival. Values must be finite.

    Suited to infrequent queries: values are sorted when the median is needed, so a push needs no
    search.
    """

    size: int
    arrived: list[float] = []
    ordered: list[float] = []
    """The same values sorted; empty if they were not sorted since the last push."""

    highest: float = float("-inf")
    """The highest value, -inf without values."""
    deviation: float | None = None
    """The robust standard deviation; None if it was not computed since the last push."""

    def __post_init__(self) -> None:
        self._highest()  # missing in older snapshots

    def push(self, value: float) -> None:
        """Add a value; beyond ``size`` the oldest is dropped."""
        arrived = self.arrived
        arrived.append(value)
        if value > self.highest:
            self.highest = value
        if len(arrived) > self.size and arrived.pop(0) == self.highest:
            self._highest()
        if self.ordered:
            self.ordered, self.deviation = [], None

    def least_median(self, pushes: int) -> float:
        """Return a value that no median falls below within the next ``pushes``; -inf if there is none."""
        rank = (len(self.arrived) - 1) // 2 - pushes
        return self.sort()[rank] if rank >= 0 else float("-inf")

    def pass_over(
        self, values: Sequence[float | None], start: int, stop: int, limit: float = float("-inf")
    ) -> int:
        """Push ``values[start:stop]`` while they are above 0 and at most ``limit`` or the highest value.

        Nearly every loss of a run takes this path, so one loop replaces repeated calls of :meth:`push`.

        Returns:
            The index of the first value that was not pushed, or ``stop``.
        """
        arrived, at = self.arrived, start
        while at < stop and self._pass_some(values[at : min(at + AT_ONCE, stop)]):
            at = min(at + AT_ONCE, stop)
        if at == stop:
            return stop
        highest, room, start = self.highest, self.size - len(arrived), at
        for at in range(start, stop):
            value = values[at]
            if value is None or not 0.0 < value <= highest:
                if value is None or not 0.0 < value <= limit:
                    break
                highest = self.highest = value
            arrived.append(value)
            if room > 0:
                room -= 1
            elif arrived.pop(0) == highest:
                self._highest()
                highest = self.highest
        else:
            at = stop
        if at > start and self.ordered:
            self.ordered, self.deviation = [], None
        return at

    def _pass_some(self, values: Sequence[float | None]) -> bool:
        """Push all of a few values if they are above 0 and none exceeds those that stay; else push none."""
        arrived, n = self.arrived, len(values)
        if len(arrived) != self.size or n >= self.size:
            return False
        highest = max(arrived[n:])
        try:
            if not (math.isfinite(sum(values)) and min(values) > 0.0 and max(values) <= highest):  # type: ignore[arg-type,type-var,operator]
                return False
        except TypeError:
            return False
        arrived += values  # type: ignore[arg-type]
        del arrived[:n]
        self.highest = highest
        if self.ordered:
            self.ordered, self.deviation = [], None
        return True

    def _highest(self) -> None:
        self.highest = max(self.arrived, default=float("-inf"))

    def __len__(self) -> int:
        return len(self.arrived)

    def sort(self) -> list[float]:
        """Return the values sorted."""
        if not self.ordered:
            self.ordered = sorted(self.arrived)
        return self.ordered

    @property
    def median(self) -> float:
        """Return the median; there must be at least one value."""
        return middle(self.sort())

    @property
    def sigma(self) -> float:
        """Return the robust standard deviation: 1.4826 times the median absolute deviation."""
        if self.deviation is None:
            center = self.median
            self.deviation = MAD_TO_SIGMA * middle(sorted([abs(value - center) for value in self.ordered]))
        return self.deviation

    def within(self, height: float, deviations: float) -> bool:
        """Return whether ``height`` is at most ``deviations`` robust standard deviations.

        Half of the values lie between the quartiles, so the deviation is at least the distance of the
        nearer quartile from the median. This bound needs only the sorted values and nearly always
        suffices.
        """
        ordered, quarter = self.sort(), len(self.arrived) // 4
        center = middle(ordered)
        least = min(center - ordered[quarter], ordered[-1 - quarter] - center)
        return height <= deviations * (MAD_TO_SIGMA * least) or height <= deviations * self.sigma


def middle(ordered: list[float]) -> float:
    """Return the median of a sorted list with at least one value."""
    half = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[half]
    return (ordered[half - 1] + ordered[half]) / 2
