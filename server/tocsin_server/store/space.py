"""Gives the room of deleted rows back to the file system.

SQLite keeps free pages in the file; ``auto_vacuum=INCREMENTAL`` (set when the file is made)
lets them go a few at a time, and a checkpoint then cuts the file. On Postgres autovacuum makes
the room free for new rows by itself; nothing is done here.
"""

from __future__ import annotations

import sqlite3

from sqlalchemy import Connection

PAGES_AT_ONCE = 500
"""Pages (4 KiB) that one call moves: a few milliseconds."""
INCREMENTAL = 2


def give_back(connection: Connection, pages: int = PAGES_AT_ONCE) -> bool:
    """Lets at most ``pages`` free pages go; whether there are more. The transaction must be empty.

    Where nothing is left to give, the file is cut, unless a reader still looks at the older one.
    """
    if connection.dialect.name != "sqlite":
        return False
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    before = _number(driver, "freelist_count")
    if not before or _number(driver, "auto_vacuum") != INCREMENTAL:
        return False
    # executescript, for execute takes one step and this pragma frees one page a step. It ends the
    # transaction first: a checkpoint needs none.
    driver.executescript(f"PRAGMA incremental_vacuum({pages})")
    left = _number(driver, "freelist_count")
    if 0 < left < before:
        return True
    driver.executescript("PRAGMA wal_checkpoint(PASSIVE)")
    return False


def _number(driver: sqlite3.Connection, pragma: str) -> int:
    found = driver.execute(f"PRAGMA {pragma}").fetchone()
    return int(found[0])
