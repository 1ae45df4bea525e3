"""Notice ``sys.exit`` with a status that means failure: Python tells ``atexit`` functions nothing about it.

Only the newest call counts, and only if nothing was recorded after it: a script may catch ``SystemExit`` and
continue. ``raise SystemExit(1)`` cannot be noticed.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

from ..core.values import text

LINES = 40
_previous: Any = None
"""``sys.exit`` as it was; None while it is not replaced."""
_records: Callable[[], int] = int
"""Returns the number of records so far."""
_noted: tuple[BaseException, int] | None = None
"""What ended the script, and the records until then."""


class Ended(BaseException):
    """Stand-in for what ended a script: SIGTERM or a ``SystemExit``. Never raised; keeps no frame alive."""

    def __init__(self, kind: str, message: str, lines: list[str]) -> None:
        super().__init__(message)
        self.facts: dict[str, Any] = {"type": kind, "message": message, "lines": lines[-LINES:]}


def install(records: Callable[[], int]) -> None:
    """Replace ``sys.exit``, once, by a function that notes its status and calls it."""
    global _previous, _records
    _records = records
    if _previous is None:
        _previous, sys.exit = sys.exit, _exit


def uninstall() -> None:
    """Restore ``sys.exit``, unless someone else has replaced it since."""
    global _previous, _noted
    _noted = None
    if sys.exit is _exit:
        sys.exit, _previous = _previous, None


def noted() -> BaseException | None:
    """Return why the script ends, if it called ``sys.exit`` with a failure and recorded nothing after it.

    That is the exception that was being handled, or else an :class:`Ended`. An interactive session continues
    after ``sys.exit``, so None.
    """
    if _noted is None or _noted[1] != _records() or hasattr(sys, "ps1"):
        return None
    return _noted[0]


def _exit(status: Any = None, /) -> Any:
    global _noted
    try:
        _noted = None
        if status not in (None, 0) and threading.current_thread() is threading.main_thread():
            _noted = _reason(status), _records()
    except Exception:
        _noted = None
    return (_previous or _raise)(status)


def _raise(status: Any) -> None:
    raise SystemExit(status)


def _reason(status: Any) -> BaseException:
    handled = sys.exc_info()[1]
    if handled is not None and not isinstance(handled, SystemExit):
        return handled
    stack = "".join(traceback.format_stack(sys._getframe(2))).splitlines()
    return Ended("SystemExit", text(status)[:4_000], [text(line[:400]) for line in stack])
