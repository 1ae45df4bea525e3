"""Progress of work that takes more than a second: on a terminal only, on standard error."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .output import has_rich

SHOW_AFTER_S, REDRAW_S = 1.0, 0.1
NARROW = 60
"""Terminals with fewer columns show no bar, only numbers."""
BYTES = "B"


class Progress:
    """Counts work. This one shows nothing.

    Args:
        what: What is being done, such as "Exporting".
        total: The number of ``unit`` at the end, or None if it is unknown.
        unit: BYTES, or the name of what is counted.
    """

    def __init__(self, what: str, total: int | None, unit: str) -> None:
        self._what, self._total, self._unit = what, total, unit
        self._done = 0

    def advance(self, n: int) -> None:
        """Count ``n`` more."""
        self._done += n

    def print(self, write: Callable[[], object]) -> None:
        """Let ``write`` print without mixing with what is shown here."""
        write()

    def close(self) -> None:
        """Remove it from the terminal."""


_shown: list[Progress] = []
"""The progress of the work that is being done, and those within it."""


@contextmanager
def progress(what: str, total: int | None = None, unit: str = "") -> Iterator[Progress]:
    """Yield a Progress; see its arguments. Nothing is shown in a pipe, or within another progress."""
    shows = not _shown and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    kind = Progress if not shows else _RichBar if has_rich() else _Line
    bar = kind(what, total, unit)
    _shown.append(bar)
    try:
        yield bar
    finally:
        _shown.remove(bar)
        bar.close()


class _Shown(Progress):
    """Shown by a thread, so that it also appears while the work waits for a server or a large file."""

    def __init__(self, what: str, total: int | None, unit: str) -> None:
        super().__init__(what, total, unit)
        self._lock = threading.Lock()
        """Held while something is drawn or printed."""
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._redraw, name="tocsin-progress", daemon=True)
        self._thread.start()

    def print(self, write: Callable[[], object]) -> None:
        with self._lock:
            self._erase()
            write()

    def close(self) -> None:
        self._closed.set()
        self._thread.join()
        self._erase()

    def _redraw(self) -> None:
        pause_s = SHOW_AFTER_S
        while not self._closed.wait(pause_s):
            with self._lock:
                self._draw()
            pause_s = REDRAW_S

    def _draw(self) -> None:
        """Show how much is done."""

    def _erase(self) -> None:
        """Remove what is shown."""


class _Line(_Shown):
    """One line that is overwritten."""

    _is_drawn = False

    def _draw(self) -> None:
        self._is_drawn = True
        done = f"{self._done / 1e6:.1f} MB" if self._unit == BYTES else f"{self._done} {self._unit}"
        part = f" {100 * self._done // self._total} %" if self._total else ""
        line = f"{self._what}{part} {done}"[: os.get_terminal_size(sys.stderr.fileno()).columns - 1]
        print(f"\r{line}\x1b[K", end="", file=sys.stderr, flush=True)

    def _erase(self) -> None:
        if self._is_drawn:
            self._is_drawn = False
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


class _RichBar(_Shown):
    """A bar of rich. It leaves standard output alone."""

    _bar: Any = None
    _task: Any = None

    def _draw(self) -> None:
        if self._bar is None:
            self._make()
        self._bar.start()
        self._bar.update(self._task, completed=self._done, refresh=True)

    def _make(self) -> None:
        from rich import progress as rich_progress
        from rich.console import Console

        console = Console(stderr=True)
        amount: Any = (
            rich_progress.DownloadColumn()
            if self._unit == BYTES
            else rich_progress.TextColumn(f"{{task.completed}} {self._unit}")
        )
        bar = [rich_progress.BarColumn()] if console.width >= NARROW else []
        self._bar = rich_progress.Progress(
            *(rich_progress.TextColumn("{task.description}", markup=False), *bar, amount),
            rich_progress.TimeElapsedColumn(),
            console=console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task = self._bar.add_task(self._what, total=self._total)

    def _erase(self) -> None:
        if self._bar is not None:
            self._bar.stop()
