"""How fast one writer may send: records above the rate are delayed, never dropped. Pure."""

from __future__ import annotations

BURST_S = 2.0
"""A writer may run ahead of its rate by so many seconds' worth: flushes after a reconnect."""


class Pace:
    """A token bucket of records. Times are seconds of a monotonic clock."""

    def __init__(self, records_per_s: int, now: float) -> None:
        self._rate = float(records_per_s)
        self._credit = self._rate * BURST_S
        self._at = now

    def delay(self, records: int, now: float) -> float:
        """Spends ``records``; returns how many seconds to wait before taking more."""
        self._credit = min(self._credit + (now - self._at) * self._rate, self._rate * BURST_S) - records
        self._at = now
        return max(-self._credit / self._rate, 0.0)
