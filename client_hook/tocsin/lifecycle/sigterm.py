"""End runs on SIGTERM: preemption, ``scancel``, a deleted pod, ``kill``.

Python's default handler ends the process immediately. If the script has no handler, ours ends the runs as
failed, with the current traceback, and then triggers the default action, so that the exit status stays that
of SIGTERM. A script's own handler is never replaced: the run ends as that handler ends it.
``TOCSIN_SIGNALS=0`` or ``patch=False`` installs nothing.

A fork copies the handler and the wakeup socket. SIGTERM is blocked until the child has discarded them:
otherwise it could get lost (Python clears pending signals in a child), or the shared socket would make the
parent's sender end the parent.

The parent process terminates its ``multiprocessing`` workers in the same way, as at the end of
``with Pool()``. That is no failure: in a worker that waits for a task, or that reports to its parent's run,
the run ends as usual. If the whole job is terminated, the parent says so.

A main thread that hangs in C code (a collective, a driver) runs no handler. The signal therefore also wakes
the sender thread, which ends the run after ``STUCK_S``, and then the process.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Iterator
from types import FrameType
from typing import Any

from ..core.process_state import active_runs as live
from . import child_processes
from .exit_status import LINES, Ended

STUCK_S = 2.0
"""Time that the main thread has to run its handler."""
IDLE_S = 0.2
"""The same for an idle worker of a pool. It may wait for a lock, which no signal interrupts."""
MESSAGE = "the process was terminated by SIGTERM"

_wakes: socket.socket | None = None
_noted: int | None = None
"""Number of records when the script's own handler called ours."""
_masks = threading.local()
"""``before``: the signals that the forking thread had blocked."""


def install() -> None:
    """Install the handler, unless the script has one or this is not the main thread."""
    if os.environ.get("TOCSIN_SIGNALS", "").strip().lower() in ("0", "false", "no"):
        return
    if _on_main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminated)


def uninstall() -> None:
    """Restore the default handler, unless someone else has installed one since."""
    if _on_main_thread():
        _unhook(_wakes)
        if is_ours():
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def set_wakeup(wakeup: socket.socket) -> None:
    """Write the signal's number to ``wakeup`` immediately, even if the main thread hangs."""
    global _wakes
    if not _on_main_thread() or not is_ours():
        return
    before = signal.set_wakeup_fd(wakeup.fileno(), warn_on_full_buffer=False)
    if before != -1:
        signal.set_wakeup_fd(before)  # an event loop uses it: restore it
    else:
        _wakes = wakeup


def unset_wakeup(wakeup: socket.socket) -> None:
    """Stop writing to ``wakeup``, because it will be closed and its descriptor reused."""
    if wakeup is _wakes and _on_main_thread():
        _unhook(wakeup)


def is_wakeup(wakeup: socket.socket) -> bool:
    """Return whether the signal still writes to it, so that it must stay open."""
    return wakeup is _wakes


def is_ours() -> bool:
    """Return whether our handler is installed."""
    return signal.getsignal(signal.SIGTERM) is _terminated


def noted_signal(has_failed: bool = False) -> Ended | None:
    """Return SIGTERM if the script's own handler has called ours, and the process ends by it.

    A training that recorded more after the signal was not ended by it, unless it has failed.

    Args:
        has_failed: Whether the script ends by an exception or a status other than 0.
    """
    if _noted is None or (_noted != _recorded() and not has_failed):
        return None
    return _ended([])


def patience() -> float:
    """Return the time that the main thread has to run its handler, s."""
    return IDLE_S if _is_idle_worker(_main_frame()) else STUCK_S


def stuck_facts() -> dict[str, Any]:
    """Return the traceback of a main thread that hangs, or nothing if its run ends as usual."""
    frame = _main_frame()
    if child_processes.is_shared_by_parent() or _is_idle_worker(frame):
        return {}
    return _ended(lines_of(frame), f"{MESSAGE}; its main thread did not answer").facts


def _ended(lines: list[str], message: str = MESSAGE) -> Ended:
    return Ended("SIGTERM", message, lines)


def lines_of(frame: FrameType | None) -> list[str]:
    """Return the last lines of the traceback at ``frame``."""
    text = "".join(traceback.format_stack(frame)) if frame is not None else ""
    return [line[:400] for line in text.splitlines()][-LINES:]


def die() -> None:
    """Trigger the default action. May be called from any thread."""
    ctypes.CDLL(None).signal(int(signal.SIGTERM), None)
    os.kill(os.getpid(), signal.SIGTERM)


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Keep SIGTERM for the end of the block, if our handler is installed.

    The end of a pool tells its workers to end, and terminates them while they deliver their last records.
    """
    if not _on_main_thread() or not is_ours():
        yield
        return
    received: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: received.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if received:
            os.kill(os.getpid(), signal.SIGTERM)


def before_fork() -> None:
    """Block SIGTERM, if our handler is installed, until ``after_fork``."""
    if is_ours():
        _masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


def after_fork() -> None:
    """Unblock SIGTERM: in the parent immediately, in the child after ``forget``."""
    before = getattr(_masks, "before", None)
    if before is not None:
        _masks.before = None
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def forget() -> None:
    """In a forked child: remove the handler and the parent's wakeup socket."""
    global _noted
    _noted = None
    uninstall()


def _terminated(number: int, frame: FrameType | None) -> None:
    global _noted
    if not is_ours():
        _noted = _recorded()  # a later handler of the script called ours, and decides what happens
        return
    is_usual = child_processes.is_shared_by_parent() or _is_idle_worker(frame)
    error = None if is_usual else _ended(lines_of(frame))
    for run in tuple(live):
        run.finish(error=error)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)


def _recorded() -> int:
    return sum(run.recorded() for run in live)


def _main_frame() -> FrameType | None:
    ident = threading.main_thread().ident
    return sys._current_frames().get(ident) if ident is not None else None


def _is_idle_worker(frame: FrameType | None) -> bool:
    """Return whether this process is a worker of a ``multiprocessing.Pool`` that waits for its next task."""
    pool = sys.modules.get("multiprocessing.pool")
    folder = os.path.dirname(getattr(pool, "__file__", None) or "")
    while pool is not None and frame is not None and frame.f_code.co_filename.startswith(folder):
        if frame.f_code is pool.worker.__code__:
            return True
        frame = frame.f_back
    return False


def _unhook(wakeup: socket.socket | None) -> None:
    global _wakes
    if wakeup is None:
        return
    _wakes = None
    now = signal.set_wakeup_fd(-1)
    if now not in (-1, wakeup.fileno()):
        signal.set_wakeup_fd(now)


def _on_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
