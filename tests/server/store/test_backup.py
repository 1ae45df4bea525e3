"""Backups: consistent and checked while others write; restoring them."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy.engine import make_url

from tests.server.store.conftest import batch
from tests.server.store.whole_run import everything, write_run
from tocsin_server.store.backup import BackupError, backup, file_of, restore, revision_of, revisions
from tocsin_server.store.database import Database, migrate, open_database
from tocsin_server.store.reader import StoreReader
from tocsin_server.store.writer import StoreWriter


@pytest.fixture
def url(tmp_path: Path) -> Any:
    """Backups exist only for SQLite."""
    return make_url(f"sqlite:///{tmp_path / 'tocsin.db'}")


def test_a_backup_holds_everything(
    database: Database, store: StoreWriter, admit: Any, put: Any, tmp_path: Path
) -> None:
    """All rows and exact values, of a database that is in use."""
    write_run(database, store, admit, put)
    made = backup(database, tmp_path / "copy.db")
    copy = open_database(f"sqlite:///{made.file}")
    assert everything(copy, "r1") == everything(database, "r1")
    copy.close()
    assert made.revision == revisions()[0]


def test_progress_counts_every_byte(
    database: Database, store: StoreWriter, admit: Any, put: Any, tmp_path: Path
) -> None:
    write_run(database, store, admit, put)
    copied: list[int] = []
    made = backup(database, tmp_path / "copy.db", copied.append)
    assert sum(copied) == made.bytes


def test_a_backup_under_load_is_one_moment(
    database: Database, store: StoreWriter, admit: Any, put: Any, tmp_path: Path
) -> None:
    """While records arrive continuously, each copy has exactly the first n of them."""
    who, stop = admit().writer, threading.Event()

    def train() -> None:
        seq = 0
        while not stop.is_set():
            values = np.arange(seq, seq + 500, dtype=float)
            put(batch(who, seq, list(range(seq, seq + 500)), seq, loss=values, grad_norm=-values))
            seq += 500

    thread = threading.Thread(target=train)
    thread.start()
    try:
        sizes = [records_in(backup(database, tmp_path / f"{n}.db").file) for n in range(6)]
    finally:
        stop.set()
        thread.join(60)
    assert sizes == sorted(sizes)
    assert sizes[-1] > sizes[0]


def records_in(file: Path) -> int:
    """Return the number of records in a copy; check that they are the first ones with both values."""
    copy = open_database(f"sqlite:///{file}")
    page = StoreReader(copy).records("r1", limit=10_000_000) if StoreReader(copy).run("r1") else None
    copy.close()
    assert page is not None
    expected = np.arange(page.n, dtype=float)
    for name, sign in (("loss", 1.0), ("grad_norm", -1.0)):
        assert page.n == 0 or np.array_equal(page.columns[name].v, sign * expected)
    return page.n


def test_a_backup_overwrites_nothing(database: Database, tmp_path: Path) -> None:
    """An existing file is kept, and a failed attempt leaves nothing behind."""
    migrate(database.url)
    (tmp_path / "there.db").write_text("mine")
    with pytest.raises(BackupError, match="already exists"):
        backup(database, tmp_path / "there.db")
    assert (tmp_path / "there.db").read_text() == "mine"
    assert not list(tmp_path.glob("*.part*"))


def test_a_restored_database_is_the_backup_and_the_old_one_stays(
    database: Database, store: StoreWriter, admit: Any, put: Any, tmp_path: Path
) -> None:
    """The kept file has what was written after the backup."""
    who = admit().writer
    put(batch(who, 0, [0], loss=[1.0]))
    made = backup(database, tmp_path / "copy.db")
    put(batch(who, 1, [1], loss=[2.0]))
    store.stop(10.0)
    database.close()
    aside = restore(made.file, tmp_path / "tocsin.db", 10**18)
    assert aside is not None
    assert [records_of(tmp_path / "tocsin.db"), records_of(aside)] == [[1.0], [1.0, 2.0]]


def records_of(file: Path) -> list[float]:
    opened = open_database(f"sqlite:///{file}")
    page = StoreReader(opened).records("r1")
    opened.close()
    return [float(value) for value in page.columns["loss"].v]


def test_a_log_left_by_a_crash_is_kept_with_the_old_file(database: Database, tmp_path: Path) -> None:
    """The log is never used as that of the restored database."""
    migrate(database.url)
    made = backup(database, tmp_path / "copy.db")
    with database.engine.begin() as connection:
        connection.exec_driver_sql("INSERT INTO project VALUES ('newer', 1, '{}')")
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    for file in tmp_path.glob("tocsin.db*"):
        shutil.copy(file, crashed / file.name)
    aside = restore(made.file, crashed / "tocsin.db", 10**18)
    assert aside is not None
    assert [projects(crashed / "tocsin.db"), projects(aside)] == [[], ["newer"]]


def projects(file: Path) -> list[str]:
    with closing(sqlite3.connect(file)) as connection:
        return [name for (name,) in connection.execute("SELECT name FROM project")]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda file: file.write_bytes(b"no database at all" * 100), "is not an intact"),
        (lambda file: file.unlink(), "There is no backup"),
        (lambda file: change(file, "UPDATE alembic_version SET version_num = '9999'"), "revision 9999"),
        (lambda file: change(file, "DROP TABLE alembic_version"), "is not a tocsin database"),
        (lambda file: damage(file), "is not an intact"),
    ],
    ids=["no database", "no file", "newer", "foreign", "damaged"],
)
def test_an_invalid_backup_is_rejected(database: Database, tmp_path: Path, spoil: Any, words: str) -> None:
    """The backup is checked before the old file is touched."""
    migrate(database.url)
    made = backup(database, tmp_path / "copy.db")
    database.close()
    before = (tmp_path / "tocsin.db").read_bytes()
    spoil(made.file)
    with pytest.raises(BackupError, match=words):
        restore(made.file, tmp_path / "tocsin.db", 1)
    assert (tmp_path / "tocsin.db").read_bytes() == before
    assert not list(tmp_path.glob("*restor*"))


def change(file: Path, statement: str) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(statement)
        connection.commit()


def damage(file: Path) -> None:
    """Overwrite the middle of every page but the first."""
    body = bytearray(file.read_bytes())
    for start in range(4096, len(body), 4096):
        body[start : start + 64] = b"\xaa" * 64
    file.write_bytes(bytes(body))


@pytest.mark.parametrize(("purpose", "tool"), [("backup", "pg_dump"), ("restore", "pg_restore")])
def test_postgres_has_its_own_tools(purpose: str, tool: str) -> None:
    """The error names the command, without the password."""
    url = make_url("postgresql+psycopg://me:secret@db/tocsin")
    with pytest.raises(BackupError, match=tool) as reported:
        file_of(url, purpose)
    assert "secret" not in str(reported.value)


def test_the_revision_of_a_file_is_known(database: Database, tmp_path: Path) -> None:
    """After a migration, the revision is the newest one."""
    migrate(database.url)
    assert revision_of(tmp_path / "tocsin.db") == revisions()[0]
