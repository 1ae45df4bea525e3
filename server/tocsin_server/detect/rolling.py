"""Median and median absolute deviation of the last records: robust against what they are to detect."""

from __future__ import annotations

from bisect import bisect_left, insort

import msgspec

MAD_TO_SIGMA = 1.4826
"""Median absolute deviation to standard deviation, for a normal distribution."""


class RollingMedian(msgspec.Struct):
    """The last ``size`` values in order of arrival and in order of size. Values must be finite."""

    size: int
    arrived: list[float] = []
    ordered: list[float] = []

    def push(self, value: float) -> None:
        """Takes one more value; beyond ``size`` the oldest is forgotten. O(log size) plus a move."""
        self.arrived.append(value)
        insort(self.ordered, value)
        if len(self.arrived) > self.size:
            del self.ordered[bisect_left(self.ordered, self.arrived.pop(0))]

    def __len__(self) -> int:
        return len(self.arrived)

    @property
    def median(self) -> float:
        """The median; needs at least one value."""
        return middle(self.ordered)

    @property
    def sigma(self) -> float:
        """The robust standard deviation: 1.4826 times the median absolute deviation."""
        centre = self.median
        return MAD_TO_SIGMA * middle(sorted([abs(value - centre) for value in self.ordered]))


def middle(ordered: list[float]) -> float:
    """The median of an ordered list with at least one value."""
    half = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[half]
    return (ordered[half - 1] + ordered[half]) / 2
