"""Median and median absolute deviation of the last records: robust against what they are to detect."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

import msgspec

MAD_TO_SIGMA = 1.4826
"""Median absolute deviation to standard deviation, for a normal distribution."""


class RollingMedian(msgspec.Struct):
    """The last ``size`` values in order of arrival. Values must be finite.

    For who seldom asks: values are put in order when the median is wanted, and a push costs no search.
    """

    size: int
    arrived: list[float] = []
    ordered: list[float] = []
    """The same values by size; empty where they were not put in order since the last push."""

    highest: float = float("-inf")
    """The highest of them, -inf without any."""
    deviation: float | None = None
    """The robust standard deviation, None where it was not asked for since the last push."""

    def __post_init__(self) -> None:
        self._highest()  # an older snapshot does not say it

    def push(self, value: float) -> None:
        """Takes one more value; beyond ``size`` the oldest is forgotten."""
        arrived = self.arrived
        arrived.append(value)
        if value > self.highest:
            self.highest = value
        if len(arrived) > self.size and arrived.pop(0) == self.highest:
            self._highest()
        if self.ordered:
            self.ordered, self.deviation = [], None

    def pass_over(self, values: Sequence[float | None], start: int) -> int:
        """Pushes ``values`` from ``start`` on while they are above 0 and none above all that are here.

        The place of the first that is not, or that is missing; their number where all were. Nearly every
        loss of a run comes this way, so one loop does what :meth:`push` does for one.
        """
        arrived, highest, at = self.arrived, self.highest, start
        room = self.size - len(arrived)
        for at in range(start, len(values)):
            value = values[at]
            if value is None or not 0.0 < value <= highest:
                break
            arrived.append(value)
            if room > 0:
                room -= 1
            elif arrived.pop(0) == highest:
                self._highest()
                highest = self.highest
        else:
            at = len(values)
        if at > start and self.ordered:
            self.ordered, self.deviation = [], None
        return at

    def _highest(self) -> None:
        self.highest = max(self.arrived, default=float("-inf"))

    def __len__(self) -> int:
        return len(self.arrived)

    def sort(self) -> list[float]:
        """The values by size."""
        if not self.ordered:
            self.ordered = sorted(self.arrived)
        return self.ordered

    @property
    def median(self) -> float:
        """The median; needs at least one value."""
        return middle(self.sort())

    @property
    def sigma(self) -> float:
        """The robust standard deviation: 1.4826 times the median absolute deviation."""
        if self.deviation is None:
            centre = self.median
            self.deviation = MAD_TO_SIGMA * middle(sorted([abs(value - centre) for value in self.ordered]))
        return self.deviation

    def within(self, height: float, deviations: float) -> bool:
        """Whether ``height`` is at most so many robust standard deviations.

        Half of the values lie between the quartiles, so the deviation is at least the distance of the
        nearer one; that is told from the order alone, and nearly always enough.
        """
        ordered, quarter = self.sort(), len(self.arrived) // 4
        centre = middle(ordered)
        least = min(centre - ordered[quarter], ordered[-1 - quarter] - centre)
        return height <= deviations * (MAD_TO_SIGMA * least) or height <= deviations * self.sigma


class OrderedWindow(msgspec.Struct):
    """The last ``size`` values in order of arrival and in order of size, for who asks after each of them."""

    size: int
    arrived: list[float] = []
    ordered: list[float] = []

    def push(self, value: float) -> list[float]:
        """Takes one more value; beyond ``size`` the oldest is forgotten. The values by size."""
        arrived, ordered = self.arrived, self.ordered
        arrived.append(value)
        insort(ordered, value)
        if len(arrived) > self.size:
            del ordered[bisect_left(ordered, arrived.pop(0))]
        return ordered


def middle(ordered: list[float]) -> float:
    """The median of an ordered list with at least one value."""
    half = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[half]
    return (ordered[half - 1] + ordered[half]) / 2
