"""Tells a database that is away for now from data that it cannot take, and quotes its own words."""

from __future__ import annotations

import sqlite3

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, TimeoutError

AWAY_ON_SQLITE = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_CANTOPEN", "SQLITE_FULL", "SQLITE_PROTOCOL",
                  "SQLITE_READONLY", "SQLITE_NOMEM", "SQLITE_INTERRUPT")  # fmt: skip
"""Beginnings of the names of SQLite's errors that may be over in a moment. A damaged page (SQLITE_CORRUPT,
SQLITE_IOERR) is not among them: it concerns the rows on it."""


def is_outage(error: BaseException) -> bool:
    """Return whether `error` says that the database cannot be used now, whatever was asked of it."""
    if isinstance(error, TimeoutError):  # no connection in the pool became free
        return True
    if not isinstance(error, DBAPIError):
        return False
    if error.connection_invalidated:
        return True
    if isinstance(error.orig, sqlite3.Error):
        return getattr(error.orig, "sqlite_errorname", "").startswith(AWAY_ON_SQLITE)
    return isinstance(error, (OperationalError, InterfaceError))


def words(error: BaseException) -> str:
    """Return the database's own words, without SQLAlchemy's statement and parameters."""
    return str(error.orig if isinstance(error, DBAPIError) and error.orig else error).strip()


def line(error: BaseException) -> str:
    """Return the first line of :func:`words`, or the kind of error where it says nothing."""
    return (words(error).splitlines() or [type(error).__name__])[0]
