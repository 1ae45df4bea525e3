"""Return the space of deleted rows to the file system.

SQLite keeps free pages in the file; ``auto_vacuum=INCREMENTAL`` (set when the file is created)
allows freeing them a few at a time, and a checkpoint then truncates the file.

Postgres keeps dead rows until a VACUUM. Autovacuum runs at most once a minute, and slowly: at full
speed, the tail, whose rows are deleted once sealed, grew to four times the size of the chunks
(docs/internals/storage.md). Therefore the server vacuums the tail itself, and all tables after a run is
deleted. This blocks neither readers nor writers, frees space for new rows and truncates tables.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from sqlalchemy import Connection, text

from tocsin_server.store.database import Database
from tocsin_server.store.tables import RUN_TABLES, tail

PAGES_AT_ONCE = 500
"""Pages (4 KiB) that one call frees: a few milliseconds."""
INCREMENTAL = 2
FREE_PAGES, FREE_SHARE = 2_048, 0.25
"""Free pages of an SQLite file, and their share of it, above which they are given back.

Fewer are kept: new records fill them, and giving a page back moves another one.
"""
DEAD_ROWS = 5_000
"""Dead rows in Postgres's tail that trigger a VACUUM: about 12 MB with four series and 50 records per
batch.
"""
OF_RUNS = tuple(table.name for table in RUN_TABLES)
_DEAD = text("SELECT n_dead_tup FROM pg_stat_user_tables WHERE relid = to_regclass(:name)")


def give_back(connection: Connection, pages: int = PAGES_AT_ONCE) -> bool:
    """Free at most ``pages`` free pages; return whether there are more. The transaction must be empty.

    When no page is left, the file is truncated unless a reader still uses an older snapshot.
    """
    if connection.dialect.name != "sqlite":
        return False
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    before = _number(driver, "freelist_count")
    if not before or _number(driver, "auto_vacuum") != INCREMENTAL:
        return False
    # executescript, because execute runs one step and this pragma frees one page per step. It ends the
    # transaction first, which a checkpoint requires.
    driver.executescript(f"PRAGMA incremental_vacuum({pages})")
    left = _number(driver, "freelist_count")
    if 0 < left < before:
        return True
    driver.executescript("PRAGMA wal_checkpoint(PASSIVE)")
    return False


def tidy_tail(database: Database) -> bool:
    """Vacuum Postgres's tail if it has enough dead rows; return whether it did."""
    if database.dialect != "postgresql":
        return False
    with database.reader.begin() as connection:
        dead = connection.execute(_DEAD, {"name": tail.name}).scalar() or 0
    if dead >= DEAD_ROWS:
        vacuum(database, [tail.name])
    return dead >= DEAD_ROWS


def has_room(database: Database) -> bool:
    """Return whether so much of an SQLite file is free that it is to be given back: packing left it."""
    if database.dialect != "sqlite":
        return False
    with database.reader.connect() as connection:
        free, pages = (
            int(connection.execute(text(f"PRAGMA {name}")).scalar_one())
            for name in ("freelist_count", "page_count")
        )
    return free > max(FREE_PAGES, FREE_SHARE * pages)


def vacuum(database: Database, names: Iterable[str] = OF_RUNS) -> None:
    """Free the space of dead rows on Postgres, outside any transaction; do nothing on SQLite.

    Tables that another process is vacuuming, or that belong to another role, are skipped.
    """
    if database.dialect != "postgresql":
        return
    from tocsin_server.store.postgres import no_limit

    with database.engine.connect() as connection, no_limit(connection):
        alone = connection.execution_options(isolation_level="AUTOCOMMIT")
        for name in names:
            alone.execute(text(f"VACUUM (SKIP_LOCKED) {name}"))


def size_bytes(database: Database) -> int:
    """Return the size of the database: SQLite's file without its log, or all tables of Postgres."""
    with database.reader.connect() as connection:
        if database.dialect == "postgresql":
            size = text("SELECT pg_database_size(current_database())")
            return int(connection.execute(size).scalar_one())
        pages = connection.execute(text("PRAGMA page_count")).scalar_one()
        return int(pages) * int(connection.execute(text("PRAGMA page_size")).scalar_one())


def _number(driver: sqlite3.Connection, pragma: str) -> int:
    found = driver.execute(f"PRAGMA {pragma}").fetchone()
    return int(found[0])
