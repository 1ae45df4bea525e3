"""Write facts to a terminal or a pipe: tables, colors and JSON. rich is used if it is installed."""

from __future__ import annotations

import json
import math
import shutil
import sys
import unicodedata
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
NARROWEST = 16
"""A column that a narrow terminal cuts keeps so many cells."""


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


def print_table(
    head: Sequence[str], rows: Sequence[Sequence[object]], *, empty: str, less: Sequence[str] = ()
) -> None:
    """Print a table. On a terminal it fits the width; in a pipe nothing is shortened.

    Args:
        head: The names of the columns.
        rows: The cells.
        empty: What is printed without rows.
        less: Columns that a narrow terminal does not show, the least important first.
    """
    cells = [[shown(cell) for cell in row] for row in rows]
    if not cells:
        print(empty)
        return
    if not sys.stdout.isatty():
        for line in plain_table(head, cells, None):
            print(line)
        return
    width = shutil.get_terminal_size().columns
    head, cells = fitting(head, cells, width, less)
    if has_rich():
        _rich_table(head, cells)
        return
    for line in plain_table(head, cells, width):
        print(line)


def fitting(
    head: Sequence[str], rows: Sequence[Sequence[str]], width: int, less: Sequence[str]
) -> tuple[list[str], list[list[str]]]:
    """Return a table without as many columns of ``less`` as it takes to fit the width.

    The first column, an id, stays complete. The last one is cut by the terminal, so it needs a quarter of the
    width; the others have at most a third.
    """
    lines = [
        [*line[:1], *(_shortened(each, max(NARROWEST, width // 3)) for each in line[1:-1]), *line[1:][-1:]]
        for line in (head, *rows)
    ]
    for name in less:
        *widths, last = _widths(lines)
        if sum(widths) + min(last, max(NARROWEST, width // 4)) + len(GAP) * len(widths) <= width:
            break
        place = lines[0].index(name)
        lines = [line[:place] + line[place + 1 :] for line in lines]
    return lines[0], lines[1:]


def _shortened(cell: str, most: int) -> str:
    """Return a text of at most about ``most`` characters: its beginning and its end."""
    end = most // 2
    return cell if len(cell) <= most else f"{cell[: most - end - 1]}…{cell[-end:]}"


def plain_table(head: Sequence[str], rows: Sequence[Sequence[str]], width: int | None) -> Iterator[str]:
    """Yield the lines of a table of text. With ``width``, lines are cut to it."""
    lines = [list(head), *map(list, rows)]
    widths = _widths(lines)
    for line in lines:
        text = GAP.join(_filled(cell, each) for cell, each in zip(line, widths, strict=True)).rstrip()
        yield text if width is None or len(text) <= width else text[: width - 1] + "…"


def _widths(lines: Sequence[Sequence[str]]) -> list[int]:
    """Return the width of each column."""
    return [max(map(cells_of, column)) for column in zip(*lines, strict=True)]


def cells_of(text: str) -> int:
    """Return how many cells of a terminal a text takes: emoji and CJK take two, combining marks none."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(each) in "WF" for each in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


def _filled(cell: str, width: int) -> str:
    return cell + " " * (width - cells_of(cell))


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

    widths = _widths([head, *rows])
    console = Console(highlight=False)
    styled = [(row, [STYLES.get(each, "") for each in row]) for row in rows]
    for line, styles in [(head, ["dim"] * len(head)), *styled]:
        cells = zip(line, widths, styles, strict=True)
        parts = [(_filled(cell, width) + GAP, style) for cell, width, style in cells]
        text = Text.assemble(*parts)
        text.rstrip()
        console.print(text, no_wrap=True, overflow="ellipsis")
