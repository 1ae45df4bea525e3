"""Try an upgrade on a copy: report its revisions and duration, and whether data was lost."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tocsin_server.store.backup import (
    BackupError,
    check,
    copy_to,
    file_of,
    issues_in,
    opened,
    revision_of,
)
from tocsin_server.store.database import Database, migrate


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """Result of an upgrade of a copy. ``rows``: table -> rows before and after (None: no table)."""

    before: str
    after: str
    bytes: int
    rows: Mapping[str, tuple[int | None, int | None]]
    copy_s: float
    upgrade_s: float
    check_s: float
    issues: list[str]
    """Values that cannot be read, by run, series and chunk."""

    @property
    def lost(self) -> list[str]:
        """Tables with fewer rows than before."""
        return [name for name, (before, after) in self.rows.items() if (after or 0) < (before or 0)]


def rehearse(database: Database) -> Rehearsal:
    """Migrate a temporary copy of the database, which itself is only read.

    Raises:
        BackupError: There is no space for a copy, or the upgraded copy is damaged.
    """
    file = file_of(database.url, "rehearse")
    if not file.is_file():
        raise BackupError(f"There is no database at {file} to upgrade.")
    _check_room(file)
    with tempfile.TemporaryDirectory(prefix="tocsin-rehearsal-", dir=file.parent) as folder:
        copy = Path(folder) / "tocsin.db"
        times = [time.monotonic()]
        copy_to(database, copy)
        size, before, rows = copy.stat().st_size, revision_of(copy, shown=file), _counts(copy)
        times.append(time.monotonic())
        migrate(f"sqlite:///{copy}")
        times.append(time.monotonic())
        check(copy)
        damaged = issues_in(copy)
        times.append(time.monotonic())
        after, rows_after = revision_of(copy), _counts(copy)
    copy_s, upgrade_s, check_s = (end - begin for begin, end in pairwise(times))
    both = {name: (rows.get(name), rows_after.get(name)) for name in sorted(rows | rows_after)}
    return Rehearsal(before, after, size, both, copy_s, upgrade_s, check_s, damaged)


def _check_room(file: Path) -> None:
    needed = 3 * file.stat().st_size  # the copy, and what an upgrade may rewrite with its log
    free = shutil.disk_usage(file.parent).free
    if free < needed:
        raise BackupError(f"{file.parent}: expected {needed >> 20} MiB free for a copy, got {free >> 20} MiB")


def _counts(file: Path) -> dict[str, int]:
    with closing(opened(file)) as connection:
        found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        names = [str(name) for (name,) in found if not name.startswith("sqlite_")]
        return {name: _count(connection, name) for name in names}


def _count(connection: sqlite3.Connection, name: str) -> int:
    (count,) = connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()  # noqa: S608 - from sqlite_master
    return int(count)
