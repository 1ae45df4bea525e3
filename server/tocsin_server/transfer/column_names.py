"""What the columns of an exported table are called, and which series is behind a heading. Pure."""

from __future__ import annotations

COORDINATES = ("writer", "attempt", "rank", "seq", "step", "time_ns", "arrival")
"""What every record has besides its values: whole numbers."""
PREFIX = "value:"


def heading(name: str) -> str:
    """A series that is called like a coordinate gets a prefix, so that no heading stands twice."""
    return PREFIX + name if name in COORDINATES or name.startswith(PREFIX) else name


def series_of(text: str) -> str:
    """The series behind a heading: the reverse of :func:`heading`."""
    return text.removeprefix(PREFIX)
