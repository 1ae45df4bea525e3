"""When a delivery that failed is tried again. Pure."""

from __future__ import annotations

FIRST_S, LONGEST_S = 5.0, 900.0
LONGEST_ASKED_S = 3600.0
"""A receiver's Retry-After is honoured up to this."""
GIVE_UP_S = 24 * 3600.0
"""A notification older than this is not tried again: it is marked failed and can be retried by hand."""


def pause_s(attempts: int, chance: float, retry_after_s: float | None = None) -> float:
    """Seconds until the next attempt, after ``attempts`` (1 or more) failed. ``chance`` in [0, 1) is jitter.

    Doubles from 5 s to 15 min, a random quarter less, so that many do not come back at once; never
    sooner than the receiver asked for.
    """
    doubled = min(FIRST_S * 2.0 ** min(attempts - 1, 16), LONGEST_S)
    pause = doubled * (1.0 - 0.25 * chance)
    return max(pause, min(retry_after_s or 0.0, LONGEST_ASKED_S))


def is_too_old(created_ns: int, now_ns: int) -> bool:
    """Whether to give up."""
    return now_ns - created_ns > GIVE_UP_S * 1e9
