"""The server's wall clock, which detects when the system clock is set so that durations stay correct."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

log = logging.getLogger("tocsin.clock")

JUMP_NS = 1_000_000_000
"""A change of wall clock minus monotonic clock of at least this counts as setting the clock.

Smaller changes are the ordinary correction of a running clock.
"""


class Clock:
    """Return Unix time in ns when called.

    Calls ``jumped`` with the difference in ns on the first call after the clock was set or the machine
    slept. Call it on the event loop only.
    """

    def __init__(
        self, wall: Callable[[], int] = time.time_ns, steady: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self.jumped: Callable[[int], None] = _nobody
        self._wall = wall
        self._steady = steady
        self._ahead_ns = wall() - steady()

    def __call__(self) -> int:
        now_ns = self._wall()
        ahead_ns = now_ns - self._steady()
        jump_ns, self._ahead_ns = ahead_ns - self._ahead_ns, ahead_ns
        if abs(jump_ns) >= JUMP_NS:
            log.warning("The clock was set by %+.1f s. Durations are not affected.", jump_ns / 1e9)
            self.jumped(jump_ns)
        return now_ns


def _nobody(_jump_ns: int) -> None:
    """Do nothing: the default of ``jumped``."""
