"""Distinguish a database that is unavailable from data that it rejects, and quote its error message."""

from __future__ import annotations

import sqlite3

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, TimeoutError

AWAY_ON_SQLITE = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_CANTOPEN", "SQLITE_FULL", "SQLITE_PROTOCOL",
                  "SQLITE_READONLY", "SQLITE_NOMEM", "SQLITE_INTERRUPT")  # fmt: skip
"""Prefixes of the names of SQLite errors that may be temporary. A damaged page (SQLITE_CORRUPT, SQLITE_IOERR)
is not one of them: it affects only the rows on that page."""


def is_outage(error: BaseException) -> bool:
    """Return whether `error` means that the database is unavailable for any statement."""
    if isinstance(error, TimeoutError):  # no connection of the pool became free in time
        return True
    if not isinstance(error, DBAPIError):
        return False
    if error.connection_invalidated:
        return True
    if isinstance(error.orig, sqlite3.Error):
        return getattr(error.orig, "sqlite_errorname", "").startswith(AWAY_ON_SQLITE)
    return isinstance(error, (OperationalError, InterfaceError))


def words(error: BaseException) -> str:
    """Return the database's error message without SQLAlchemy's statement and parameters."""
    return str(error.orig if isinstance(error, DBAPIError) and error.orig else error).strip()


def line(error: BaseException) -> str:
    """Return the first line of :func:`words`, or the error's class if the message is empty."""
    return (words(error).splitlines() or [type(error).__name__])[0]
