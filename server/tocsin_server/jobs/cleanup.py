"""Delete the rows of deleted runs, and delete runs that are past their retention.

Marks in the database list what to delete, so an interrupted deletion resumes after a restart, and
``tocsin-server delete`` only sets a mark while a server is running.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial

from tocsin_server.core.settings import Settings
from tocsin_server.jobs.retention import expired
from tocsin_server.runs.pipeline import Pipeline
from tocsin_server.store import deletion, deletion_jobs, layer_rows, vacuum
from tocsin_server.store.connection import Connection
from tocsin_server.store.database import Database
from tocsin_server.store.periodic_jobs import PeriodicJob
from tocsin_server.store.reader import StoreReader
from tocsin_server.store.writer import StoreWriter

log = logging.getLogger("tocsin.cleanup")

CONSOLE_SLACK = 256 << 10
"""Bytes of output that a run may receive before its log is trimmed."""
BY_AGE = "retention"
"""Actor in the audit log of a run deleted by retention."""


class Housekeeper:
    """A task outside the ingest path. Its database work is short transactions on the writer thread."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        writer: StoreWriter,
        pipeline: Pipeline,
        *,
        work: PeriodicJob | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.work = work or PeriodicJob("housekeeping")
        self._settings = settings
        self._database = database
        self._writer = writer
        self._pipeline = pipeline
        self._clock = clock
        self._pruned_ns = clock()

    async def keep(self, *, interval_s: float = 1.0) -> None:
        """Run :meth:`look` every ``interval_s`` until canceled."""
        await self.work.keep(self.look, interval_s)

    async def look(self) -> None:
        """Apply retention if it is due, then delete the rows of every marked run."""
        if self._clock() - self._pruned_ns >= self._settings.retention_check_s * 1e9:
            self._pruned_ns = self._clock()
            with self.work.isolated("retention"):
                await self.prune()
        await self._trim_logs()
        gone = []
        for run_id in await asyncio.to_thread(self._marked):
            if not self.work.rests(f"run {run_id}"):
                with self.work.isolated(f"run {run_id}"):
                    await self._remove(run_id)
                    gone.append(run_id)
        await asyncio.to_thread(self._make_room, bool(gone))

    async def _trim_logs(self) -> None:
        """Delete the oldest output of runs that received much."""
        for run in tuple(self._pipeline.registry.active.values()):
            if run.console_bytes > CONSOLE_SLACK:
                run.console_bytes = 0
                with self.work.isolated(f"run {run.id}"):
                    trim = partial(layer_rows.trim_console, run_id=run.id)
                    await asyncio.wrap_future(self._writer.call(trim))

    async def _remove(self, run_id: str) -> None:
        await self._forget(run_id)
        await asyncio.to_thread(deletion_jobs.take_away, deletion_jobs.on_writer(self._writer), run_id)

    def _make_room(self, deleted: bool) -> None:
        if deleted:
            deletion_jobs.give_room_back(deletion_jobs.on_writer(self._writer))
            vacuum.vacuum(self._database)
        elif vacuum.has_room(self._database):
            deletion_jobs.give_room_back(deletion_jobs.on_writer(self._writer))
        else:
            vacuum.tidy_tail(self._database)

    async def _forget(self, run_id: str) -> None:
        """Drop cached data of the run, which another process may have marked, so that it is not kept
        active.
        """

        def work(_connection: Connection) -> None:
            self._writer.forget(run_id)

        await asyncio.wrap_future(self._writer.call(work))
        self._pipeline.changes.forget(run_id)

    def _marked(self) -> list[str]:
        with self._database.reader.begin() as connection:
            return deletion.due(connection, self._clock())

    async def prune(self) -> list[str]:
        """Mark the runs that are past their retention; return their ids."""
        settings = self._settings
        if not settings.retention_days and not any(days for _, days in settings.retention_projects):
            return []
        runs = await asyncio.to_thread(StoreReader(self._database).runs)
        connected = {run.id for run in self._pipeline.registry.active.values() if run.connected}
        now_ns, old = self._clock(), []
        for run in runs:
            with self.work.isolated(f"retention of run {run.id}"):
                old += [one.id for one in expired([run], settings, now_ns, connected=connected)]
        mark = partial(deletion_jobs.mark_runs, run_ids=old, now_ns=now_ns, actor=BY_AGE)
        found = await asyncio.wrap_future(deletion_jobs.mark_on(self._writer, mark))
        if found:
            log.info("%d runs are past their retention and deleted: %s", len(found), ", ".join(found))
        return found
