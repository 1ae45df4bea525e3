"""Compute when a failed delivery is retried. Pure."""

from __future__ import annotations

FIRST_S, LONGEST_S = 5.0, 900.0
LONGEST_ASKED_S = 3600.0
"""Maximum Retry-After that is respected."""
GIVE_UP_S = 24 * 3600.0
"""A notification older than this is marked as failed; it can be retried manually."""


def pause_s(attempts: int, chance: float, retry_after_s: float | None = None) -> float:
    """Return the seconds until the next attempt.

    They double from 5 s to 15 min, minus up to a quarter of jitter so that retries do not coincide. They are
    at least what the receiver asked for, up to :data:`LONGEST_ASKED_S`.

    Args:
        attempts: Number of failed attempts, at least 1.
        chance: Random number in [0, 1) for the jitter.
        retry_after_s: What the receiver asked for, if anything.
    """
    doubled = min(FIRST_S * 2.0 ** min(attempts - 1, 16), LONGEST_S)
    pause = doubled * (1.0 - 0.25 * chance)
    return max(pause, min(retry_after_s or 0.0, LONGEST_ASKED_S))


def is_too_old(created_ns: int, now_ns: int) -> bool:
    """Return whether to stop retrying."""
    return now_ns - created_ns > GIVE_UP_S * 1e9
