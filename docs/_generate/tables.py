"""Helpers that write Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table. Vertical bars and line breaks in cells are escaped."""
    lines = [_row(head), "|" + " --- |" * len(head), *(_row(row) for row in rows)]
    return "\n".join(lines) + "\n"


def code(text: object) -> str:
    """Return ``text`` as inline code, or a dash if it is empty."""
    return f"`{text}`" if str(text) else "-"


def _row(cells: Sequence[object]) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
