"""Open the database: one writing engine and one read-only engine, and migrate the schema.

SQLite uses WAL, synchronous FULL, and one writing connection that also checkpoints. Two connections
that write and checkpoint at once can corrupt the file through the WAL-reset bug of SQLite
3.7.0 to 3.51.2, so readers are read-only and never checkpoint.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event, inspect, make_url, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, OperationalError, SQLAlchemyError

from tocsin_server.core.errors import StartError, TocsinError
from tocsin_server.store import rule_tables as rule_tables  # its tables are part of the schema

if TYPE_CHECKING:  # imported only to migrate: most commands find the newest schema
    from alembic.config import Config

HEAD = "view_acknowledgements"
"""The newest revision in ``migrations/versions``."""
ADVISORY_LOCK = 0x746F6373
"""Key of the Postgres lock that lets one server migrate at a time ("tocs")."""
BUSY_TIMEOUT_MS = 5_000
PATIENCE = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
"""Time limits of connecting to Postgres and of a silent connection: in seconds, the last one in ms."""
READ_SILENCE_S, WRITE_SILENCE_S = 15.0, 30.0
"""Seconds within which Postgres must answer a statement, for readers and writers; else the connection
closes.
"""
SECRETS = ("session-key", "admin-token", "trainer-token")
"""Files that a server creates in its data directory once the database exists."""
MARK_BYTES = 4096
"""Size above which a file next to the database is a copy of it; a lock file is smaller."""
CHECKPOINT_PAGES = 4_000
"""WAL pages between checkpoints: 16 MB. More stall a commit (measured, docs/internals/storage.md)."""
_one_at_a_time = threading.Lock()
"""Alembic keeps its context in module globals, so a process may run one migration at a time."""


class HardLinksError(TocsinError, ValueError):
    """A SQLite file has several hard links: each name would get its own log, and writes by two corrupt it."""

    def __init__(self, file: Path, names: int) -> None:
        super().__init__(
            f"{file} has {names} names (hard links). SQLite keeps one log per name, so two processes could "
            f"corrupt it. Remove the other names (`find DIRECTORY -samefile {file}` lists them), or copy the "
            "file and use the copy."
        )


class WriteGate:
    """Whether this process may write. While closed, every new transaction of the writing engine fails."""

    def __init__(self) -> None:
        self.closed: str | None = None
        """Why writing is disabled, or None."""

    def close(self, reason: str) -> None:
        """Reject new transactions. Thread-safe."""
        self.closed = reason

    def open(self) -> None:
        """Accept new transactions again. Thread-safe."""
        self.closed = None

    def check(self, _connection: Connection) -> None:
        """Raise the error of a temporarily unavailable database if the gate is closed."""
        if self.closed is not None:
            raise OperationalError("BEGIN", None, PermissionError(self.closed))


@dataclass(frozen=True, slots=True)
class Database:
    """``engine`` writes (on SQLite through a single connection), ``reader`` only reads."""

    url: URL
    engine: Engine
    reader: Engine
    gate: WriteGate = field(default_factory=WriteGate)

    @property
    def dialect(self) -> str:
        """``sqlite`` or ``postgresql``."""
        return self.engine.dialect.name

    def ping(self) -> None:
        """Run a query; raise the database's error if it does not answer."""
        with self.reader.connect() as connection:
            connection.execute(text("SELECT 1"))

    def fold_log(self) -> None:
        """Open a writing connection, so that ``close`` checkpoints SQLite's log into the file.

        Read-only connections cannot checkpoint. If the database fails, its log stays and is read at the
        next start.
        """
        with suppress(SQLAlchemyError), self.engine.connect():
            pass

    def close(self) -> None:
        """Close every pooled connection; the last writing one checkpoints SQLite's log into the file."""
        self.reader.dispose()
        self.engine.dispose()


def parsed_url(url: str | URL) -> URL:
    """Parse a database URL.

    Raises:
        ValueError: ``url`` is malformed. The text does not repeat it, because it may contain a password.
    """
    try:
        return make_url(url)
    except (ArgumentError, ValueError):  # a non-numeric port raises ValueError
        raise ValueError(
            "The database URL cannot be parsed. Use sqlite:///FILE or postgresql://USER:PASSWORD@HOST:PORT/NAME."
        ) from None


def database_url(url: str | URL) -> URL:
    """Return ``url`` with the driver that the server uses.

    Raises:
        ValueError: The database is neither SQLite nor Postgres, or SQLite without a file.
        StartError: The driver for Postgres is not installed.
    """
    parsed = parsed_url(url)
    if parsed.drivername in ("postgres", "postgresql", "postgresql+psycopg"):
        _check_driver()
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.get_backend_name() != "sqlite":
        raise ValueError(f"database URL: expected sqlite:/// or postgresql://, got {parsed.drivername}://")
    if not parsed.database or parsed.database == ":memory:":
        raise ValueError("database URL: expected a file as in sqlite:///tocsin.db, got none")
    return parsed


def _check_driver() -> None:
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        raise StartError(
            "Postgres needs the psycopg driver, which cannot be imported. "
            "Install it with `pip install 'tocsin-server[postgres]'`."
        ) from error


def open_database(url: str | URL) -> Database:
    """Open ``url`` (``sqlite:///file`` or ``postgresql://...``). Connects on first use.

    Raises:
        HardLinksError: The SQLite file has several names.
    """
    parsed = database_url(url)
    if parsed.get_backend_name() == "sqlite":
        database = Database(parsed, _sqlite(parsed), _sqlite_reader(parsed))
    else:
        database = Database(parsed, _postgres(parsed, WRITE_SILENCE_S), _postgres_reader(parsed))
    event.listen(database.engine, "begin", database.gate.check, insert=True)
    return database


def migrate(url: str | URL, revision: str = "head") -> None:
    """Migrate the database to ``revision``, by default the newest. Several servers may call it at once.

    Raises:
        StartError: The database has the schema of a newer version, or its file was emptied.
    """
    parsed = database_url(url)
    if parsed.get_backend_name() == "sqlite":
        check_not_emptied(Path(str(parsed.database)))
    engine = _sqlite(parsed) if parsed.get_backend_name() == "sqlite" else _postgres(parsed)
    try:
        with _one_at_a_time, engine.connect() as connection:
            if revision != "head" or not _is_newest(connection):
                _upgrade(connection, revision)
    finally:
        engine.dispose()


def migrations_folder() -> Path:
    """Return the folder of the Alembic scripts: in the installed package, else in the source checkout."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "migrations", package.parents[1] / "migrations"):
        if (folder / "env.py").is_file():
            return folder
    raise FileNotFoundError(f"migrations: expected env.py in or two folders above {package}, got none")


def alembic_config(connection: Connection) -> Config:
    """Return Alembic's configuration for an open connection."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(migrations_folder()).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def _is_newest(connection: Connection) -> bool:
    if not inspect(connection).has_table("alembic_version"):
        return False
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalars().all() == [HEAD]


def _upgrade(connection: Connection, revision: str) -> None:
    from alembic import command

    if connection.dialect.name == "postgresql":
        # Held until the transaction ends: a second server waits here and then has nothing to do.
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": ADVISORY_LOCK})
    config = alembic_config(connection)
    _check_known(connection, config)
    command.upgrade(config, revision)
    connection.commit()


PRERELEASE = frozenset({"0001", "0002", "0003", "0004", "0005", "0006"})
"""Revisions of versions before 0.1.0, whose databases cannot be upgraded."""


def refusal(revision: str) -> str:
    """Return why a database with an unknown revision is rejected, and what to do."""
    if revision in PRERELEASE:
        return (
            f"its schema revision {revision} is from before 0.1.0 and cannot be upgraded: start with a new "
            "database, or export its runs with the version that wrote it and import them into a new one."
        )
    return (
        f"its schema has the revision {revision}, which this version of tocsin-server does not know. A newer "
        "version has upgraded it: install that version, or restore a backup from before the upgrade."
    )


def _check_known(connection: Connection, config: Config) -> None:
    """Raise StartError if another version created or upgraded the database."""
    from alembic.migration import MigrationContext
    from alembic.script import ScriptDirectory

    found = MigrationContext.configure(connection).get_current_heads()
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    unknown = sorted(set(found) - known)
    if unknown:
        raise StartError(f"database {connection.engine.url.render_as_string()}: {refusal(unknown[0])}")


def check_not_emptied(file: Path) -> None:
    """Raise StartError if a SQLite file is empty or missing although it held data before.

    SQLite would create a new database in its place and delete the log. An empty file counts as emptied if the
    directory also contains its log, a backup of it, or the secrets of a server that used it; a missing file
    if the directory contains its log.
    """
    if file.exists() and file.stat().st_size:
        return
    log = file.with_name(f"{file.name}-wal")
    found = [log] if log.is_file() and log.stat().st_size else []
    if file.exists():
        found += [file.with_name(name) for name in SECRETS if file.with_name(name).is_file()]
        copies = sorted(file.parent.glob(f"{file.name}.*"))
        found += [copy for copy in copies if copy.is_file() and copy.stat().st_size > MARK_BYTES]
    if found:
        state = "is empty (0 bytes)" if file.exists() else "is missing"
        beside = ", ".join(path.name for path in found)
        raise StartError(
            f"The database file {file} {state}, but it held data before: {beside} is still there. Restore "
            f"a backup with `tocsin-server restore FILE`. To start with an empty database instead, move "
            f"{file.name} and {log.name} away."
        )


def let_the_server_checkpoint(connection: Connection) -> None:
    """Disable SQLite checkpoints on this connection: only the server's own may run them."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("PRAGMA wal_autocheckpoint=0")


def check_names(file: Path) -> None:
    """Raise :class:`HardLinksError` if a SQLite file has several names. The file may be missing."""
    names = file.stat().st_nlink if file.is_file() else 1
    if names > 1:
        raise HardLinksError(file, names)


def _sqlite(url: URL) -> Engine:
    file = Path(str(url.database))
    file.parent.mkdir(parents=True, exist_ok=True)
    check_names(file)
    engine = create_engine(
        url, pool_size=1, max_overflow=0, pool_timeout=60, connect_args={"check_same_thread": False}
    )
    _on_connect(
        engine,
        f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}",
        "PRAGMA auto_vacuum=INCREMENTAL",  # affects new files only: lets deleted runs free space
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


_readable = partial(str, encoding="utf-8", errors="replace")
"""Decodes text of SQLite. A damaged byte becomes U+FFFD; by default it would fail the whole query."""


def _on_connect(engine: Engine, *pragmas: str) -> None:
    @event.listens_for(engine, "connect")
    def set_up(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # sqlite3 must not open transactions by itself
        connection.text_factory = _readable
        for pragma in pragmas:
            connection.execute(pragma)


def _begin_with(engine: Engine, statement: str) -> None:
    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql(statement)


def _postgres(url: URL, silence_s: float | None = None) -> Engine:
    engine = create_engine(
        url, pool_size=2, max_overflow=2, pool_pre_ping=True, connect_args=_connect_args(url)
    )
    if silence_s is not None:
        _limit_silence(engine, silence_s)
    return engine


def _connect_args(url: URL) -> dict[str, Any]:
    """Return the driver options; those in the URL take precedence.

    An address that does not answer, or a connection whose peer is gone (cable, failover, firewall), must not
    block a thread for minutes, least of all the writer thread.
    """
    return {name: value for name, value in PATIENCE.items() if name not in url.query}


def _limit_silence(engine: Engine, silence_s: float) -> None:
    from tocsin_server.store.postgres import limit_silence  # requires the driver

    limit_silence(engine, silence_s)


def _postgres_reader(url: URL) -> Engine:
    engine = create_engine(
        url,
        pool_size=8,
        max_overflow=24,
        pool_pre_ping=True,
        connect_args=_connect_args(url),
        isolation_level="REPEATABLE READ",  # one consistent snapshot per transaction
    )
    _limit_silence(engine, READ_SILENCE_S)
    return engine.execution_options(postgresql_readonly=True)
