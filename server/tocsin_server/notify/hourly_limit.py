"""How many notifications an hour a channel gets; what is above it is told in digests. Pure."""

from __future__ import annotations

HOUR_NS = 3600 * 10**9
DIGEST_NS = 600 * 10**9
"""What was held back is told together at most so often."""
LATE_NS = 60 * 10**9
"""After the last late alert of a run its digest waits so long for more of the spool."""
LATE_MOST_NS = 600 * 10**9
"""But not longer than this after the first one."""
LATE_AGAIN_NS = 24 * HOUR_NS
"""Late alerts that come after their run's digest are left to the pages for so long."""


def is_over(sent_last_hour: int, limit_per_hour: int) -> bool:
    """Whether one more would be above the limit; 0: there is no limit."""
    return 0 < limit_per_hour <= sent_last_hour


def digest_due(due_ns: int | None, notified_ns: int | None, now_ns: int) -> int:
    """When the digest of a channel is told, now that something was held back."""
    if due_ns is not None:
        return due_ns
    return max(now_ns, (notified_ns or 0) + DIGEST_NS) if notified_ns else now_ns + DIGEST_NS


def late_due(first_ns: int, now_ns: int) -> int:
    """When the digest of a run's late alerts is told, now that one more came."""
    return min(now_ns + LATE_NS, first_ns + LATE_MOST_NS)
