"""Back up a SQLite database while a server writes to it, and restore backups.

A backup is read in one read transaction, so it is consistent and blocks no writer (WAL). It gets
its final name only when it is complete and checked. Restoring keeps the old file.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from urllib.parse import quote

from sqlalchemy.engine import URL

from tocsin_server.core.errors import TocsinError
from tocsin_server.store.database import Database, migrations_folder, open_database, refusal
from tocsin_server.store.integrity import issues

PAGES_AT_ONCE = 4096
"""Pages (4 KiB) copied between checks for an interrupt."""
SIDES = ("-wal", "-shm", "-journal")


class BackupError(TocsinError):
    """A backup cannot be made, or a file cannot be restored."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A completed and checked copy."""

    file: Path
    bytes: int
    seconds: float
    revision: str
    issues: list[str]
    """Values that are damaged in the source database; the copy contains them unchanged."""


def file_of(url: URL, purpose: str) -> Path:
    """Return the file of a SQLite database.

    Raises:
        BackupError: The database is Postgres; the text says which tool to use instead.
    """
    if url.get_backend_name() == "sqlite":
        return Path(str(url.database))
    shown = url.set(drivername="postgresql", password=None).render_as_string()
    advice = {
        "backup": f"pg_dump --format=custom --file=tocsin.dump '{shown}'",
        "restore": f"pg_restore --clean --if-exists --dbname='{shown}' tocsin.dump",
        "rehearse": f"createdb tocsin_rehearsal && pg_dump '{shown}' | psql --quiet tocsin_rehearsal "
        "&& tocsin-server migrate --database-url postgresql:///tocsin_rehearsal",
    }[purpose]
    raise BackupError(
        f"{purpose}: expected a SQLite database, got Postgres; it has its own tools:\n  {advice}"
    )


def backup(database: Database, target: Path, advance: Callable[[int], object] = lambda _: None) -> Copy:
    """Copy the database to ``target`` while others write to it.

    ``advance`` is called with the number of bytes that were copied.

    Raises:
        BackupError: ``target`` exists, or the copy failed or is damaged.
        OSError: There is not enough space.
    """
    file_of(database.url, "backup")
    if target.exists():
        raise BackupError(f"{target} already exists. Choose another file.")
    begun, part = time.monotonic(), target.with_name(target.name + ".part")
    try:
        copy_to(database, part, advance)
        check(part)
        revision, damaged = revision_of(part), issues_in(part)
        sync(part)
        os.link(part, target)  # unlike a rename, never overwrites a file created meanwhile
        sync(target.parent)
    except sqlite3.Error as error:
        raise BackupError(f"No space for a copy at {target}: {error}") from error
    finally:
        _remove(part)
    return Copy(target, target.stat().st_size, time.monotonic() - begun, revision, damaged)


def copy_to(database: Database, part: Path, advance: Callable[[int], object] = lambda _: None) -> None:
    """Copy a consistent state of the database to ``part``, without a separate WAL file."""
    _remove(part)
    with closing(sqlite3.connect(part)) as copy, database.reader.begin() as connection:
        connection.exec_driver_sql("SELECT count(*) FROM sqlite_master").fetchall()  # begins the snapshot
        source = connection.connection.driver_connection
        assert isinstance(source, sqlite3.Connection)
        ((page_bytes,),) = source.execute("PRAGMA page_size").fetchall()
        done = 0

        def copied(_status: int, remaining: int, total: int) -> None:
            nonlocal done
            advance((total - remaining - done) * page_bytes)
            done = total - remaining

        source.backup(copy, pages=PAGES_AT_ONCE, progress=copied, sleep=0)
        copy.execute("PRAGMA journal_mode=DELETE")


def restore(source: Path, target: Path, now_ns: int, *, despite_damage: bool = False) -> Path | None:
    """Replace ``target`` with a checked copy of ``source``. No process may have ``target`` open.

    Args:
        source: The backup.
        target: The database file; may be missing.
        now_ns: Unix time, for the name of the old file.
        despite_damage: Also restore an intact file that contains damaged values.

    Returns:
        Where the old file was moved to, or None if there was none.

    Raises:
        BackupError: The backup cannot be used; nothing has changed.
    """
    part = target.with_name(target.name + ".restoring")
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        _copied(source, part)
        damaged = [] if despite_damage else issues_in(part)
        if damaged:
            raise BackupError(f"{source} contains values that cannot be read: {'; '.join(damaged)}")
        sync(part)
        aside = _put_aside(target, now_ns) if target.exists() else None
        part.replace(target)
        sync(target.parent)
    finally:
        _remove(part)
    return aside


def _copied(source: Path, part: Path) -> None:
    _remove(part)
    with closing(opened(source)) as original, closing(sqlite3.connect(part)) as copy:
        try:
            original.backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE")
        except sqlite3.Error as error:
            raise BackupError(f"{source} is not an intact SQLite database: {error}") from error
    check(part, shown=source)
    revision_of(part, shown=source)


def _put_aside(target: Path, now_ns: int) -> Path:
    """Rename the old database, with its WAL file if that could not be checkpointed."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(now_ns / 1e9))
    aside = target.with_name(f"{target.name}.before-restore-{stamp}")
    try:
        with closing(sqlite3.connect(target)) as old:
            if target.stat().st_size:  # SQLite deletes the log of an empty file; the log may hold data
                old.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except sqlite3.Error:  # damaged, perhaps the reason for restoring: kept unchanged
        pass
    os.link(target, aside)
    for side in SIDES:  # SQLite would apply a leftover log to the restored file
        log = target.with_name(target.name + side)
        if log.exists():
            log.replace(aside.with_name(aside.name + side))
    return aside


def opened(file: Path) -> sqlite3.Connection:
    """Return a read-only connection to ``file``.

    Raises:
        BackupError: There is no such file.
    """
    if not file.is_file():
        raise BackupError(f"There is no backup at {file}.")
    return sqlite3.connect(f"file:{quote(str(file))}?mode=ro", uri=True)


def check(file: Path, *, shown: Path | None = None) -> None:
    """Read every page of ``file``.

    Raises:
        BackupError: The file is damaged.
    """
    with closing(opened(file)) as connection:
        try:
            found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(5)")]
        except sqlite3.Error as error:
            found = [str(error)]
    if found != ["ok"]:
        raise BackupError(f"{shown or file} is not an intact SQLite database: {'; '.join(found)}")


def issues_in(file: Path, most: int = 5) -> list[str]:
    """Read every stored value; return the first damaged ones by run, series and chunk."""
    database = open_database(f"sqlite:///{file}")
    try:
        with database.reader.begin() as connection:
            return [str(issue) for issue in islice(issues(connection), most)]
    finally:
        database.close()


def revision_of(file: Path, *, shown: Path | None = None) -> str:
    """Return the schema revision of ``file``.

    Raises:
        BackupError: It is not a tocsin database, or its revision is unknown to this version.
    """
    with closing(opened(file)) as connection:
        try:
            row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        except sqlite3.Error:
            row = None
    known = revisions()
    if row is None:
        raise BackupError(f"{shown or file} is not a tocsin database.")
    if row[0] not in known:
        raise BackupError(f"{shown or file}: {refusal(row[0])}")
    return str(row[0])


def revisions() -> list[str]:
    """Return every schema revision, newest first."""
    from alembic.script import ScriptDirectory

    return [script.revision for script in ScriptDirectory(str(migrations_folder())).walk_revisions()]


def sync(path: Path) -> None:
    """Flush a file or directory to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(file: Path) -> None:
    for side in ("", *SIDES):
        file.with_name(file.name + side).unlink(missing_ok=True)
