"""Map series names to the column headings of exported tables. Pure functions."""

from __future__ import annotations

COORDINATES = ("writer", "attempt", "rank", "seq", "step", "time_ns", "arrival")
"""Columns of every record in addition to its values; whole numbers."""
PREFIX = "value:"


def heading(name: str) -> str:
    """Return the heading of a series; a name that equals a coordinate gets a prefix to stay unique."""
    return PREFIX + name if name in COORDINATES or name.startswith(PREFIX) else name
