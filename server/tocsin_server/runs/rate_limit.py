"""Limit how fast one writer may send. Pure.

Records and events that *arrive* faster than the limit are delayed, never dropped, because after an outage a
client delivers hours of them at once. Events that were *created* faster than their limit, by the client's
clock, are rejected. Otherwise a loop that reports an event in every iteration would delay the records behind
its events for as long as it runs.
"""

from __future__ import annotations

BURST_S = 2.0
"""A writer may exceed its rate by this many seconds' worth of records, e.g. after a reconnect."""

EVENT_BURST_S = 100.0
"""A writer may create this many seconds' worth of events at once, e.g. when a script starts."""
EVENT_RECORDS = 20
"""Minimum cost of an event in records; a large event costs one record per :data:`RECORD_BYTES`."""
RECORD_BYTES = 64
"""Bytes in memory, not on the wire: the cost of an event depends on its decoded size."""


class RateLimit:
    """A token bucket of records. Times are seconds of a monotonic clock."""

    def __init__(self, records_per_s: int, now: float) -> None:
        self._rate = float(records_per_s)
        self._credit = self._rate * BURST_S
        self._at = now

    def delay(self, records: int, now: float) -> float:
        """Spend ``records``; return the number of seconds to wait before more are read."""
        self._credit = min(self._credit + (now - self._at) * self._rate, self._rate * BURST_S) - records
        self._at = now
        return max(-self._credit / self._rate, 0.0)


class Allowance:
    """A token bucket that rejects events. It refills by the client's clock, which set the times of the
    events.

    An event older than the newest one means that the client's clock was set back. It may stay behind for
    hours, so meanwhile the bucket refills by the server's monotonic clock.
    """

    def __init__(self, events_per_s: int) -> None:
        self._rate = float(events_per_s)
        self._most = self._credit = self._rate * EVENT_BURST_S
        self._newest_ns: int | None = None
        self._taken_s = 0.0

    def take(self, made_ns: int, now_s: float) -> bool:
        """Spend one event; return False if the limit is exceeded.

        Args:
            made_ns: When the client created it, by its own clock.
            now_s: The server's monotonic clock.
        """
        self._credit = min(self._credit + self._passed_s(made_ns, now_s) * self._rate, self._most)
        self._newest_ns, self._taken_s = max(made_ns, self._newest_ns or 0), now_s
        if self._credit < 1.0:
            return False
        self._credit -= 1.0
        return True

    def _passed_s(self, made_ns: int, now_s: float) -> float:
        """Return the seconds since the last event."""
        if self._newest_ns is None:
            return 0.0
        return (made_ns - self._newest_ns) / 1e9 if made_ns >= self._newest_ns else now_s - self._taken_s


def weight_of_event(size: int) -> int:
    """Return the cost in records of an event whose data takes ``size`` bytes in memory."""
    return max(EVENT_RECORDS, size // RECORD_BYTES)
