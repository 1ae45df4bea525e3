"""Write two lines to the terminal: the URL of the run's page, and how the run ended."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping
from typing import Any

from ..core.values import counted
from ..protocol import Alert

KEPT = 100
"""Maximum number of alerts that are kept; the newest are."""


def is_quiet(given: bool | None, environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether to write nothing: ``quiet=`` of ``watch``, or else ``TOCSIN_QUIET``."""
    if given is not None:
        return bool(given)
    return environ.get("TOCSIN_QUIET", "").strip().lower() not in ("", "0", "false", "no")


def is_recorded(given: bool | None, environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether to record the script's output: ``console=`` of ``watch``, or else ``TOCSIN_CONSOLE``."""
    if given is not None:
        return bool(given)
    return environ.get("TOCSIN_CONSOLE", "").strip().lower() not in ("0", "false", "no", "off")


def write(line: str) -> None:
    """Write one line to stderr. Errors are ignored."""
    with contextlib.suppress(Exception):
        print(f"tocsin: {line}", file=sys.stderr, flush=True)


class AlertCounter:
    """Count the alerts of this run that the server reported."""

    def __init__(self) -> None:
        self._fired: set[str] = set()
        self.newest: dict[str, Any] = {}
        """Alerts as the server last sent them, by id."""

    def count(self, message: Any) -> None:
        """Count an alert that fired, once each."""
        if isinstance(message, Alert):
            self.newest.pop(message.id, None)
            self.newest[message.id] = message
            if len(self.newest) > KEPT:
                del self.newest[next(iter(self.newest))]
        if getattr(message, "state", "") == "firing" and len(self._fired) < 10_000:
            self._fired.add(str(message.id))

    def __str__(self) -> str:
        count = len(self._fired)
        return f"{counted(count, 'problem') if count else 'no problems'} found"
