"""Write to a terminal or a pipe: tables, colors, JSON and progress. rich is used if it is installed."""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from ..read.text import shown

STYLES = {
    "critical": "bold red",
    "warning": "yellow",
    "info": "cyan",
    "ok": "green",
    "running": "green",
    "failed": "red",
    "lost": "red",
    "stalled": "yellow",
    "open": "bold red",
    "firing": "bold red",
}
"""Style of a cell by its text."""
SHOW_PROGRESS_S = 1.0
"""Work that takes longer than this gets a progress bar."""
GAP = "  "


def print_json(value: Any) -> None:
    """Print data as one line of JSON. NaN and infinities are strings, as in the HTTP API."""
    print(json.dumps(_exact(msgspec.to_builtins(value)), ensure_ascii=False), flush=True)


def _exact(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {name: _exact(each) for name, each in value.items()}
    return [_exact(each) for each in value] if isinstance(value, list) else value


def print_table(head: Sequence[str], rows: Sequence[Sequence[object]], *, empty: str) -> None:
    """Print a table. On a terminal it fits the width; in a pipe nothing is shortened."""
    cells = [[shown(cell) for cell in row] for row in rows]
    if not cells:
        print(empty)
    elif sys.stdout.isatty() and _rich():
        _rich_table(head, cells)
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        for line in plain_table(head, cells, width):
            print(line)


def plain_table(head: Sequence[str], rows: Sequence[Sequence[str]], width: int | None) -> Iterator[str]:
    """Yield the lines of a table of text. With ``width``, lines are cut to it."""
    lines = [list(head), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        text = GAP.join(cell.ljust(each) for cell, each in zip(line, widths, strict=True)).rstrip()
        yield text if width is None or len(text) <= width else text[: width - 1] + "…"


def _rich() -> bool:
    try:
        import rich  # noqa: F401
    except ImportError:
        return False
    return True


def _rich_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table with colors. Lines are cut at the right, so that the id in front stays complete."""
    from rich.console import Console
    from rich.text import Text

    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    console = Console(highlight=False)
    styled = [(row, [STYLES.get(each, "") for each in row]) for row in rows]
    for line, styles in [(head, ["dim"] * len(head)), *styled]:
        cells = zip(line, widths, styles, strict=True)
        parts = [(cell.ljust(width) + GAP, style) for cell, width, style in cells]
        text = Text.assemble(*parts)
        text.rstrip()
        console.print(text, no_wrap=True, overflow="ellipsis")


Advance = Callable[[int], None]


@contextmanager
def progress(what: str, total: int | None, unit: str = "") -> Iterator[Advance]:
    """Yield a function that reports progress; after a second, a bar is shown on a terminal.

    Args:
        what: What is going on, such as "Exporting".
        total: The number of ``unit`` at the end, or None if it is unknown.
        unit: "B" for bytes, else the name of what is counted.
    """
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield lambda _n: None
        return
    bar = _RichBar(what, total, unit) if _rich() else _PlainBar(what, total, unit)
    try:
        yield bar.advance
    finally:
        bar.close()


class _PlainBar:
    def __init__(self, what: str, total: int | None, unit: str) -> None:
        self._what, self._total, self._unit = what, total, unit
        self._done, self._since, self._drawn = 0, time.monotonic(), False

    def advance(self, n: int) -> None:
        self._done += n
        if time.monotonic() - self._since < SHOW_PROGRESS_S and not self._drawn:
            return
        self._drawn = True
        done = f"{self._done / 1e6:.1f} MB" if self._unit == "B" else f"{self._done} {self._unit}"
        part = f" {100 * self._done // self._total} %" if self._total else ""
        print(f"\r{self._what}{part} {done}\x1b[K", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        if self._drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


class _RichBar:
    def __init__(self, what: str, total: int | None, unit: str) -> None:
        self._what, self._total, self._unit = what, total, unit
        self._done, self._since = 0, time.monotonic()
        self._bar: Any = None
        self._task: Any = None

    def advance(self, n: int) -> None:
        self._done += n
        if self._bar is None:
            if time.monotonic() - self._since < SHOW_PROGRESS_S:
                return
            self._start()
        self._bar.update(self._task, completed=self._done)

    def _start(self) -> None:
        from rich import progress as rich_progress
        from rich.console import Console

        amount: Any = (
            rich_progress.DownloadColumn()
            if self._unit == "B"
            else rich_progress.TextColumn(f"{{task.completed}} {self._unit}")
        )
        columns = ("{task.description}", rich_progress.BarColumn(), amount, rich_progress.TimeElapsedColumn())
        self._bar = rich_progress.Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task(self._what, total=self._total, completed=self._done)
        self._bar.start()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
