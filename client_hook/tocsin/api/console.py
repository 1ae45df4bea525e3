"""The two lines that a run writes to the terminal: the URL of its page, and how it ended."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping
from typing import Any


def is_quiet(given: bool | None, environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether the lines are left out: ``quiet=`` of ``watch``, else ``TOCSIN_QUIET``."""
    if given is not None:
        return bool(given)
    return environ.get("TOCSIN_QUIET", "").strip().lower() not in ("", "0", "false", "no")


def write(line: str) -> None:
    """Write one line to stderr; a closed or missing stderr is no error."""
    with contextlib.suppress(Exception):
        print(f"tocsin: {line}", file=sys.stderr, flush=True)


class Problems:
    """Counts the alerts of this run that the server reported, each once."""

    def __init__(self) -> None:
        self._fired: set[str] = set()

    def hear(self, message: Any) -> None:
        """Note an alert that fired; anything else is ignored."""
        if getattr(message, "state", "") == "firing" and len(self._fired) < 10_000:
            self._fired.add(str(message.id))

    def __str__(self) -> str:
        count = len(self._fired)
        return "no problems found" if not count else f"{count} problem{'s' if count > 1 else ''} found"


def steps(count: int) -> str:
    """``1 step``, ``1,200 steps``."""
    return f"{count:,} step{'' if count == 1 else 's'}"
