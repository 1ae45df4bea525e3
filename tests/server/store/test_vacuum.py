"""The space of deleted rows is returned to the file system."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Connection, text

from tests.matrix import LONG
from tests.server.store.conftest import batch, sealed
from tocsin_server.store.chunks import RECORDS
from tocsin_server.store.database import Database
from tocsin_server.store.deletion_jobs import finish, give_room_back, mark_runs, on_writer
from tocsin_server.store.tables import RUN_TABLES
from tocsin_server.store.vacuum import give_back, tidy_tail, vacuum
from tocsin_server.store.writer import StoreWriter


def fold_in(connection: Connection) -> None:
    """Write the log into the file, so that its size is meaningful."""
    driver: Any = connection.connection.driver_connection
    driver.executescript("PRAGMA wal_checkpoint(PASSIVE)")


def test_the_file_shrinks(database: Database, store: StoreWriter, admit: Any, put: Any) -> None:
    """After a run of a few megabytes is deleted, the file is about as large as the other run."""
    if database.dialect != "sqlite":
        pytest.skip("Postgres keeps the room for new rows")
    file = Path(str(database.url.database))
    random = np.random.default_rng(1)
    put(batch(admit("small").writer, 0, [0], loss=[1.0]))
    who = admit("large").writer
    for seq in range(0, 160_000, 2000):
        put(batch(who, seq, list(range(seq, seq + 2000)), seq, loss=random.normal(size=2000)))
    store.call(fold_in).result(60)
    before = file.stat().st_size
    store.call(partial(mark_runs, run_ids=["large"], now_ns=1, actor="test")).result(60)
    finish(on_writer(store), ["large"])
    assert before > 1_500_000
    assert file.stat().st_size < before / 4


def size_of(database: Database, *names: str) -> int:
    """Return the bytes of tables with their indexes."""
    with database.reader.begin() as connection:
        query = text("SELECT pg_total_relation_size(to_regclass(:name))")
        return sum(int(connection.execute(query, {"name": name}).scalar_one()) for name in names)


def test_postgres_gives_the_room_of_a_deleted_run_back(
    database: Database, store: StoreWriter, admit: Any, put: Any
) -> None:
    """Tables are truncated after their last row, by a vacuum after the deletion."""
    if database.dialect != "postgresql":
        pytest.skip("the file of SQLite is looked at above")
    who, names = admit("large").writer, [table.name for table in RUN_TABLES]
    random = np.random.default_rng(1)
    for seq in range(0, 80_000, 2000):
        put(batch(who, seq, list(range(seq, seq + 2000)), seq, loss=random.normal(size=2000)))
    sealed(database, 19, "large")
    before = size_of(database, *names)
    store.call(partial(mark_runs, run_ids=["large"], now_ns=1, actor="test")).result(60)
    finish(on_writer(store), ["large"])
    vacuum(database)
    assert before > 1_000_000
    assert size_of(database, *names) < before / 3


@LONG
def test_the_tail_of_postgres_stays_small(
    database: Database,
    store: StoreWriter,
    admit: Any,
    put: Any,
    monkeypatch: pytest.MonkeyPatch,
    eventually: Any,
) -> None:
    """Sealed batches leave dead rows; once there are enough, their space is reused."""
    if database.dialect != "postgresql":
        assert not tidy_tail(database)
        return
    monkeypatch.setattr("tocsin_server.store.vacuum.DEAD_ROWS", 20)
    who = admit().writer
    sizes = []
    for begin in range(0, 4 * RECORDS, RECORDS):
        for seq in range(begin, begin + RECORDS, 128):
            put(batch(who, seq, list(range(seq, seq + 128)), seq, loss=np.ones(128), lr=np.ones(128)))
        sealed(database, begin // RECORDS + 1)
        eventually(lambda: tidy_tail(database), "the dead rows to be counted and vacuumed")
        sizes.append(size_of(database, "tail"))
    assert sizes[-1] <= 2 * sizes[0]


def test_giving_back_nothing_ends(database: Database, store: StoreWriter) -> None:
    """On both databases: without free pages there is nothing to return, and no table is vacuumed."""
    give_room_back(on_writer(store))
    assert not store.call(give_back).result(60)
    assert not tidy_tail(database)
