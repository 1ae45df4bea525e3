"""Delete runs and projects: mark them at once, delete their rows in pieces, and free the space.

The server runs these steps on its writer thread between commits; the command line runs them
on a database that no server uses.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Protocol, TypeVar

from sqlalchemy import Connection

from tocsin_server.store import audit, deletion, vacuum
from tocsin_server.store.database import Database
from tocsin_server.store.writer import StoreWriter

T = TypeVar("T")
Marked = TypeVar("Marked", list[str], list[str] | None)
log = logging.getLogger("tocsin.deletion")


class Transact(Protocol):
    """Runs ``work`` in a new transaction and returns its result."""

    def __call__(self, work: Callable[[Connection], T]) -> T: ...


def on_writer(writer: StoreWriter) -> Transact:
    """Return a function that runs transactions on the server's writer thread and blocks the caller.

    Do not use it on the event loop's thread.
    """

    def transact(work: Callable[[Connection], T]) -> T:
        return writer.call(work).result()

    return transact


def on_database(database: Database) -> Transact:
    """Return a function that runs transactions on this process's writing connection."""

    def transact(work: Callable[[Connection], T]) -> T:
        with database.engine.begin() as connection:
            return work(connection)

    return transact


def mark_runs(connection: Connection, run_ids: Sequence[str], now_ns: int, actor: str) -> list[str]:
    """Mark runs as deleted and record it in the audit log; return those that existed."""
    found = [run_id for run_id in run_ids if deletion.mark(connection, run_id, now_ns)]
    for run_id in found:
        audit.note(connection, now_ns, actor, "run.delete", run_id)
    return found


def mark_project(connection: Connection, name: str, now_ns: int, actor: str) -> list[str] | None:
    """Mark all runs of a project as deleted; return their ids, or None if there is no such project."""
    found = mark_runs(connection, deletion.runs_of(connection, name), now_ns, actor)
    if not deletion.delete_project_row(connection, name) and not found:
        return None
    audit.note(connection, now_ns, actor, "project.delete", name, {"runs": len(found)})
    return found


def mark_on(writer: StoreWriter, mark: Callable[[Connection], Marked]) -> Future[Marked]:
    """Run ``mark`` on the server's writer thread, which then drops further data of the marked runs."""

    def forget(marked: list[str] | None) -> None:
        for run_id in marked or ():
            writer.forget(run_id)

    return writer.call(mark, forget)


def take_away(transact: Transact, run_id: str) -> None:
    """Delete every row of a marked run, a bounded number per transaction."""
    begun = time.monotonic()
    transact(partial(deletion.begin_deletion, run_id=run_id, now_ns=time.time_ns()))
    while transact(partial(deletion.sweep, run_id=run_id)):
        pass
    log.info("run %s is deleted; removing its rows took %.1f s", run_id, time.monotonic() - begun)


def give_room_back(transact: Transact) -> None:
    """Free the space of deleted runs, a bounded number of pages per transaction."""
    while transact(vacuum.give_back):
        pass


def finish(transact: Transact, run_ids: Sequence[str]) -> None:
    """Delete the rows of marked runs and free their space."""
    for run_id in run_ids:
        take_away(transact, run_id)
    if run_ids:
        give_room_back(transact)
