"""End runs automatically: at exit and after an uncaught exception, but not in a forked child."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import traceback
from types import TracebackType
from typing import Any

from ..core.process_state import active_runs as live
from ..core.redaction import Redactor
from ..core.values import text
from . import exit_status, sigterm

LINES = 40
TEXT = 4_000
"""Maximum number of lines and characters of an uncaught exception that are sent."""

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_CONSOLE = os.path.join(_PACKAGE, "media", "console.py")
_previous: Any = None
_before: Any = None
"""The newest uncaught exception before the excepthook was installed."""
_worker = 0
"""The multiprocessing worker whose end is handled."""


def register(run: Any) -> None:
    """End ``run`` when the process ends."""
    live.append(run)
    _chain()
    exit_status.install(_recorded)
    _watch_worker()


def unregister(run: Any) -> None:
    """Forget a run that has ended. After the last one, restore the excepthook."""
    if run in live:
        live.remove(run)
    if not live:
        _unchain()
        exit_status.uninstall()
        sigterm.uninstall()


def error_facts(error: Any, redact: Redactor) -> dict[str, Any]:
    """Return ``type``, ``message`` and the last ``lines`` of the traceback; for other objects their text."""
    if isinstance(error, exit_status.Ended):
        facts = error.facts
        return {**facts, "message": redact.text(facts["message"]), "lines": redact.lines(facts["lines"])}
    try:
        message = text(error)[:TEXT]
    except Exception:
        message = "<no message>"
    if not isinstance(error, BaseException):
        return {"type": "", "message": redact.text(message), "lines": []}
    strip(error)
    lines = "".join(traceback.format_exception(type(error), error, error.__traceback__)).splitlines()
    return {
        "type": type(error).__name__,
        "message": redact.text(message),
        "lines": redact.lines([text(line[:400]) for line in lines[-LINES:]]),
    }


def strip(error: BaseException | None) -> None:
    """Remove this package's frames from a traceback and from those of its causes.

    An error that was raised in this package keeps them.
    """
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        with contextlib.suppress(Exception):
            one.__traceback__ = _without_ours(one.__traceback__)
        waiting += [one.__cause__, one.__context__]


def _without_ours(trace: TracebackType | None) -> TracebackType | None:
    frames = []
    while trace is not None:
        if trace.tb_frame.f_code.co_filename != _CONSOLE:  # it only calls the write of the script's stream
            frames.append(trace)
        trace = trace.tb_next
    if not frames or _is_ours(frames[-1]):
        return frames[0] if frames else None
    kept: TracebackType | None = None
    for one in reversed(frames):
        if not _is_ours(one):
            kept = TracebackType(kept, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return kept


def _is_ours(trace: TracebackType) -> bool:
    return trace.tb_frame.f_code.co_filename.startswith(_PACKAGE)


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    theirs = _previous or sys.__excepthook__  # before the last run ends, which forgets it
    _end_all(error)
    strip(error)
    theirs(kind, error, error.__traceback__ or trace)
    if issubclass(kind, KeyboardInterrupt) and not hasattr(sys, "ps1"):
        _note_interrupt()


def _note_interrupt() -> None:
    """Make CPython note the KeyboardInterrupt again, so that the process ends by SIGINT (status 130). Code
    that is run from text meanwhile, such as a module that is imported late, clears that note.
    """
    with contextlib.suppress(KeyboardInterrupt):
        exec("raise KeyboardInterrupt")  # noqa: S102 - our own text


def _chain() -> None:
    global _previous, _before
    if sys.excepthook is not _uncaught and _previous is None:
        _previous, sys.excepthook = sys.excepthook, _uncaught
        _before = getattr(sys, "last_value", None)


def _missed_exception() -> BaseException | None:
    """Return an uncaught exception that another excepthook, installed in place of ours, has not passed on.

    Return None in an interactive session, which continues after an exception.
    """
    newest: BaseException | None = getattr(sys, "last_value", None)
    replaced = sys.excepthook is not _uncaught and not hasattr(sys, "ps1")
    return newest if replaced and newest is not _before else None


def _watch_worker() -> None:
    """Handle the end of a multiprocessing worker: it catches exceptions itself, or ends by ``os._exit``."""
    global _worker
    process, util = (sys.modules.get(f"multiprocessing.{name}") for name in ("process", "util"))
    if process is None or util is None or process.parent_process() is None or _worker == os.getpid():
        return
    _worker = os.getpid()
    util.Finalize(None, _worker_ends, exitpriority=0)


def _worker_ends() -> None:
    """End the runs with the exception that ends the worker, or with the cause of its exit."""
    error = sys.exc_info()[1]
    if isinstance(error, SystemExit):
        error = None if error.code in (None, 0) else error.__context__ or error
    with sigterm.deferred():
        _end_all(error or sigterm.noted_signal())


def _recorded() -> int:
    return sum(run.recorded() for run in live)


def _end_all(error: BaseException | None) -> None:
    for run in tuple(live):
        run.finish(error=error)


def _unchain() -> None:
    """Restore the excepthook, unless someone else has chained a hook after ours."""
    global _previous
    if sys.excepthook is _uncaught:
        sys.excepthook, _previous = _previous or sys.__excepthook__, None


@atexit.register
def _at_exit() -> None:
    error = _missed_exception() or exit_status.noted()
    _end_all(sigterm.noted_signal(error is not None) or error)


def _forget() -> None:
    for run in tuple(live):
        run.forget()
    live.clear()
    sigterm.forget()
    sigterm.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=sigterm.before_fork, after_in_parent=sigterm.after_fork, after_in_child=_forget
    )
