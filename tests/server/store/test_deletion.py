"""Deletion: all tables, a bounded number of rows per transaction, despite interruptions."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from sqlalchemy import select

from tests.server.store.conftest import batch
from tests.server.store.whole_run import rows_of, write_run
from tocsin_server.store import deletion
from tocsin_server.store.database import Database
from tocsin_server.store.deletion_jobs import mark_on, mark_runs
from tocsin_server.store.tables import metadata, run
from tocsin_server.store.writer import StoreWriter

pytestmark = pytest.mark.both_databases  # SQL and locking differ

KEPT = {"deletion"}
"""The mark itself; it has no rows of a run that lives."""


def test_a_deleted_run_leaves_no_row_in_any_table(
    database: Database, store: StoreWriter, admit: Any, put: Any
) -> None:
    """All tables that name a run had rows and are empty; another run is unchanged."""
    for run_id in ("r1", "r2"):
        write_run(database, store, admit, put, run_id)
    before = rows_of(database, "r2")
    assert all(count for name, count in before.items() if name not in KEPT), before
    store.call(partial(deletion.mark, run_id="r1", now_ns=1)).result(30)
    while store.call(partial(deletion.sweep, run_id="r1")).result(30):
        pass
    assert not any(rows_of(database, "r1").values())
    assert rows_of(database, "r2") == before


def test_every_table_that_names_a_run_is_emptied() -> None:
    """The test reads the schema, so that a new table cannot be forgotten."""
    naming = {table.name for table in metadata.sorted_tables if "run_id" in table.c}
    assert naming - KEPT == {table.name for table in deletion.OF_A_RUN}


def test_a_piece_is_bounded(database: Database, store: StoreWriter, admit: Any, put: Any) -> None:
    """One transaction deletes at most its limit of rows, so that others do not wait long."""
    write_run(database, store, admit, put)
    store.call(partial(deletion.mark, run_id="r1", now_ns=1)).result(30)
    before = sum(rows_of(database, "r1").values())
    assert store.call(partial(deletion.sweep, run_id="r1", rows=7)).result(30)
    assert sum(rows_of(database, "r1").values()) == before - 7


def test_a_marked_run_is_gone_at_once_and_its_rows_are_not_forgotten(
    database: Database, store: StoreWriter, admit: Any, put: Any
) -> None:
    """No list shows it, and a process that starts after a kill finds the remaining work."""
    write_run(database, store, admit, put)
    store.call(partial(deletion.mark, run_id="r1", now_ns=5)).result(30)
    with database.reader.begin() as connection:
        assert connection.execute(select(run.c.id)).all() == []
        assert deletion.due(connection, 4) == []
        assert deletion.due(connection, 5) == ["r1"]
        assert deletion.is_scheduled(connection, "r1")


def test_what_comes_of_a_marked_run_is_let_go(
    database: Database, store: StoreWriter, admit: Any, put: Any
) -> None:
    """Records in flight are acked and not stored."""
    who = admit().writer
    put(batch(who, 0, [0], loss=[1.0]))
    assert mark_on(store, partial(mark_runs, run_ids=["r1"], now_ns=1, actor="test")).result(30) == ["r1"]
    put(batch(who, 1, [1], loss=[2.0]))
    assert rows_of(database, "r1")["tail"] == 1


def test_a_run_that_is_not_there_is_not_marked(database: Database, store: StoreWriter) -> None:
    """A project without a row does not exist either."""
    assert not store.call(partial(deletion.mark, run_id="none", now_ns=1)).result(30)
    assert not store.call(partial(deletion.delete_project_row, name="none")).result(30)


def test_a_scheduled_deletion_does_not_begin_early(
    database: Database, store: StoreWriter, admit: Any
) -> None:
    """Not even the cleanup after a kill begins it; once begun, it cannot be canceled."""
    admit("r1")
    assert store.call(partial(deletion.postpone, run_id="r1", due_ns=10)).result(30)
    with database.reader.begin() as connection:
        assert deletion.due(connection, 9, interrupted=True) == []
        assert deletion.due(connection, 10) == ["r1"]
    store.call(partial(deletion.begin_deletion, run_id="r1", now_ns=10)).result(30)
    assert not store.call(partial(deletion.bring_back, run_id="r1", now_ns=5)).result(30)
    with database.reader.begin() as connection:
        assert connection.execute(select(run.c.id)).all() == []
