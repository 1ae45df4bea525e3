"""Opening and migrating: the applied migrations equal the schema on both databases."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, insert, select, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError

from tests.server.store.conftest import hello
from tocsin_server.domain import Column, RecordBatch, RuleSnapshot
from tocsin_server.store import bodies
from tocsin_server.store.database import Database, database_url, migrate, open_database
from tocsin_server.store.reader import StoreReader
from tocsin_server.store.registry import register
from tocsin_server.store.tables import (
    BODIES,
    RUN_TABLES,
    alert,
    fault,
    latest,
    metadata,
    metric,
    rule_state,
    run,
    series,
    tail,
)  # fmt: skip


def test_migrations_equal_the_schema(database: Database) -> None:
    """A freshly migrated database has exactly the tables that the code declares."""
    with database.engine.connect() as connection:
        options = {"compare_type": True, "compare_server_default": True}
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, metadata) == []


def test_servers_that_start_together_migrate_once(url: URL) -> None:
    """Migrations at the same time in three processes all succeed."""
    program = "import sys; from tocsin_server.store.database import migrate; migrate(sys.argv[1])"
    address = url.render_as_string(hide_password=False)
    servers = [subprocess.Popen([sys.executable, "-c", program, address]) for _ in range(3)]
    assert [server.wait(60) for server in servers] == [0, 0, 0]


def test_readers_cannot_write(database: Database) -> None:
    """The reading engine is refused by the database itself."""
    with pytest.raises(DBAPIError, match=r"read-?only"), database.reader.begin() as connection:
        connection.execute(insert(run).values(id="x", project="p", name="n", created_ns=0, last_seen_ns=0))


def test_sqlite_is_durable_and_concurrent(database: Database) -> None:
    """The writing connection of SQLite is in WAL mode with synchronous FULL (2)."""
    if database.dialect != "sqlite":
        pytest.skip("Postgres has its own log")
    with database.engine.connect() as connection:
        assert connection.execute(text("PRAGMA journal_mode")).scalar() == "wal"
        assert connection.execute(text("PRAGMA synchronous")).scalar() == 2


def test_bodies_are_not_compressed_twice(database: Database) -> None:
    """On Postgres every body column is STORAGE EXTERNAL."""
    if database.dialect != "postgresql":
        pytest.skip("SQLite compresses nothing")
    query = "SELECT attstorage FROM pg_attribute WHERE attname='body' AND attrelid = to_regclass(:name)"
    with database.reader.connect() as connection:
        kinds = [connection.execute(text(query), {"name": body.table.name}).scalar() for body in BODIES]
    assert [k.decode() if isinstance(k, bytes) else k for k in kinds] == ["e"] * len(BODIES)


def test_every_key_of_the_data_path_begins_with_the_run() -> None:
    """Rows of one run live together and can be distributed by run."""
    for table in RUN_TABLES:
        assert next(iter(table.primary_key)).name == "run_id", table.name


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 5e-324, 1.7e308, 0.0, -0.0])
def test_scalars_keep_every_value(database: Database, value: float) -> None:
    """A float column gives back what it was given, NaN and the sign of zero included."""
    row = {"run_id": "r", "writer_no": 0, "col_id": 16, "n": 1, "first_step": 0, "last_step": 0}
    with database.engine.begin() as connection:
        connection.execute(insert(series), row | {"last_value": value})
    with database.reader.connect() as connection:
        found = connection.execute(select(series.c.last_value)).scalar_one()
    assert repr(found) == repr(value)


def test_an_upgrade_keeps_what_earlier_revisions_stored(url: URL) -> None:
    """Records, alerts, snapshots and last values of the first revision are there after the upgrade."""
    migrate(url, "0001")
    before = open_database(url)
    with before.engine.begin() as connection:
        fill_first_revision(connection)
    before.close()
    migrate(url)
    after = open_database(url)
    reader = StoreReader(after)
    page = reader.records("r1")
    assert page.step.tolist() == [0, 1, 2]
    assert repr(page.columns["loss"].v.tolist()) == "[1.0, nan, -0.0]"
    assert [found.alert.rule for found in reader.alerts("r1")] == ["nonfinite-loss"]
    recovery = reader.recovery("r1")
    assert (recovery.snapshot, list(recovery.replay)) == (RuleSnapshot("r1", 0, b"state"), [])
    with after.reader.connect() as connection:
        assert connection.execute(select(latest.c.col_id, latest.c.step, latest.c.value)).all() == [
            (16, 2, 0.5)
        ]
        assert connection.execute(select(fault)).all() == []
    after.close()


def fill_first_revision(connection: Connection) -> None:
    """A run with a tail, a sealed count, an alert and a snapshot, in the columns of revision 0001."""
    who = register(connection, hello(), 5).writer
    values = np.array([1.0, math.nan, -0.0])
    one = RecordBatch(who, 0, 0, 3, np.arange(3), np.arange(3), {"loss": Column(values)})
    key = {"run_id": "r1", "writer_no": who.writer_no}
    connection.execute(insert(metric), {"run_id": "r1", "col_id": 16, "name": "loss"})
    body = bodies.encode(one, {"loss": 16})
    connection.execute(insert(tail), key | {"seq": 0, "n": 3, "arrival": 0, "body": body})
    sealed = {"col_id": 16, "n": 3, "first_step": 0, "last_step": 2, "last_value": 0.5}
    connection.execute(insert(series), key | sealed)
    connection.execute(insert(rule_state), {"run_id": "r1", "arrival": 0, "body": b"state"})
    alert_of_loss = {"fingerprint": "f", "episode": 1, "rule": "nonfinite-loss", "subject": "loss"}
    state = {"severity": "critical", "state": "firing", "onset_ns": 1, "updated_ns": 1, "late": False}
    connection.execute(insert(alert), {"run_id": "r1", "summary": "s"} | alert_of_loss | state)


@pytest.mark.parametrize("bad", ["mysql://localhost/x", "sqlite://", "sqlite:///:memory:"])
def test_other_databases_are_refused_with_a_sentence(bad: str) -> None:
    """What we cannot keep a month of steps in is refused before anything is written."""
    with pytest.raises(ValueError, match="database URL: expected"):
        database_url(bad)


def test_a_path_may_hold_any_character(tmp_path: Path) -> None:
    """Spaces, #, ? and % in a path lead both engines to the same file."""
    file = tmp_path / "a b#c%20?d" / "tocsin.db"
    url = URL.create("sqlite", database=str(file))
    migrate(url)
    opened = open_database(url)
    with opened.reader.connect() as connection:
        assert connection.execute(select(run)).all() == []
    opened.close()
    assert file.is_file()


def test_heroku_style_urls_work() -> None:
    """postgres:// and postgresql:// mean the psycopg driver."""
    assert database_url("postgres://u@h/d").drivername == "postgresql+psycopg"
