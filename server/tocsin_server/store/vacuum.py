"""Gives the room of deleted rows back to the file system.

SQLite keeps free pages in the file; ``auto_vacuum=INCREMENTAL`` (set when the file is made)
lets them go a few at a time, and a checkpoint then cuts the file.

Postgres keeps dead rows until a VACUUM. Its own comes once a minute at most, and slowly: at full
speed the tail, whose rows live until they are sealed, had grown to four times the chunks by then
(docs/internals/storage.md). So the server vacuums the tail by itself, and all tables if a run is deleted: it
holds up neither readers nor writers, frees the room for new rows and cuts empty ends of tables.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from sqlalchemy import Connection, text

from tocsin_server.store.database import Database
from tocsin_server.store.tables import RUN_TABLES, tail

PAGES_AT_ONCE = 500
"""Pages (4 KiB) that one call moves: a few milliseconds."""
INCREMENTAL = 2
DEAD_ROWS = 5_000
"""Sealed batches that may lie dead in Postgres's tail: some 12 MB of four series and 50 records each."""
OF_RUNS = tuple(table.name for table in RUN_TABLES)
_DEAD = text("SELECT n_dead_tup FROM pg_stat_user_tables WHERE relid = to_regclass(:name)")


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


def tidy_tail(database: Database) -> bool:
    """Vacuums Postgres's tail where enough of it is dead; whether it did."""
    if database.dialect != "postgresql":
        return False
    with database.reader.begin() as connection:
        dead = connection.execute(_DEAD, {"name": tail.name}).scalar() or 0
    if dead >= DEAD_ROWS:
        vacuum(database, [tail.name])
    return dead >= DEAD_ROWS


def vacuum(database: Database, names: Iterable[str] = OF_RUNS) -> None:
    """Frees the room of dead rows on Postgres, outside of any transaction; nothing on SQLite.

    A table that another process vacuums, or that belongs to another role, is passed by.
    """
    if database.dialect != "postgresql":
        return
    from tocsin_server.store.postgres import no_limit

    with database.engine.connect() as connection, no_limit(connection):
        alone = connection.execution_options(isolation_level="AUTOCOMMIT")
        for name in names:
            alone.execute(text(f"VACUUM (SKIP_LOCKED) {name}"))


def size_bytes(database: Database) -> int:
    """How large the database is: the file of SQLite without its journal, all tables of Postgres."""
    with database.reader.connect() as connection:
        if database.dialect == "postgresql":
            size = text("SELECT pg_database_size(current_database())")
            return int(connection.execute(size).scalar_one())
        pages = connection.execute(text("PRAGMA page_count")).scalar_one()
        return int(pages) * int(connection.execute(text("PRAGMA page_size")).scalar_one())


def _number(driver: sqlite3.Connection, pragma: str) -> int:
    found = driver.execute(f"PRAGMA {pragma}").fetchone()
    return int(found[0])
