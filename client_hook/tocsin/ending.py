"""How runs end by themselves: at exit, by an uncaught exception, and not at all in a fork."""

from __future__ import annotations

import atexit
import os
import sys
import traceback
from types import TracebackType
from typing import Any

from . import _live as live
from . import terminating

LINES = 40
TEXT = 4_000
"""Of an uncaught exception so many last lines and characters are kept."""

_previous: Any = None


def begin(run: Any) -> None:
    """From now on the process's end is the run's end."""
    live.append(run)
    _chain()


def end(run: Any) -> None:
    """It has ended; with the last one the excepthook is as it was."""
    if run in live:
        live.remove(run)
    if not live:
        _unchain()
        terminating.end()


def error_facts(error: BaseException) -> dict[str, Any]:
    """``type``, ``message`` and the last ``lines`` of the traceback."""
    if isinstance(error, terminating.Terminated):
        return error.facts
    try:
        message = str(error)
    except Exception:
        message = "<no message>"
    lines = "".join(traceback.format_exception(type(error), error, error.__traceback__)).splitlines()
    return {
        "type": type(error).__name__,
        "message": message[:TEXT],
        "lines": [line[:400] for line in lines[-LINES:]],
    }


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    for run in tuple(live):
        run.finish(error=error)
    (_previous or sys.__excepthook__)(kind, error, trace)


def _chain() -> None:
    global _previous
    if sys.excepthook is not _uncaught and _previous is None:
        _previous, sys.excepthook = sys.excepthook, _uncaught


def _unchain() -> None:
    """Only if nobody chained after us: else ours stays in the chain and passes on."""
    global _previous
    if sys.excepthook is _uncaught:
        sys.excepthook, _previous = _previous or sys.__excepthook__, None


@atexit.register
def _at_exit() -> None:
    error = terminating.was_noted()
    for run in tuple(live):
        run.finish(error=error)


def _forget() -> None:
    for run in tuple(live):
        run.forget()
    live.clear()
    terminating.forget()
    terminating.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=terminating.before_fork, after_in_parent=terminating.after_fork, after_in_child=_forget
    )
