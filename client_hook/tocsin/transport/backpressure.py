"""How long calls of the script wait for room in a full queue."""

from __future__ import annotations

import os

WAIT_S = 0.05
"""Longest time that one call of the script waits for room in the queue."""
LOOK_S = 0.0005
PATIENCE_S, PATIENCE_SHARE = 10.0, 0.05
"""While the sender makes no progress, calls wait for this long in total, and then for this share of the time.
"""


class WaitBudget:
    """Time that calls may still wait without success, so that a disk that hangs does not slow training."""

    def __init__(self, now: float) -> None:
        self._left = PATIENCE_S
        self._at = now

    def left(self, now: float) -> bool:
        """Return whether a call may wait."""
        self._left = min(self._left + (now - self._at) * PATIENCE_SHARE, PATIENCE_S)
        self._at = now
        return self._left > 0

    def spend(self, seconds: float) -> None:
        """Count the time of an unsuccessful wait."""
        self._left -= seconds


def wait_s() -> float:
    """Return ``TOCSIN_LOG_WAIT_MS`` in seconds; default WAIT_S."""
    try:
        return min(max(float(os.environ["TOCSIN_LOG_WAIT_MS"]) / 1000, 0.0), 10.0)
    except (KeyError, ValueError):
        return WAIT_S
