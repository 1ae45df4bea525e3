"""Read SQLite databases of trackers. They are opened read-only and are never changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from .source import BROKEN, TrackedRun, UnreadableSource, reason
from .tracker import Claim, Folder, Found

MAGIC = b"SQLite format 3\0"
SUFFIXES = (".db", ".sqlite", ".sqlite3")
BUSY_S = 5.0
"""Longest time that a query waits for a tracker that writes."""


def is_database(path: Path) -> bool:
    """Return whether the file is named like a database, and begins like one."""
    if path.suffix not in SUFFIXES:
        return False
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def claimed(folder: Folder, runs_of: Callable[[Path], Iterator[TrackedRun] | None]) -> Claim | None:
    """Claim the databases in a folder that belong to a tracker.

    Args:
        folder: The folder.
        runs_of: Returns the runs of a database, or None if it is not one of the tracker.
    """
    found: list[Found] = []
    names = set()
    for name in sorted(folder.files):
        path = folder.path / name
        if not is_database(path):
            continue
        try:
            runs = runs_of(path)
            if runs is None:
                continue
            found += runs
        except BROKEN as error:
            found.append(UnreadableSource(path, reason(error)))
        names.add(name)
    return Claim(found, names) if names else None


@contextmanager
def opened_database(path: Path) -> Iterator[sqlite3.Connection]:
    """Yield a connection that can only read.

    A database in WAL mode without a log is closed. It is read as it is on disk, because SQLite would create
    a log beside it, and could not read it in a folder that cannot be written.

    Raises:
        OSError, sqlite3.Error: It cannot be opened.
    """
    closed = "&immutable=1" if _is_in_wal_mode(path) and not Path(f"{path}-wal").exists() else ""
    place = f"file:{quote(str(path.resolve()))}?mode=ro{closed}"
    with closing(sqlite3.connect(place, uri=True, timeout=BUSY_S)) as connection:
        connection.execute("PRAGMA trusted_schema=OFF")
        yield connection


def _is_in_wal_mode(path: Path) -> bool:
    """Return whether the header names version 2, as https://sqlite.org/fileformat.html describes."""
    with path.open("rb") as file:
        return file.read(20)[18:] == b"\2\2"


def columns(path: Path, table: str) -> set[str]:
    """Return the names of a table's columns; empty if there is no such table.

    Raises:
        sqlite3.Error: The database cannot be read.
    """
    with opened_database(path) as database:
        return {row[0] for row in database.execute("SELECT name FROM pragma_table_info(?)", (table,))}


def rows(path: Path, query: str, *values: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a query, one by one.

    Raises:
        sqlite3.Error: The database is damaged here, or is not readable.
    """
    with opened_database(path) as database:
        database.text_factory = lambda data: data.decode("utf-8", "replace")
        yield from database.execute(query, values)
