"""A changed byte in a stored value is detected and reported with run, series and chunk."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard
from sqlalchemy import select, update

from tests.server.store.conftest import batch, sealed
from tests.server.store.whole_run import write_run
from tocsin_server.store import chunks
from tocsin_server.store.backup import BackupError, backup, restore
from tocsin_server.store.database import Database
from tocsin_server.store.integrity import issues
from tocsin_server.store.migration_dry_run import rehearse
from tocsin_server.store.tables import FIRST_SERIES, chunk, chunk_dir, roll, tail
from tocsin_server.store.writer import StoreWriter


def found(database: Database) -> list[str]:
    with database.reader.begin() as connection:
        return [str(issue) for issue in issues(connection)]


@pytest.fixture
def whole(database: Database, store: StoreWriter, admit: Any, put: Any) -> Database:
    """A database with a run that has data of every kind."""
    write_run(database, store, admit, put)
    return database


def spoil(database: Database, table: Any, col_id: int) -> None:
    """Change one bit in the middle of a body, as a storage medium would."""
    with database.engine.begin() as connection:
        here = table.c.run_id == "r1"
        here &= table.c.col_id == col_id
        body = bytearray(connection.execute(select(table.c.body).where(here)).scalars().first() or b"")
        body[len(body) // 2] ^= 1
        connection.execute(update(table).where(here).values(body=bytes(body)))


@pytest.mark.parametrize("table", [chunk, roll])
@pytest.mark.parametrize(("col_id", "name"), [(0, "step"), (FIRST_SERIES, "loss")])
def test_one_changed_bit_is_found(whole: Database, table: Any, col_id: int, name: str) -> None:
    """In chunk or pyramid, in a series or in the common steps; nothing else is reported."""
    assert found(whole) == []
    spoil(whole, table, col_id)
    (reported,) = found(whole)
    assert re.match(rf"run r1, writer 0, {name}, (chunk|row) 0", reported)


def test_a_wrong_directory_row_is_found(whole: Database) -> None:
    """If the index has other steps than the chunk, charts would miss them."""
    with whole.engine.begin() as connection:
        connection.execute(update(chunk_dir).values(step1=chunk_dir.c.step1 + 1))
    assert [reported.split(":")[0] for reported in found(whole)] == ["run r1, writer 0, step, chunk 0"]


def test_a_truncated_tail_row_is_found(whole: Database) -> None:
    """The size of a truncated row does not match its records."""
    with whole.engine.begin() as connection:
        connection.execute(update(tail).where(tail.c.n == 1).values(n=2))
    (reported,) = found(whole)
    assert "records 20 to 21 of the tail" in reported


def test_chunks_of_versions_without_a_checksum_are_read(
    database: Database, store: StoreWriter, admit: Any, put: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such chunks count as intact, and all values are returned."""
    plain = zstandard.ZstdCompressor(level=chunks.LEVEL)
    monkeypatch.setattr("tocsin_server.store.chunks.compress", plain.compress)
    monkeypatch.setattr("tocsin_server.store.pyramid.compress", plain.compress)
    values = np.random.default_rng(1).normal(size=chunks.RECORDS)
    put(batch(admit().writer, 0, list(range(chunks.RECORDS)), loss=values))
    sealed(database, 1)
    monkeypatch.undo()
    assert found(database) == []
    with database.reader.begin() as connection:
        body = connection.execute(select(chunk.c.body).where(chunk.c.col_id == FIRST_SERIES)).scalar_one()
    assert not zstandard.get_frame_parameters(body).has_checksum
    np.testing.assert_array_equal(chunks.decode_floats(0, body, chunks.RECORDS).v, values)


def test_a_backup_with_a_changed_byte_is_not_restored_unasked(whole: Database, tmp_path: Path) -> None:
    """SQLite's own check passes; ours reports run, series and chunk, and nothing is changed."""
    if whole.dialect != "sqlite":
        pytest.skip("Postgres has its own backups")
    made = backup(whole, tmp_path / "copy.db")
    assert made.issues == []
    with whole.reader.begin() as connection:
        here = (chunk.c.run_id == "r1") & (chunk.c.col_id == FIRST_SERIES)
        body = connection.execute(select(chunk.c.body).where(here)).scalar_one()
    stored = bytearray(made.file.read_bytes())
    place = stored.index(body[100:164])
    stored[place + 30] ^= 0x10
    made.file.write_bytes(bytes(stored))
    target = tmp_path / "restored.db"
    with pytest.raises(BackupError, match="run r1, writer 0, loss, chunk 0"):
        restore(made.file, target, 1)
    assert not target.exists()
    assert restore(made.file, target, 1, despite_damage=True) is None
    assert target.exists()


def test_backup_and_rehearsal_report_damage(whole: Database, tmp_path: Path) -> None:
    """A damaged database is still copied, and both report what cannot be read."""
    if whole.dialect != "sqlite":
        pytest.skip("Postgres has its own backups")
    spoil(whole, chunk, FIRST_SERIES)
    assert "loss, chunk 0" in backup(whole, tmp_path / "copy.db").issues[0]
    assert "loss, chunk 0" in rehearse(whole).issues[0]
