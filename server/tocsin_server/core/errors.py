"""The one root of the errors this server raises on purpose; each says subject, expected, got."""

from __future__ import annotations

from reprlib import Repr

_SHOWN = Repr()
_SHOWN.maxstring = _SHOWN.maxother = _SHOWN.maxlong = 1000
_SHOWN.maxlist = _SHOWN.maxtuple = _SHOWN.maxdict = 20
"""Shows what somebody wrote: short, and whatever its depth."""


class TocsinError(Exception):
    """Something a person can act on: the text is a sentence for them, no traceback needed."""


class SettingError(TocsinError, ValueError):
    """A setting that cannot be used."""

    def __init__(self, name: str, expected: str, got: object, origin: str = "") -> None:
        where = f" (from {origin})" if origin else ""
        super().__init__(f"setting {name}{where}: expected {expected}, got {_SHOWN.repr(got)}")
        self.name = name
        self.expected = expected
        self.got = got


class StartError(TocsinError):
    """The server cannot start; the text says why and what to do."""


class FieldError(TocsinError, ValueError):
    """A field of what somebody wrote that does not fit: its path, what was expected, what is there."""

    def __init__(self, field: str, expected: str, got: object) -> None:
        super().__init__(f"{field}: expected {expected}, got {_SHOWN.repr(got)}")
        self.field = field
        self.expected = expected
        self.got = got


class DamagedError(TocsinError):
    """Stored records that cannot be read. ``reason``: what is wrong with them, without what to do."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"Stored records are damaged ({reason}). `tocsin-server check` lists them. "
            "Restore a backup, or delete the run."
        )
        self.reason = reason


def storable(given: object) -> bool:
    """Whether it is a text of characters that databases can hold: no NUL, no half of a surrogate pair."""
    return isinstance(given, str) and not any(each == "\0" or "\ud800" <= each <= "\udfff" for each in given)
