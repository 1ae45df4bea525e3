"""Deletes runs and projects: marked at once, taken away piece by piece, the room given back.

The same steps serve the server, whose one writer thread runs them between commits, and the
command line on a database that no server holds.
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
log = logging.getLogger("tocsin.removal")


class Transact(Protocol):
    """Runs ``work`` in a transaction of its own and returns what it returns."""

    def __call__(self, work: Callable[[Connection], T]) -> T: ...


def on_writer(writer: StoreWriter) -> Transact:
    """Transactions on the server's writer thread; blocks the caller, never the event loop's own thread."""

    def transact(work: Callable[[Connection], T]) -> T:
        return writer.call(work).result()

    return transact


def on_database(database: Database) -> Transact:
    """Transactions on this process's own writing connection."""

    def transact(work: Callable[[Connection], T]) -> T:
        with database.engine.begin() as connection:
            return work(connection)

    return transact


def mark_runs(connection: Connection, run_ids: Sequence[str], now_ns: int, actor: str) -> list[str]:
    """Marks runs as deleted and notes who did it; those that there were."""
    found = [run_id for run_id in run_ids if deletion.mark(connection, run_id, now_ns)]
    for run_id in found:
        audit.note(connection, now_ns, actor, "run.delete", run_id)
    return found


def mark_project(connection: Connection, name: str, now_ns: int, actor: str) -> list[str] | None:
    """Marks all runs of a project as deleted; their ids, None where there is no such project."""
    found = mark_runs(connection, deletion.runs_of(connection, name), now_ns, actor)
    if not deletion.delete_project_row(connection, name) and not found:
        return None
    audit.note(connection, now_ns, actor, "project.delete", name, {"runs": len(found)})
    return found


def mark_on(writer: StoreWriter, mark: Callable[[Connection], Marked]) -> Future[Marked]:
    """Runs ``mark`` on the server's writer, which forgets the runs that it marks: what still comes of
    them is let go."""

    def forget(marked: list[str] | None) -> None:
        for run_id in marked or ():
            writer.forget(run_id)

    return writer.call(mark, forget)


def take_away(transact: Transact, run_id: str) -> None:
    """Deletes every row of a marked run, a bounded number a transaction."""
    begun = time.monotonic()
    transact(partial(deletion.begin_deletion, run_id=run_id, now_ns=time.time_ns()))
    while transact(partial(deletion.sweep, run_id=run_id)):
        pass
    log.info("run %s is deleted, its rows were gone in %.1f s", run_id, time.monotonic() - begun)


def give_room_back(transact: Transact) -> None:
    """Gives the room of deleted rows back, a bounded number of pages a transaction."""
    while transact(vacuum.give_back):
        pass


def finish(transact: Transact, run_ids: Sequence[str]) -> None:
    """Takes marked runs away and gives their room back."""
    for run_id in run_ids:
        take_away(transact, run_id)
    if run_ids:
        give_room_back(transact)
