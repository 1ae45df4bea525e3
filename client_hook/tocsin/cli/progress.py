"""Progress of work that takes more than a second: on a terminal only, on standard error."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .output import has_rich

SHOW_AFTER_S = 1.0
BYTES = "B"


class Progress:
    """Counts work. This one shows nothing.

    Args:
        what: What is being done, such as "Exporting".
        total: The number of ``unit`` at the end, or None if it is unknown.
        unit: BYTES, or the name of what is counted.
        show_after_s: Seconds after which it is shown.
    """

    def __init__(self, what: str, total: int | None, unit: str, show_after_s: float) -> None:
        self._what, self._total, self._unit = what, total, unit
        self._done, self._show_at = 0, time.monotonic() + show_after_s

    def advance(self, n: int) -> None:
        """Count ``n`` more."""
        self._done += n
        if time.monotonic() >= self._show_at:
            self._draw()

    def print(self, write: Callable[[], object]) -> None:
        """Let ``write`` print to standard output without mixing with what is shown here."""
        self.close()
        write()

    def close(self) -> None:
        """Remove it from the terminal."""

    def _draw(self) -> None:
        """Show how much is done."""


@contextmanager
def progress(
    what: str, total: int | None = None, unit: str = "", *, show_after_s: float = SHOW_AFTER_S
) -> Iterator[Progress]:
    """Yield a Progress; see its arguments. Nothing is shown in a pipe."""
    shows = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    kind = Progress if not shows else _RichBar if has_rich() else _Line
    bar = kind(what, total, unit, show_after_s)
    try:
        yield bar
    finally:
        bar.close()


class _Line(Progress):
    """One line that is overwritten."""

    _drawn = False

    def _draw(self) -> None:
        self._drawn = True
        done = f"{self._done / 1e6:.1f} MB" if self._unit == BYTES else f"{self._done} {self._unit}"
        part = f" {100 * self._done // self._total} %" if self._total else ""
        print(f"\r{self._what}{part} {done}\x1b[K", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        if self._drawn:
            self._drawn = False
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


class _RichBar(Progress):
    """A bar of rich. It leaves standard output alone."""

    _bar: Any = None
    _task: Any = None

    def _draw(self) -> None:
        if self._bar is None:
            self._start()
        self._bar.update(self._task, completed=self._done)

    def _start(self) -> None:
        from rich import progress as rich_progress
        from rich.console import Console

        amount: Any = (
            rich_progress.DownloadColumn()
            if self._unit == BYTES
            else rich_progress.TextColumn(f"{{task.completed}} {self._unit}")
        )
        columns = ("{task.description}", rich_progress.BarColumn(), amount, rich_progress.TimeElapsedColumn())
        self._bar = rich_progress.Progress(
            *columns,
            console=Console(stderr=True),
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task = self._bar.add_task(self._what, total=self._total, completed=self._done)
        self._bar.start()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
