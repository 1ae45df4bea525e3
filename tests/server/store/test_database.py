"""Opening and migrating: the migrations produce the schema on both databases."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, event, insert, select, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, OperationalError

from tests.matrix import LONG
from tests.server.store.conftest import batch, hello, sealed
from tocsin_server.core.errors import StartError
from tocsin_server.core.models import WriteBatch
from tocsin_server.store.database import (
    HEAD,
    PATIENCE,
    PRERELEASE,
    Database,
    database_url,
    migrate,
    migrations_folder,
    open_database,
)
from tocsin_server.store.outage import is_outage
from tocsin_server.store.postgres import no_limit
from tocsin_server.store.reader import StoreReader
from tocsin_server.store.registration import register
from tocsin_server.store.tables import (
    BODIES,
    RUN_TABLES,
    metadata,
    run,
    series,
)  # fmt: skip
from tocsin_server.store.writer import StoreWriter


def test_migrations_equal_the_schema(database: Database) -> None:
    """A new migrated database has exactly the tables that the code declares."""
    with database.engine.connect() as connection:
        options = {"compare_type": True, "compare_server_default": True}
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, metadata) == []


def test_head_is_the_newest_revision() -> None:
    """``migrate`` does nothing on a database that has it."""
    assert ScriptDirectory(str(migrations_folder())).get_heads() == [HEAD]


def test_servers_that_start_together_migrate_once(empty_url: URL) -> None:
    """Simultaneous migrations in three processes all succeed."""
    program = "import sys; from tocsin_server.store.database import migrate; migrate(sys.argv[1])"
    address = empty_url.render_as_string(hide_password=False)
    servers = [subprocess.Popen([sys.executable, "-c", program, address]) for _ in range(3)]
    assert [server.wait(60) for server in servers] == [0, 0, 0]


def test_readers_cannot_write(database: Database) -> None:
    """The database itself rejects writes of the reading engine."""
    with pytest.raises(DBAPIError, match=r"read-?only"), database.reader.begin() as connection:
        connection.execute(insert(run).values(id="x", project="p", name="n", created_ns=0, last_seen_ns=0))


def test_a_postgres_that_vanishes_is_noticed(database: Database) -> None:
    """Every connection is probed after 5 s of silence; the default is two hours."""
    if database.dialect != "postgresql":
        pytest.skip("SQLite has no other end")
    for engine in (database.engine, database.reader):
        with engine.connect() as connection:
            driver: Any = connection.connection.driver_connection
            reported = driver.info.get_parameters()
            assert {name: reported[name] for name in PATIENCE} == {k: str(v) for k, v in PATIENCE.items()}


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
    """Rows of one run are stored together and can be distributed by run."""
    for table in RUN_TABLES:
        assert next(iter(table.primary_key)).name == "run_id", table.name


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 5e-324, 1.7e308, 0.0, -0.0])
def test_scalars_keep_every_value(database: Database, value: float) -> None:
    """A float column returns what was stored, including NaN and the sign of zero."""
    row = {"run_id": "r", "writer_no": 0, "col_id": 16, "n": 1, "first_step": 0, "last_step": 0}
    with database.engine.begin() as connection:
        connection.execute(insert(series), row | {"last_value": value})
    with database.reader.connect() as connection:
        found = connection.execute(select(series.c.last_value)).scalar_one()
    assert repr(found) == repr(value)


@pytest.mark.parametrize("revision", sorted(PRERELEASE))
def test_a_database_from_before_the_first_release_is_rejected(url: URL, revision: str) -> None:
    """The error says to start with a new database, or to export and import."""
    migrate(url)
    database = open_database(url)
    with database.engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = :v"), {"v": revision})
    database.close()
    with pytest.raises(StartError, match=r"before 0\.1\.0.*new database"):
        migrate(url)


@pytest.mark.parametrize("bad", ["mysql://localhost/x", "sqlite://", "sqlite:///:memory:"])
def test_other_databases_are_rejected(bad: str) -> None:
    """An unsuitable database is rejected before anything is written."""
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


def test_a_missing_driver_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """For Postgres without its extra, every command says what to install."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StartError, match=r"pip install 'tocsin-server\[postgres\]'"):
        database_url("postgresql://u@h/d")


def test_a_slow_statement_is_cancelled(
    database: Database, monkeypatch: pytest.MonkeyPatch, eventually: Callable[..., Any]
) -> None:
    """A slow statement counts as an outage, and Postgres cancels it. VACUUM has no time limit."""
    if database.dialect != "postgresql":
        pytest.skip("SQLite has no server")
    monkeypatch.setattr("tocsin_server.store.database.READ_SILENCE_S", 0.3)
    hasty = open_database(database.url)
    with (
        pytest.raises(OperationalError, match=r"did not answer for 0\.3 s") as raised,
        hasty.reader.connect() as reader,
    ):
        reader.execute(text("SELECT pg_sleep(60)"))
    assert is_outage(raised.value)
    running = text("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'")

    def is_idle() -> bool:
        with database.reader.connect() as reader:
            return reader.execute(running).first() is None

    eventually(is_idle, "the statement to end")
    with hasty.reader.connect() as reader, no_limit(reader):
        reader.execute(text("SELECT pg_sleep(0.6)"))
    hasty.close()


@LONG
def test_an_installed_wheel_contains_its_migrations(tmp_path: Path) -> None:
    """If only the wheel is installed, its own scripts are used, not the checkout's."""
    root, site, file = Path(__file__).parents[3], tmp_path / "site", tmp_path / "new.db"
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=root, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    install = ["install", "-q", "--no-deps", "--no-index", "--target", str(site), str(wheel)]
    subprocess.run([sys.executable, "-m", "pip", *install], check=True, capture_output=True)
    program = (
        "import sys; from tocsin_server.store.database import migrate, migrations_folder;"
        "migrate(sys.argv[1]); print(migrations_folder())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, f"sqlite:///{file}"],
        env=os.environ | {"PYTHONPATH": str(site)},
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    )
    assert Path(done.stdout.strip()) == site / "tocsin_server" / "migrations"
    opened = open_database(f"sqlite:///{file}")
    with opened.reader.connect() as connection:
        assert connection.execute(select(run)).all() == []
    opened.close()


def test_no_statement_of_the_record_path_crosses_runs(database: Database) -> None:
    """Storing, sealing, charting and recovering filter by the run in every statement."""
    statements: list[str] = []
    for engine in (database.engine, database.reader):
        event.listen(
            engine, "before_cursor_execute", lambda _c, _u, statement, *_: statements.append(statement)
        )
    store, reader = StoreWriter(database), StoreReader(database)
    store.start()
    who = store.call(lambda connection: register(connection, hello(), 5)).result(30).writer
    statements.clear()  # a hello may search other runs for ranks of the same launch
    store.submit(WriteBatch("r1", batch=batch(who, 0, list(range(5000)), loss=[1.0] * 5000)))
    sealed(database, 1)
    reader.series("r1", ["loss"])
    reader.since("r1", ["loss"], -1)
    reader.records("r1")
    list(reader.recovery("r1").replay)
    store.stop(30)
    names = "|".join(table.name for table in RUN_TABLES)
    on_path = [one for one in statements if re.search(rf"(FROM|INTO|UPDATE) ({names})\b", one)]
    assert len(on_path) > 15
    crossing = [one for one in on_path if "run_id" not in re.split("WHERE|INTO", one, maxsplit=1)[-1]]
    assert [one for one in crossing if "HAVING" not in one] == []  # except the survey at the start


def test_a_newer_schema_is_reported(url: URL) -> None:
    """The error names the revision and what to do, without the password of the database."""
    migrate(url)
    database = open_database(url)
    with database.engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    database.close()
    with pytest.raises(StartError, match=r"9999.*newer version.*restore a backup"):
        migrate(url)


BESIDE = {
    "tocsin.db-wal": "the log",
    "session-key": "the secrets",
    "tocsin.db.before-restore-1": "a backup",
}


@pytest.mark.parametrize("name", BESIDE)
def test_an_emptied_file_is_rejected(tmp_path: Path, name: str) -> None:
    """A database of 0 bytes next to its log, its backup or a server's secrets is rejected; nothing is
    touched."""
    file = tmp_path / "tocsin.db"
    file.touch()
    (tmp_path / name).write_bytes(b"x" * 5000)
    with pytest.raises(StartError, match=rf"is empty \(0 bytes\).*{name}.*tocsin-server restore"):
        migrate(f"sqlite:///{file}")
    assert [path.stat().st_size for path in (file, tmp_path / name)] == [0, 5000]


def test_a_log_without_its_database_is_rejected(tmp_path: Path) -> None:
    """SQLite would delete it."""
    (tmp_path / "tocsin.db-wal").write_bytes(b"x" * 5000)
    with pytest.raises(StartError, match=r"is missing.*tocsin\.db-wal"):
        migrate(f"sqlite:///{tmp_path / 'tocsin.db'}")


def test_a_new_empty_file_is_a_new_database(tmp_path: Path) -> None:
    """An empty file without others beside it, as ``mktemp`` creates it, is accepted."""
    (tmp_path / "tocsin.db").touch()
    migrate(f"sqlite:///{tmp_path / 'tocsin.db'}")
    assert (tmp_path / "tocsin.db").stat().st_size


def test_alerts_of_an_earlier_version_are_grouped(empty_url: URL) -> None:
    """Two that began together and fired at the same time are one incident; a later one is another."""
    fired = {"a": (100, 10, 50), "b": (150, 20, None), "c": (9000, 90, None)}
    assert grouped(empty_url, fired) == [("a", "a.1"), ("b", "a.1"), ("c", "c.1")]


def test_many_alerts_of_an_earlier_version_are_grouped(empty_url: URL) -> None:
    """10,000 alerts that all still fire do not delay the start by minutes."""
    began = time.perf_counter()
    found = grouped(empty_url, {f"f{no:05}": (no // 5000 * 200, no, None) for no in range(10_000)})
    assert {incident for _, incident in found} == {"f00000.1", "f05000.1"}
    assert time.perf_counter() - began < 20


def grouped(url: URL, fired: dict[str, tuple[int, int, int | None]]) -> list[tuple[str, str]]:
    """Return the incident of each alert of an earlier version after the migration, by name.

    ``fired``: name -> (onset step, time at which it fired, time at which it was resolved).
    """
    migrate(url, "initial")
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO alert (run_id, fingerprint, episode, rule, subject, severity, state,"
                " onset_step, onset_ns, fired_ns, resolved_ns, updated_ns, late, summary)"
                " VALUES ('r', :name, 1, 'loss-spike', 'loss', 'warning', 'firing',"
                " :step, :at, :at, :until, :at, false, '')"
            ),
            [
                {"name": name, "step": step, "at": at, "until": until}
                for name, (step, at, until) in fired.items()
            ],
        )
    migrate(url)
    with engine.begin() as connection:
        rows = connection.execute(text("SELECT fingerprint, incident FROM alert ORDER BY fingerprint")).all()
    engine.dispose()
    return [(row.fingerprint, row.incident) for row in rows]
