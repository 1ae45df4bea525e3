"""Delete runs for a command, alone or beside a running server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import typer

from tocsin.core.values import counted
from tocsin_server.cli.database import url_of
from tocsin_server.cli.options import who
from tocsin_server.core.errors import StartError, TocsinError
from tocsin_server.core.settings import Settings
from tocsin_server.store import deletion, deletion_jobs, vacuum
from tocsin_server.store.connection import Connection
from tocsin_server.store.database import Database, let_the_server_checkpoint
from tocsin_server.store.ownership import sole_on_file
from tocsin_server.store.reader import StoreReader
from tocsin_server.transfer.record_export import find_run

WAIT_S = 5.0
"""How long a command on Postgres waits for a running server to take over a deletion."""


def chosen(database: Database, run: str | None, project: str | None) -> list[str]:
    """Return the run with that id or name, or the runs of a project. Raises TocsinError if there are none."""
    reader = StoreReader(database)
    if run is not None:
        return [find_run(reader, run)]
    with database.reader.begin() as connection:
        found = deletion.runs_of(connection, str(project))
    if not found:
        raise TocsinError(f"Project {project!r} has no runs.")
    return found


def mark_project(connection: Connection, name: str, now_ns: int) -> list[str]:
    """Mark all runs of a project as deleted; return them."""
    return deletion_jobs.mark_project(connection, name, now_ns, who()) or []


def delete_marked(
    settings: Settings, database: Database, mark: Callable[[Connection], list[str]], *, err: bool = False
) -> None:
    """Mark runs as deleted and remove them; a running server removes them itself.

    Args:
        settings: Settings of the server.
        database: Its database.
        mark: Marks the runs and returns their ids.
        err: Whether the result is printed to standard error, because standard output is JSON.
    """
    with alone(settings) as free:
        transact = transacting(database, free)
        marked = transact(mark)
        if not free and (database.dialect == "sqlite" or taken(database, marked)):
            typer.echo(
                f"Deleted {counted(len(marked), 'run')}; the running server removes the rows.", err=err
            )
            return
        deletion_jobs.finish(transact, marked)
        vacuum.vacuum(database)
        typer.echo(f"Deleted {counted(len(marked), 'run')}.", err=err)
        if database.dialect == "postgresql":
            typer.echo("Autovacuum frees their space for new rows; `VACUUM` does so immediately.", err=err)


@contextmanager
def alone(settings: Settings) -> Iterator[bool]:
    """Yield True and lock out servers if none uses the SQLite database. On Postgres this is unknown."""
    url = url_of(settings)
    if url.get_backend_name() != "sqlite":
        yield False
        return
    with ExitStack() as stack:
        free = True
        try:
            stack.enter_context(sole_on_file(Path(str(url.database))))
        except StartError:
            free = False
        yield free


def transacting(database: Database, free: bool) -> deletion_jobs.Transact:
    """Return how to change the database: beside a server if it is not ``free``."""
    if not free:
        with database.engine.begin() as connection:
            let_the_server_checkpoint(connection)
    return deletion_jobs.on_database(database)


def finish_all(database: Database, transact: deletion_jobs.Transact) -> None:
    """Finish all interrupted deletions, however recent, because no other process can be working on them."""
    with database.reader.begin() as connection:
        left = deletion.due(connection, time.time_ns(), interrupted=True)
    deletion_jobs.finish(transact, left)


def taken(database: Database, run_ids: list[str]) -> bool:
    """Return whether a server takes over the marked runs, for which it looks every second."""
    ends = time.monotonic() + WAIT_S
    while time.monotonic() < ends:
        with database.reader.begin() as connection:
            if any(deletion.has_begun(connection, run_id) for run_id in run_ids):
                return True
        time.sleep(0.1)
    return not run_ids
