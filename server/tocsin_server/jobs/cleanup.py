"""What the server does beside its work: takes deleted runs away, and deletes those past their time.

Marks in the database say what is to do, so a kill interrupts nothing for good, and
``tocsin-server delete`` beside a running server only has to leave a mark.
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
from tocsin_server.store import deletion, deletion_jobs, vacuum
from tocsin_server.store.connection import Connection
from tocsin_server.store.database import Database
from tocsin_server.store.periodic_jobs import PeriodicJob
from tocsin_server.store.reader import StoreReader
from tocsin_server.store.writer import StoreWriter

log = logging.getLogger("tocsin.housekeeping")

BY_AGE = "retention"
"""Who deletes a run that is past its time, in the audit log."""


class Housekeeper:
    """One task beside the record path. Its database work is short transactions on the writer thread."""

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
        """Looks every ``interval_s`` until it is cancelled."""
        await self.work.keep(self.look, interval_s)

    async def look(self) -> None:
        """Deletes what is past its time where it is due, then takes every marked run away."""
        if self._clock() - self._pruned_ns >= self._settings.retention_check_s * 1e9:
            self._pruned_ns = self._clock()
            with self.work.isolated("retention"):
                await self.prune()
        gone = []
        for run_id in await asyncio.to_thread(self._marked):
            if not self.work.rests(f"run {run_id}"):
                with self.work.isolated(f"run {run_id}"):
                    await self._remove(run_id)
                    gone.append(run_id)
        await asyncio.to_thread(self._make_room, bool(gone))

    async def _remove(self, run_id: str) -> None:
        await self._forget(run_id)
        await asyncio.to_thread(deletion_jobs.take_away, deletion_jobs.on_writer(self._writer), run_id)

    def _make_room(self, deleted: bool) -> None:
        if deleted:
            deletion_jobs.give_room_back(deletion_jobs.on_writer(self._writer))
            vacuum.vacuum(self._database)
        else:
            vacuum.tidy_tail(self._database)

    async def _forget(self, run_id: str) -> None:
        """Another process may have marked the run: nothing here may take it for a living one."""

        def work(_connection: Connection) -> None:
            self._writer.forget(run_id)

        await asyncio.wrap_future(self._writer.call(work))
        self._pipeline.forget(run_id)

    def _marked(self) -> list[str]:
        with self._database.reader.begin() as connection:
            return deletion.due(connection, self._clock())

    async def prune(self) -> list[str]:
        """Marks the runs that are past their time; their ids."""
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
