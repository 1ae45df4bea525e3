"""How fast one writer may send. Pure.

What *arrives* faster than the limit is delayed, never dropped: after an outage a trainer delivers
hours of records and events at once. Events that were *made* faster than their limit, by the
trainer's own clock, are rejected: a loop that reports an event in every iteration would otherwise
keep the records behind its events waiting for as long as it runs.
"""

from __future__ import annotations

BURST_S = 2.0
"""A writer may run ahead of its rate by so many seconds' worth: flushes after a reconnect."""

EVENT_BURST_S = 100.0
"""A writer may make so many seconds' worth of events at once: what a script reports at its start."""
EVENT_RECORDS = 20
"""An event costs the server as much as so many records, or one for every :data:`RECORD_BYTES` of it."""
RECORD_BYTES = 64
"""Bytes of memory, not of the wire: the cost of an event follows its decoded size."""


class RateLimit:
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


class Allowance:
    """A token bucket of events that rejects. It fills by the sender's clock, which made the events' times.

    An event from before the newest one comes from a clock that was set back. Such a clock may stay behind for
    hours, so the bucket fills by the server's monotonic clock meanwhile.
    """

    def __init__(self, events_per_s: int) -> None:
        self._rate = float(events_per_s)
        self._most = self._credit = self._rate * EVENT_BURST_S
        self._newest_ns: int | None = None
        self._taken_s = 0.0

    def take(self, made_ns: int, now_s: float) -> bool:
        """Spend one event; return False if it is one too many.

        Args:
            made_ns: When the sender made it, by its own clock.
            now_s: The server's monotonic clock.
        """
        self._credit = min(self._credit + self._passed_s(made_ns, now_s) * self._rate, self._most)
        self._newest_ns, self._taken_s = max(made_ns, self._newest_ns or 0), now_s
        if self._credit < 1.0:
            return False
        self._credit -= 1.0
        return True

    def _passed_s(self, made_ns: int, now_s: float) -> float:
        """Return how much time has passed since the last event."""
        if self._newest_ns is None:
            return 0.0
        return (made_ns - self._newest_ns) / 1e9 if made_ns >= self._newest_ns else now_s - self._taken_s


def weight_of_event(size: int) -> int:
    """Return how many records the delay counts for an event whose data hold ``size`` bytes of memory."""
    return max(EVENT_RECORDS, size // RECORD_BYTES)
