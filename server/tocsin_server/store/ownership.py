"""Allow one server at a time on a database; two would corrupt the numbering of records.

SQLite: a lock (``flock``) on a file next to the database, under its real name, so that symbolic links
lead to the same lock. The kernel releases it when the process ends for any reason. A database with
several hard links is rejected (``database.open_database``), because SQLite keeps one log per name.

Postgres: an advisory lock, held by a separate connection while the server runs. If that
connection is lost, writing stops at once and the lock is requested again. If another server held it
meanwhile, this one must stop, because its state in memory is out of date.
"""

from __future__ import annotations

import logging
import os
import selectors
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from sqlalchemy import BigInteger, Connection, NullPool, column, create_engine, func, select, table, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import SQLAlchemyError

from tocsin_server.core.errors import StartError
from tocsin_server.store.database import PATIENCE, WRITE_SILENCE_S, WriteGate, check_names
from tocsin_server.store.outage import words

WAIT_S = 5.0
"""How long a starting server waits for the Postgres lock: the session of a killed server may linger."""
RETRY_S = 0.5
PING_S = 5.0
"""How often the connection that holds the lock is checked; a closed one is noticed at once."""
LOCK_CLASS = 0x746F6373
"""First half of the key of the Postgres lock ("tocs"); the second is a checksum of the schema's name."""
STARTS = "tocsin_server_starts"
"""A sequence that every server advances when it takes the lock, so that other servers notice it later."""
KEEPALIVE = ("tcp_keepalives_idle = 5", "tcp_keepalives_interval = 5", "tcp_keepalives_count = 3")
"""Set on the session, so that Postgres notices within 20 s that the server's machine is gone."""

log = logging.getLogger("tocsin.store")


@contextmanager
def sole_on_file(database: Path) -> Iterator[None]:
    """Prevent other servers and ``restore`` from using a SQLite database.

    Raises:
        StartError: Another server or command holds it, or the directory is not writable.
        HardLinksError: The file has several names; another server may use it under another one.
    """
    check_names(database)
    real = Path(os.path.realpath(database))
    lock = real.with_name(f"{real.name}.lock")
    try:
        lock.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = lock.open("a+")
    except OSError as error:
        raise StartError(f"Cannot write to {lock.parent}: {error.strerror}.") from error
    with file:
        _take_file(file, lock, database)
        yield


def _take_file(file: IO[str], lock: Path, database: Path) -> None:
    try:
        import fcntl
    except ImportError:  # pragma: no cover - Windows has no flock; the user must not start two servers there
        return
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.seek(0)
        holder = file.read(200).strip() or "unknown process"
        raise StartError(
            f"{database} is in use by another tocsin-server ({holder}), which holds {lock}. "
            "Stop it first, or choose another database with `--data-dir` or `--database-url`."
        ) from error
    file.truncate(0)
    file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
    file.flush()


@dataclass(frozen=True, slots=True)
class _Session:
    """Identifies a Postgres session; process ids alone are reused."""

    pid: int
    begun: object


class PostgresLock:
    """The lock of one server on one schema of a Postgres database.

    Args:
        url: The database.
        shown: Its address without the password, for messages.
    """

    def __init__(self, url: URL, shown: str) -> None:
        self._shown = shown
        self._engine = create_engine(
            url,
            poolclass=NullPool,
            isolation_level="AUTOCOMMIT",
            connect_args=PATIENCE
            | {
                "connect_timeout": 10,
                "application_name": f"tocsin-server, process {os.getpid()} on {socket.gethostname()}"[:63],
            },
        )
        from tocsin_server.store.postgres import limit_silence

        limit_silence(self._engine, WRITE_SILENCE_S)
        self._connection: Connection | None = None
        self._session: _Session | None = None
        self._starts: int | None = None
        self._ending, self._ended = socket.socketpair()
        self._thread: threading.Thread | None = None

    def take(self) -> None:
        """Take the lock, waiting up to ``WAIT_S``.

        Raises:
            StartError: Another server holds it, or the database does not answer.
        """
        ends = time.monotonic() + WAIT_S
        while True:
            try:
                if self._connect():
                    self._starts = self._count_start()
                    return
                holder = self._holder_words()
            except SQLAlchemyError as error:
                self._disconnect()
                raise StartError(f"database {self._shown}: {words(error)}") from error
            self._disconnect()
            if time.monotonic() >= ends:
                raise StartError(
                    f"{self._shown} is in use by another tocsin-server ({holder}). Stop it first, "
                    "or choose another database with `--database-url`."
                )
            time.sleep(RETRY_S)

    def monitor(self, gate: WriteGate, displaced: Callable[[str], None]) -> None:
        """Close ``gate`` while the lock is not held; runs in a separate thread.

        Args:
            gate: The write gate.
            displaced: Called once with a sentence when another server has taken over the database.
        """
        self._thread = threading.Thread(
            target=self._monitor, args=(gate, displaced), name="tocsin-lock", daemon=True
        )
        self._thread.start()

    def release(self) -> None:
        """Release the lock and stop monitoring."""
        self._ending.send(b"x")
        if self._thread is not None:
            self._thread.join(15.0)
        self._disconnect()
        self._ending.close()
        self._ended.close()

    # Holding

    def _monitor(self, gate: WriteGate, displaced: Callable[[str], None]) -> None:
        while True:
            if self._holds():
                gate.open()
                if self._stopped(PING_S):
                    return
                continue
            gate.close("the lock on the database was lost; the server is trying to get it back")
            log.error("the connection that holds the lock on %s was lost; writing is paused", self._shown)
            if not self._regained(gate, displaced):
                return
            log.warning("the server holds the lock on %s again; writing resumes", self._shown)

    def _regained(self, gate: WriteGate, displaced: Callable[[str], None]) -> bool:
        """Take the lock again; return False if this server stops, or another one has used the database."""
        while not self._stopped(RETRY_S):
            self._disconnect()
            with suppress(SQLAlchemyError, OSError):  # the database may be down for a long time
                held = self._connect()
                if self._others_started():
                    reason = f"another tocsin-server has taken over {self._shown}; this server stops"
                    gate.close(reason)
                    displaced(reason)
                    return False
                if held:
                    return True
                self._end_own_ghost()
        return False

    def _holds(self) -> bool:
        if self._connection is None:
            return False
        try:
            self._connection.execute(text("SELECT 1"))
        except (SQLAlchemyError, OSError):
            return False
        return True

    def _stopped(self, seconds: float) -> bool:
        """Wait for a timeout, a stop, or the end of the lock's connection; return whether to stop."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._ended, selectors.EVENT_READ)
            if self._connection is not None:
                with suppress(Exception):  # already closed
                    driver: Any = self._connection.connection.driver_connection
                    selector.register(driver.fileno(), selectors.EVENT_READ)
            return any(key.fileobj is self._ended for key, _ in selector.select(seconds))

    # Statements

    def _connect(self) -> bool:
        """Open the connection and try the lock."""
        connection = self._connection = self._engine.connect()
        for setting in KEEPALIVE:
            with suppress(SQLAlchemyError):  # not on every platform
                connection.execute(text(f"SET {setting}"))
        held = connection.execute(
            text("SELECT pg_try_advisory_lock(:class, :key)"), self._key(connection)
        ).scalar_one()
        if held:
            own = text("SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()")
            self._session = _Session(*connection.execute(own).one())
        return bool(held)

    def _key(self, connection: Connection) -> dict[str, int]:
        schema = str(connection.execute(text("SELECT current_schema()")).scalar_one())
        checksum = zlib.crc32(schema.encode())
        return {"class": LOCK_CLASS, "key": checksum - (checksum & 0x80000000) * 2}

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(SQLAlchemyError, OSError):
                connection.invalidate()
            with suppress(SQLAlchemyError, OSError):
                connection.close()

    def _count_start(self) -> int | None:
        """Count this start; return None if the database role lacks the permission."""
        assert self._connection is not None
        try:
            self._connection.execute(text(f"CREATE SEQUENCE IF NOT EXISTS {STARTS}"))
            # Not nextval: Postgres logs 32 values ahead, so after a crash it would seem to have been called.
            moved = select(func.setval(STARTS, column("last_value") + 1)).select_from(table(STARTS))
            return int(self._connection.execute(moved).scalar_one())
        except SQLAlchemyError as error:
            log.warning("cannot count server starts on %s: %s", self._shown, words(error))
            return None

    def _others_started(self) -> bool:
        if self._starts is None or self._connection is None:
            return False
        last = select(column("last_value", BigInteger)).select_from(table(STARTS))
        return self._connection.execute(last).scalar_one() > self._starts

    def _holder(self) -> Any:
        assert self._connection is not None
        query = (
            "SELECT a.pid, a.backend_start, a.application_name, a.client_addr FROM pg_locks l "
            "JOIN pg_stat_activity a ON a.pid = l.pid JOIN pg_database d ON d.oid = l.database "
            "WHERE l.locktype = 'advisory' AND l.granted AND d.datname = current_database() "
            "AND l.classid::bigint = :class AND l.objid::bigint = :key AND l.objsubid = 2"
        )
        key = self._key(self._connection)
        return self._connection.execute(text(query), {**key, "key": key["key"] & 0xFFFFFFFF}).first()

    def _holder_words(self) -> str:
        holder = self._holder()
        if holder is None:
            return "unknown session"
        since = f", connected since {holder.backend_start:%Y-%m-%d %H:%M:%S}" if holder.backend_start else ""
        return f"{holder.application_name or f'session {holder.pid}'}{since}"

    def _end_own_ghost(self) -> None:
        """End our own earlier session, if Postgres has not noticed yet that it ended."""
        assert self._connection is not None
        holder = self._holder()
        if holder is not None and _Session(holder.pid, holder.backend_start) == self._session:
            self._connection.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": holder.pid})
