"""Remember which runs changed lately: a page with all rows receives only those that changed since."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Collection
from itertools import takewhile

KEPT_S = 60.0
"""A page subscribes right after the response with all rows; after this time, it receives all again."""


class FleetChanges:
    """The runs that changed in the last :data:`KEPT_S` seconds, and cursors into these changes."""

    def __init__(self) -> None:
        self._process = secrets.token_hex(8)
        self._number = 0
        self._forgotten = 0
        """Number of the newest change that was forgotten."""
        self._changed: OrderedDict[str, tuple[int, float]] = OrderedDict()
        """Number and time of the newest change of each run, the oldest first."""

    def note(self, runs: Collection[str], now_s: float) -> None:
        """Remember that these runs changed at the monotonic time ``now_s``."""
        self._number += bool(runs)
        for run_id in runs:
            self._changed[run_id] = self._number, now_s
            self._changed.move_to_end(run_id)
        while self._changed:
            run_id, (number, at_s) = next(iter(self._changed.items()))
            if at_s >= now_s - KEPT_S:
                break
            del self._changed[run_id]
            self._forgotten = number

    def cursor(self) -> str:
        """Return the cursor of now. It means nothing to a server that was started later."""
        return f"{self._process}-{self._number}"

    def since(self, cursor: str) -> set[str] | None:
        """Return the runs that changed after ``cursor``, or None if that is unknown."""
        process, _, text = cursor.partition("-")
        if process != self._process or not text.isdecimal():
            return None
        after = int(text)
        if not self._forgotten <= after <= self._number:
            return None
        newer = takewhile(lambda item: item[1][0] > after, reversed(self._changed.items()))
        return {run_id for run_id, _ in newer}
