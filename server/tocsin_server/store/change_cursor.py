"""Cursors of lists that are ordered by change, the newest first, and then by id. Pure."""

from __future__ import annotations

from tocsin_server.store.columns import LARGEST

PATTERN = r"^([0-9]{1,19}\..+)?$"


def change_cursor(updated_ns: int, id: str) -> str:
    """Return the cursor after a row."""
    return f"{updated_ns}.{id}"


def place_of_change(after: str) -> tuple[int, str] | None:
    """Return (updated_ns, id) of the row before a page, or None for the first page, which is "".

    Raises:
        ValueError: ``after`` is not a cursor.
    """
    if not after:
        return None
    updated_ns, _, id = after.partition(".")
    if not (updated_ns.isascii() and updated_ns.isdecimal() and len(updated_ns) < 20 and id):
        raise ValueError(f"after: expected the `next` of a page, got {after!r}")
    return min(int(updated_ns), LARGEST), id
