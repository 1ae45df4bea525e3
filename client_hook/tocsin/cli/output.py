"""Write facts to a terminal or a pipe: tables, colors and JSON. rich is used if it is installed."""

from __future__ import annotations

import json
import math
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
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


MARKS = {True: ("ok  ", "green"), False: ("FAIL", "bold red"), None: ("note", "yellow")}
"""Word and style of a result."""


def print_result(ok: bool | None, text: str) -> None:
    """Print a result as one line that begins with ok, FAIL or note."""
    print_styled((MARKS[ok][0], MARKS[ok][1]), (f"{GAP}{shown(text)}", ""))


def print_styled(*parts: tuple[str, str]) -> None:
    """Print text in parts with a style each, which a terminal shows as colors. Long lines are wrapped."""
    if sys.stdout.isatty() and has_rich():
        from rich.console import Console
        from rich.text import Text

        Console(highlight=False).print(Text.assemble(*parts), soft_wrap=True)
    else:
        print("".join(text for text, _ in parts), flush=True)


def print_table(head: Sequence[str], rows: Sequence[Sequence[object]], *, empty: str) -> None:
    """Print a table. On a terminal it fits the width; in a pipe nothing is shortened."""
    cells = [[shown(cell) for cell in row] for row in rows]
    if not cells:
        print(empty)
    elif sys.stdout.isatty() and has_rich():
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


def has_rich() -> bool:
    """Return whether rich is installed."""
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
