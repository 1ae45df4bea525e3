"""The room of deleted rows goes back to the file system."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Connection

from tests.server.store.conftest import batch
from tocsin_server.removal import finish, give_room_back, mark_runs, on_writer
from tocsin_server.store.database import Database
from tocsin_server.store.writer import StoreWriter


def fold_in(connection: Connection) -> None:
    """The log into the file, so that its size says something."""
    driver: Any = connection.connection.driver_connection
    driver.executescript("PRAGMA wal_checkpoint(PASSIVE)")


def test_the_file_shrinks(database: Database, store: StoreWriter, admit: Any, put: Any) -> None:
    """After a run of some megabytes is deleted, the file has about the size of the other one."""
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


def test_giving_back_nothing_ends(database: Database, store: StoreWriter) -> None:
    """On both databases, whatever is free."""
    give_room_back(on_writer(store))
    with database.reader.begin() as connection:
        assert connection.exec_driver_sql("SELECT 1").scalar() == 1
