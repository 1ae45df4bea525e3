"""Limit the notifications per hour of a channel; the rest is sent in digests. Pure."""

from __future__ import annotations

HOUR_NS = 3600 * 10**9
DIGEST_NS = 600 * 10**9
"""Minimum interval between digests."""
LATE_NS = 60 * 10**9
"""How long the digest of a run's late alerts waits after the last one for more of the spool."""
LATE_MOST_NS = 600 * 10**9
"""Maximum wait after the first late alert."""
LATE_AGAIN_NS = 24 * HOUR_NS
"""Late alerts are shown on pages only for this long after their run's digest."""


def is_over(sent_last_hour: int, limit_per_hour: int) -> bool:
    """Return whether another notification would exceed the limit; 0 means no limit."""
    return 0 < limit_per_hour <= sent_last_hour


def digest_due(due_ns: int | None, notified_ns: int | None, now_ns: int) -> int:
    """Return when the digest of a channel is due after something was held back."""
    if due_ns is not None:
        return due_ns
    return max(now_ns, (notified_ns or 0) + DIGEST_NS) if notified_ns else now_ns + DIGEST_NS


def late_due(first_ns: int, now_ns: int) -> int:
    """Return when the digest of a run's late alerts is due after another one arrived."""
    return min(now_ns + LATE_NS, first_ns + LATE_MOST_NS)
