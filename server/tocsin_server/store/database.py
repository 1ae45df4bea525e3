"""Opens the database: one writing engine, one that only reads, and the way to the newest schema.

SQLite: WAL, synchronous FULL, one writing connection that also checkpoints. Two connections
that write and checkpoint at once can corrupt the file through the WAL-reset bug of SQLite
3.7.0 to 3.51.2, so readers are read-only and never checkpoint.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from tocsin_server.store import rule_tables as rule_tables  # its tables are part of the schema

ADVISORY_LOCK = 0x746F6373
"""Key of the Postgres lock that lets one server at a time migrate ("tocs")."""
BUSY_TIMEOUT_MS = 5_000
CHECKPOINT_PAGES = 4_000
"""WAL pages between checkpoints: 16 MB; longer ones stall a commit (measured, docs/storage.md)."""
_one_at_a_time = threading.Lock()
"""Alembic keeps its context in module globals: one migration at a time in a process."""


@dataclass(frozen=True, slots=True)
class Database:
    """``engine`` writes (on SQLite by its only connection), ``reader`` only reads."""

    url: URL
    engine: Engine
    reader: Engine

    @property
    def dialect(self) -> str:
        """``sqlite`` or ``postgresql``."""
        return self.engine.dialect.name

    def fold_log(self) -> None:
        """Sees to it that ``close`` leaves one file: connections that only read cannot fold SQLite's log.

        A database that fails is left as it is; its log belongs to it and is read at the next start.
        """
        with suppress(SQLAlchemyError), self.engine.connect():
            pass

    def close(self) -> None:
        """Closes every pooled connection; the last one that may write folds SQLite's log into the file."""
        self.reader.dispose()
        self.engine.dispose()


def parsed_url(url: str | URL) -> URL:
    """Raises ValueError, which does not repeat ``url``: there may be a password in it."""
    try:
        return make_url(url)
    except (ArgumentError, ValueError):  # a port that is no number is a ValueError
        raise ValueError(
            "database URL: expected sqlite:///FILE or postgresql://USER:PASSWORD@HOST:PORT/NAME, "
            "got what cannot be read as one"
        ) from None


def database_url(url: str | URL) -> URL:
    """``url`` with the driver we use. Raises ValueError for a database other than the two, or no file."""
    parsed = parsed_url(url)
    if parsed.drivername in ("postgres", "postgresql", "postgresql+psycopg"):
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.get_backend_name() != "sqlite":
        raise ValueError(f"database URL: expected sqlite:/// or postgresql://, got {parsed.drivername}://")
    if not parsed.database or parsed.database == ":memory:":
        raise ValueError("database URL: expected a file as in sqlite:///tocsin.db, got none")
    return parsed


def open_database(url: str | URL) -> Database:
    """Opens ``url`` (``sqlite:///file`` or ``postgresql://...``); connects on first use."""
    parsed = database_url(url)
    if parsed.get_backend_name() == "sqlite":
        return Database(parsed, _sqlite(parsed), _sqlite_reader(parsed))
    return Database(parsed, _postgres(parsed), _postgres_reader(parsed))


def migrate(url: str | URL, revision: str = "head") -> None:
    """Brings the database to ``revision``, by default the newest; several servers may call it at once."""
    parsed = database_url(url)
    engine = _sqlite(parsed) if parsed.get_backend_name() == "sqlite" else _postgres(parsed)
    try:
        with _one_at_a_time, engine.connect() as connection:
            _upgrade(connection, revision)
    finally:
        engine.dispose()


def migrations_folder() -> Path:
    """Where the Alembic scripts lie: inside the installed package, else in the source checkout."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "migrations", package.parents[1] / "migrations"):
        if (folder / "env.py").is_file():
            return folder
    raise FileNotFoundError(f"migrations: expected env.py in or two folders above {package}, got none")


def alembic_config(connection: Connection) -> Config:
    """Alembic's configuration for an open connection."""
    config = Config()
    config.set_main_option("script_location", str(migrations_folder()).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def _upgrade(connection: Connection, revision: str) -> None:
    if connection.dialect.name == "postgresql":
        # Held to the end of the transaction: a second server waits here, then finds nothing to do.
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": ADVISORY_LOCK})
    command.upgrade(alembic_config(connection), revision)
    connection.commit()


def _sqlite(url: URL) -> Engine:
    Path(str(url.database)).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(
        url, pool_size=1, max_overflow=0, pool_timeout=60, connect_args={"check_same_thread": False}
    )
    _on_connect(
        engine,
        f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}",
        "PRAGMA auto_vacuum=INCREMENTAL",  # counts for a new file only: deleted runs can give room back
        "PRAGMA journal_mode=WAL",
        "PRAGMA synchronous=FULL",
        f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}",
        "PRAGMA cache_size=-65536",
    )
    _begin_with(engine, "BEGIN IMMEDIATE")
    return engine


def _sqlite_reader(url: URL) -> Engine:
    file = f"file:{quote(str(url.database))}"
    read_only = url.set(database=file).update_query_dict({"mode": "ro", "uri": "true"})
    engine = create_engine(read_only, pool_size=8, max_overflow=24, connect_args={"check_same_thread": False})
    _on_connect(engine, f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}", "PRAGMA query_only=1")
    _begin_with(engine, "BEGIN")
    return engine


def _on_connect(engine: Engine, *pragmas: str) -> None:
    @event.listens_for(engine, "connect")
    def set_up(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # sqlite3 shall not open transactions by itself
        for pragma in pragmas:
            connection.execute(pragma)


def _begin_with(engine: Engine, statement: str) -> None:
    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql(statement)


def _postgres(url: URL) -> Engine:
    return create_engine(url, pool_size=2, max_overflow=2, pool_pre_ping=True)


def _postgres_reader(url: URL) -> Engine:
    engine = create_engine(
        url,
        pool_size=8,
        max_overflow=24,
        pool_pre_ping=True,
        isolation_level="REPEATABLE READ",  # one answer, one moment
    )
    return engine.execution_options(postgresql_readonly=True)
