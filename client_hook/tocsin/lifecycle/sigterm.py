"""SIGTERM as the end of a run: preemption, ``scancel``, a pod that is deleted, ``kill``.

Python's default ends the process without a word. Where the script has no handler of its own,
this one ends the runs as failed, with the lines the script was at, and then lets the default
happen, so that the exit status stays that of SIGTERM. A script's own handler is never replaced:
there the run ends as that handler ends it. ``TOCSIN_SIGNALS=0`` or ``patch=False`` install nothing.

A fork copies handler and bell. Until the child has forgotten them, SIGTERM waits at its kernel:
taken in between it would be lost (Python clears what is pending in a child), and the bell, which
both share, would make the parent's sender end the parent.

A main thread that hangs in C (a collective, a driver) runs no handler. The signal also wakes
the sender's thread, which ends the run in its stead after ``STUCK_S`` and then the process.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
import threading
import traceback
from types import FrameType
from typing import Any

from ..core.process_state import active_runs as live

STUCK_S = 2.0
"""So long the main thread has to run its handler."""
LINES = 40
MESSAGE = "the process was terminated by SIGTERM"

_wakes: socket.socket | None = None
_noted = False
_masks = threading.local()
"""``before``: the signals that a thread that forks had blocked."""


class Terminated(BaseException):
    """Never raised: stands for SIGTERM where an error is told."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__(MESSAGE)
        self.facts: dict[str, Any] = {"type": "SIGTERM", "message": MESSAGE, "lines": lines[-LINES:]}


def begin() -> None:
    """From now on SIGTERM ends the runs first; not where the script handles it, nor off the main thread."""
    if os.environ.get("TOCSIN_SIGNALS", "").strip().lower() in ("0", "false", "no"):
        return
    if _on_main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminated)


def end() -> None:
    """The last run has ended: the default is back, where nobody else took over since."""
    if _on_main_thread():
        _unhook(_wakes)
        if is_ours():
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def wake(wakeup: socket.socket) -> None:
    """``wakeup`` gets a byte, the signal's number, at once, whatever the main thread does."""
    global _wakes
    if not _on_main_thread() or not is_ours():
        return
    before = signal.set_wakeup_fd(wakeup.fileno(), warn_on_full_buffer=False)
    if before != -1:
        signal.set_wakeup_fd(before)  # an event loop's: it stays
    else:
        _wakes = wakeup


def unset_wakeup(wakeup: socket.socket) -> None:
    """``wakeup`` is to be closed: the signal must not write into whatever gets its number next."""
    if wakeup is _wakes and _on_main_thread():
        _unhook(wakeup)


def rings(wakeup: socket.socket) -> bool:
    """The signal still writes into it, so it has to stay open."""
    return wakeup is _wakes


def is_ours() -> bool:
    """Nobody else has taken SIGTERM over since."""
    return signal.getsignal(signal.SIGTERM) is _terminated


def was_noted() -> Terminated | None:
    """SIGTERM came by way of the script's own handler, and the process ends now."""
    return Terminated([]) if _noted else None


def stuck_facts() -> dict[str, Any]:
    """Where the main thread hangs, told by another thread."""
    ident = threading.main_thread().ident
    frame = sys._current_frames().get(ident) if ident is not None else None
    return {**Terminated(lines_of(frame)).facts, "message": f"{MESSAGE}; its main thread did not answer"}


def lines_of(frame: FrameType | None) -> list[str]:
    """The last lines of the script at ``frame``, as a traceback writes them."""
    text = "".join(traceback.format_stack(frame)) if frame is not None else ""
    return [line[:400] for line in text.splitlines()][-LINES:]


def die() -> None:
    """The default action, from any thread."""
    ctypes.CDLL(None).signal(int(signal.SIGTERM), None)
    os.kill(os.getpid(), signal.SIGTERM)


def before_fork() -> None:
    """SIGTERM waits, where it is ours, until :func:`after_fork`."""
    if is_ours():
        _masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


def after_fork() -> None:
    """In the parent at once, in the child after :func:`forget`: what waited comes now."""
    before = getattr(_masks, "before", None)
    if before is not None:
        _masks.before = None
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def forget() -> None:
    """In a forked child: SIGTERM is its own business, and no bell is the parent's."""
    global _noted
    _noted = False
    end()


def _terminated(number: int, frame: FrameType | None) -> None:
    global _noted
    if not is_ours():
        _noted = True  # a later handler of the script's called this one: it decides what comes
        return
    error = Terminated(lines_of(frame))
    for run in tuple(live):
        run.finish(error=error)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)


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
