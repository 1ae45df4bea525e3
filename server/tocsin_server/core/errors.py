"""Base class of the errors that this server raises deliberately, and the ones shared by all packages."""

from __future__ import annotations

from reprlib import Repr

_SHOWN = Repr()
_SHOWN.maxstring = _SHOWN.maxother = _SHOWN.maxlong = 1000
_SHOWN.maxlist = _SHOWN.maxtuple = _SHOWN.maxdict = 20
"""Shows an invalid value in an error: shortened, whatever its size and depth."""


class TocsinError(Exception):
    """An error that users can act on: the text is a complete sentence and needs no traceback."""


class SettingError(TocsinError, ValueError):
    """A setting has an invalid value."""

    def __init__(self, name: str, expected: str, got: object, origin: str = "") -> None:
        where = f" (from {origin})" if origin else ""
        super().__init__(f"setting {name}{where}: expected {expected}, got {_SHOWN.repr(got)}")
        self.name = name
        self.expected = expected
        self.got = got


class StartError(TocsinError):
    """The server cannot start. The text says why and what to do."""


class FieldError(TocsinError, ValueError):
    """A field of user input is invalid: its path, what was expected, what was passed."""

    def __init__(self, field: str, expected: str, got: object) -> None:
        super().__init__(f"{field}: expected {expected}, got {_SHOWN.repr(got)}")
        self.field = field
        self.expected = expected
        self.got = got


class DamagedError(TocsinError):
    """Stored records cannot be read.

    Attributes:
        reason: What is wrong with the records, without what to do.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"Stored records are damaged ({reason}). `tocsin-server check` lists them. "
            "Restore a backup, or delete the run."
        )
        self.reason = reason


def storable(given: object) -> bool:
    """Return whether ``given`` is text that databases can store: no NUL and no lone surrogate."""
    return isinstance(given, str) and not any(each == "\0" or "\ud800" <= each <= "\udfff" for each in given)
