"""A sliding window over a series with count, sum, extremes, ends and non-finite values at constant cost.

The window is divided into at most ``SLOTS`` slots, each of which holds an aggregate of its values; a window
of up to ``SLOTS`` steps has one slot per step. The slots are kept in two stacks (a queue of two stacks, as in
Tangwongsan et al., "General incremental sliding-window aggregation", 2015). Nothing is ever subtracted, so a
value of 1e300 or an infinity has no effect once it has left the window.
"""

from __future__ import annotations

import msgspec

SLOTS = 256

Sum = tuple[int, int, float, float, float, int, int, float, int, float]
"""Slot, count, sum, minimum, maximum, number of non-finite values, x and value of the first value, x and
value of the last.

NaN counts as non-finite and is excluded from the rest; if the count is 0, there is no first and no last
value.
"""

INF = float("inf")


def single(slot: int, x: int, value: float) -> Sum:
    """Return the aggregate of one value at ``x``."""
    if value != value:
        return slot, 0, 0.0, INF, -INF, 1, x, 0.0, x, 0.0
    bad = 1 if value in (INF, -INF) else 0
    return slot, 1, value, value, value, bad, x, value, x, value


def joined(a: Sum, b: Sum) -> Sum:
    """Merge two aggregates, ``a`` before ``b``; the slot is that of ``a``."""
    if not b[1]:
        return (*a[:5], a[5] + b[5], *a[6:])
    if not a[1]:
        return (a[0], *b[1:5], a[5] + b[5], *b[6:])
    low = a[3] if a[3] <= b[3] else b[3]
    high = a[4] if a[4] >= b[4] else b[4]
    return a[0], a[1] + b[1], a[2] + b[2], low, high, a[5] + b[5], a[6], a[7], b[8], b[9]


class Window(msgspec.Struct):
    """The last ``slots`` slots of ``size`` steps or nanoseconds each."""

    size: int
    slots: int
    front: list[Sum] = []
    """Older slots, the oldest last, each merged with the later ones in this stack."""
    back: list[Sum] = []
    """Newer slots, the oldest first, not merged."""
    behind: Sum | None = None
    """All of ``back`` merged."""
    now: Sum | None = None
    """The slot that is being filled."""

    @classmethod
    def of(cls, amount: int) -> Window:
        """Return a window of ``amount`` steps or nanoseconds."""
        size = max(1, -(-amount // SLOTS))
        return cls(size, max(1, -(-amount // size)))

    def put(self, x: int, value: float) -> Sum:
        """Add a value at ``x``, which never decreases; return the aggregate of the window ending there."""
        slot = x // self.size
        fresh = single(slot, x, value)
        now = self.now
        if now is None or slot > now[0]:
            if now is not None:
                self.back.append(now)
                self.behind = now if self.behind is None else joined(self.behind, now)
            self.now = fresh
            self._let_go(slot - self.slots)
        else:
            self.now = joined(now, fresh)
        return self._whole()

    @property
    def bad(self) -> int:
        """Return the number of non-finite values in the slots that are kept."""
        parts = (self.front[-1] if self.front else None, self.behind, self.now)
        return sum(part[5] for part in parts if part is not None)

    def _let_go(self, last_gone: int) -> None:
        """Drop slots up to ``last_gone``."""
        while True:
            if not self.front and self.back:
                self._turn()
            if not self.front or self.front[-1][0] > last_gone:
                return
            self.front.pop()

    def _turn(self) -> None:
        """Move the newer stack to the older one."""
        whole: Sum | None = None
        for slot in reversed(self.back):
            whole = slot if whole is None else joined(slot, whole)
            self.front.append(whole)
        self.back, self.behind = [], None

    def _whole(self) -> Sum:
        assert self.now is not None
        whole = self.now if self.behind is None else joined(self.behind, self.now)
        return joined(self.front[-1], whole) if self.front else whole


def reduce(reducer: str, whole: Sum, unit: float) -> float | None:
    """Return the reduced value, or None if there is nothing to compare.

    Args:
        reducer: ``nonfinite``, ``mean``, ``min``, ``max``, ``ratio``, ``change`` or ``rate``.
        whole: The aggregate of the window.
        unit: Length of the unit of a rate, in steps or ns.
    """
    if reducer == "nonfinite":
        return float(whole[5])
    if not whole[1]:
        return None
    if reducer == "mean":
        return whole[2] / whole[1]
    if reducer == "min":
        return whole[3]
    if reducer == "max":
        return whole[4]
    if reducer == "ratio":
        return _ratio(whole[9], whole[2] / whole[1])
    change = whole[9] - whole[7]
    if reducer == "change":
        return change
    return change * unit / (whole[8] - whole[6]) if whole[8] > whole[6] else None


def _ratio(newest: float, mean: float) -> float | None:
    """Return the newest value divided by the mean, or None where that is no measure of its size.

    An infinite value is above or below every multiple of the mean. After it, the mean of the window is
    infinite and no level for finite values; neither is a mean of 0 or less.
    """
    if newest in (INF, -INF):
        return newest
    return newest / mean if 0 < mean < INF else None
