"""Postgres connections that are closed if the server does not answer a statement.

TCP detects a machine that is gone, but not a process that is alive and stuck: stopped by a signal, or
waiting for a disk. Without a limit, every request would wait until the process continues.

Import this module only if Postgres is used: its driver is an optional dependency.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from sqlalchemy import Connection, Engine, event

CANCEL_S = 1.0
"""How long the cancellation of a statement may take."""


class LimitedConnection(psycopg.Connection[Any]):
    """A connection that is closed if the server sends nothing for too long during a statement.

    SQLAlchemy replaces a closed connection, and treats the error as a lost connection.
    """

    silence_s: float | None = None
    """The longest silence; None for no limit."""

    def wait(self, gen: Generator[Any, Any, Any], *args: Any, **options: Any) -> Any:
        """Run a statement to its end, as psycopg does.

        Raises:
            OperationalError: The server was silent for too long. The connection is closed.
        """
        if self.silence_s is not None:
            gen = self._limited(gen, self.silence_s)
        return super().wait(gen, *args, **options)

    def _limited(self, gen: Generator[Any, Any, Any], silence_s: float) -> Generator[Any, Any, Any]:
        """Pass everything between psycopg's loop and ``gen``. The loop sends 0 if nothing came for 0.1 s."""
        received_s = time.monotonic()
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if ready:
                    received_s = time.monotonic()
                elif time.monotonic() - received_s > silence_s:
                    self._give_up(silence_s)
                wanted = gen.send(ready)
        except StopIteration as done:
            return done.value

    def _give_up(self, silence_s: float) -> None:
        """Cancel the statement, because the server may only be slow, and close the connection."""
        if psycopg.capabilities.has_cancel_safe():  # an older libpq would wait for an answer
            with suppress(psycopg.Error):
                self.cancel_safe(timeout=CANCEL_S)
        self.pgconn.finish()
        raise psycopg.OperationalError(f"the server did not answer for {silence_s:g} s")


def limit_silence(engine: Engine, silence_s: float) -> None:
    """Give the connections of an engine a limit for how long the server may be silent."""

    @event.listens_for(engine, "do_connect")
    def connect(_dialect: Any, _record: Any, arguments: Any, options: dict[str, Any]) -> LimitedConnection:
        connection = LimitedConnection.connect(*arguments, **options)
        connection.silence_s = silence_s
        return connection


@contextmanager
def no_limit(connection: Connection) -> Iterator[None]:
    """Allow statements that may take any time, such as VACUUM, on a connection of such an engine."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, LimitedConnection)
    kept, driver.silence_s = driver.silence_s, None
    try:
        yield
    finally:
        driver.silence_s = kept
