"""Copies of a SQLite database: taken while a server writes, checked, put back.

A backup is one moment: it is read inside one read transaction, which holds up nobody (WAL),
and lies under its name only when it is whole and checked. Restoring keeps the old file.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from urllib.parse import quote

from alembic.script import ScriptDirectory
from sqlalchemy.engine import URL

from tocsin_server.core.errors import TocsinError
from tocsin_server.store.database import Database, migrations_folder, open_database, refusal
from tocsin_server.store.integrity import issues

PAGES_AT_ONCE = 4096
"""Pages (4 KiB) between two looks at the keyboard."""
SIDES = ("-wal", "-shm", "-journal")


class BackupError(TocsinError):
    """A backup that cannot be made, or a file that cannot be restored."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy that was made and checked."""

    file: Path
    bytes: int
    seconds: float
    revision: str
    issues: list[str]
    """Values that were damaged in the database already; the copy holds them as they are."""


def file_of(url: URL, purpose: str) -> Path:
    """The file of a SQLite database. Raises :class:`BackupError`, which says what to do with Postgres."""
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


def backup(database: Database, target: Path) -> Copy:
    """Copies the database to ``target``, which must not exist, while others go on writing to it.

    Raises :class:`BackupError`, and OSError where there is no room.
    """
    file_of(database.url, "backup")
    if target.exists():
        raise BackupError(f"{target}: expected a file that does not exist yet, got one that does")
    begun, part = time.monotonic(), target.with_name(target.name + ".part")
    try:
        copy_to(database, part)
        check(part)
        revision, damaged = revision_of(part), issues_in(part)
        sync(part)
        os.link(part, target)  # unlike a rename, never over a file that came meanwhile
        sync(target.parent)
    except sqlite3.Error as error:
        raise BackupError(f"{target}: expected room for a copy, got: {error}") from error
    finally:
        _remove(part)
    return Copy(target, target.stat().st_size, time.monotonic() - begun, revision, damaged)


def copy_to(database: Database, part: Path) -> None:
    """The database at one moment as a file without a log beside it."""
    _remove(part)
    with closing(sqlite3.connect(part)) as copy, database.reader.begin() as connection:
        connection.exec_driver_sql("SELECT count(*) FROM sqlite_master").fetchall()  # the moment
        source = connection.connection.driver_connection
        assert isinstance(source, sqlite3.Connection)
        source.backup(copy, pages=PAGES_AT_ONCE, sleep=0)
        copy.execute("PRAGMA journal_mode=DELETE")


def restore(source: Path, target: Path, now_ns: int, *, despite_damage: bool = False) -> Path | None:
    """Puts a checked copy of ``source`` in the place of ``target``; where the old file lies now, if any.

    No process may have ``target`` open. Raises :class:`BackupError`; then nothing is changed.
    ``despite_damage`` takes a sound file with damaged values in it.
    """
    part = target.with_name(target.name + ".restoring")
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        _copied(source, part)
        damaged = [] if despite_damage else issues_in(part)
        if damaged:
            raise BackupError(f"{source}: expected every value to be readable, got: {'; '.join(damaged)}")
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
            raise BackupError(f"{source}: expected a sound SQLite database, got: {error}") from error
    check(part, shown=source)
    revision_of(part, shown=source)


def _put_aside(target: Path, now_ns: int) -> Path:
    """The old database under another name, with its log where that could not be folded in."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(now_ns / 1e9))
    aside = target.with_name(f"{target.name}.before-restore-{stamp}")
    try:
        with closing(sqlite3.connect(target)) as old:
            if target.stat().st_size:  # of an emptied file SQLite would delete the log, which may hold data
                old.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except sqlite3.Error:  # damaged, perhaps the reason for restoring: it is kept as it is
        pass
    os.link(target, aside)
    for side in SIDES:  # a log left behind would be taken for one of the restored file
        log = target.with_name(target.name + side)
        if log.exists():
            log.replace(aside.with_name(aside.name + side))
    return aside


def opened(file: Path) -> sqlite3.Connection:
    """The file, only to read. Raises :class:`BackupError` where there is none."""
    if not file.is_file():
        raise BackupError(f"{file}: expected a backup, got no such file")
    return sqlite3.connect(f"file:{quote(str(file))}?mode=ro", uri=True)


def check(file: Path, *, shown: Path | None = None) -> None:
    """Reads every page. Raises :class:`BackupError` where the file is damaged."""
    with closing(opened(file)) as connection:
        try:
            found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(5)")]
        except sqlite3.Error as error:
            found = [str(error)]
    if found != ["ok"]:
        raise BackupError(f"{shown or file}: expected a sound SQLite database, got: {'; '.join(found)}")


def issues_in(file: Path, most: int = 5) -> list[str]:
    """Reads every stored value; the first ones that are damaged, by run, series and chunk."""
    database = open_database(f"sqlite:///{file}")
    try:
        with database.reader.begin() as connection:
            return [str(issue) for issue in islice(issues(connection), most)]
    finally:
        database.close()


def revision_of(file: Path, *, shown: Path | None = None) -> str:
    """The revision of its schema. Raises :class:`BackupError` where it is none that this version knows."""
    with closing(opened(file)) as connection:
        try:
            row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        except sqlite3.Error:
            row = None
    known = revisions()
    if row is None:
        raise BackupError(f"{shown or file}: expected a database of tocsin, got another one")
    if row[0] not in known:
        raise BackupError(f"{shown or file}: {refusal(row[0])}")
    return str(row[0])


def revisions() -> list[str]:
    """Every revision of the schema, the newest first."""
    return [script.revision for script in ScriptDirectory(str(migrations_folder())).walk_revisions()]


def sync(path: Path) -> None:
    """Makes a file or folder durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(file: Path) -> None:
    for side in ("", *SIDES):
        file.with_name(file.name + side).unlink(missing_ok=True)
