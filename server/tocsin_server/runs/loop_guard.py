"""Interrupt rules that do not end while the server evaluates them itself.

They run on its event loop, so that without this one rule that loops would stop the whole server. A thread
notices the loop, and a signal raises an exception in it. Python runs handlers of signals on the main thread
between two instructions, so the handler knows for certain whether the item is still being evaluated.
"""

from __future__ import annotations

import logging
import signal
import threading
from contextlib import AbstractContextManager
from types import FrameType

log = logging.getLogger("tocsin.rules")

LOOK_S = 1.0
LOOKS = 10
"""An evaluation is interrupted after this many looks. While the process is stopped, none happens."""


class EndlessRuleError(Exception):
    """A rule did not end."""


class LoopGuard(AbstractContextManager[None]):
    """Watches the evaluation of items, each within ``with guard:`` on the main thread."""

    def __init__(self) -> None:
        self._item = 0
        """Number of the item; odd while it is evaluated."""
        self._endless = 0
        """Number of the item that is interrupted."""
        self._stopped = threading.Event()

    def start(self) -> None:
        """Begin to watch, if the event loop runs on the main thread of a system with signals."""
        if threading.current_thread() is threading.main_thread() and hasattr(signal, "pthread_kill"):
            signal.signal(signal.SIGUSR2, self._interrupt)
            threading.Thread(target=self._watch, name="tocsin loop guard", daemon=True).start()

    def stop(self) -> None:
        """Watch no more."""
        self._stopped.set()

    def __enter__(self) -> None:
        self._item += 1

    def __exit__(self, *_: object) -> None:
        self._item += 1

    def _watch(self) -> None:
        seen, looks = 0, 0
        while not self._stopped.wait(LOOK_S):
            looks = looks + 1 if self._item == seen and seen % 2 else 0
            seen = self._item
            if looks == LOOKS:
                log.error("The rules of a run have not ended for %d s. They are interrupted.", LOOKS * LOOK_S)
                self._endless, looks = seen, 0
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR2)

    def _interrupt(self, _number: int, _frame: FrameType | None) -> None:
        if self._item == self._endless:
            raise EndlessRuleError(f"The rule did not end within {LOOKS * LOOK_S:g} s.")
