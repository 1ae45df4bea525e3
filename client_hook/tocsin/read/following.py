"""Decide when a followed run is asked again, and when it is over. Pure."""

from __future__ import annotations

from .errors import UnreachableError
from .exchange import Wait

ENDED = ("finished", "failed")
LOST = "lost"
LOST_PAUSE_S = 1.0
"""Least pause between two requests while the run is lost."""
OUTAGE_PAUSE_S = 2.0
"""Pause between two attempts to reach the server, in addition to the retries."""


class Following:
    """The pauses of one run that is followed.

    Args:
        interval_s: Pause between two requests.
        outage_s: For how long the server may be unavailable.
        lost_s: For how long a lost run may come back.
    """

    def __init__(self, interval_s: float, outage_s: float, lost_s: float) -> None:
        self._interval_s, self._outage_s, self._lost_s = interval_s, outage_s, lost_s
        self._missed_s = self._silent_s = 0.0

    def missed(self, error: UnreachableError) -> Wait:
        """Return the pause after a request without an answer; raise its error if the outage is too long."""
        if self._missed_s >= self._outage_s:
            raise error
        self._missed_s += OUTAGE_PAUSE_S
        return Wait(OUTAGE_PAUSE_S)

    def reached(self) -> None:
        """Note that the server answered."""
        self._missed_s = 0.0

    def after(self, state: str) -> Wait | None:
        """Return the pause after everything new was read, or None if the run in this state is over."""
        if state != LOST:
            self._silent_s = 0.0
        if state in ENDED or (state == LOST and self._silent_s >= self._lost_s):
            return None
        pause_s = (
            self._interval_s if state != LOST else max(self._interval_s, min(LOST_PAUSE_S, self._lost_s))
        )
        self._silent_s += pause_s
        return Wait(pause_s)
