"""Restore the runs that have not ended after a start, while the server already accepts records."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from tocsin_server.store.periodic_jobs import PeriodicJob

PAUSE_S = 0.5
"""Pause between two rounds over the runs that could not be restored."""


class Restorer:
    """Restore runs one after another; retry those that fail.

    An outage must not leave out a run whose training process is gone, because no handshake would load it. A
    handshake restores its own run meanwhile, without waiting for the others.
    """

    def __init__(self, restore: Callable[[str], Awaitable[Any]], work: PeriodicJob) -> None:
        """Create a restorer.

        Args:
            restore: Loads the run with this id into memory, or raises.
            work: Records failures and schedules retries.
        """
        self._restore_run = restore
        self._work = work
        self._task: asyncio.Task[None] | None = None
        self.waiting: dict[str, None] = {}
        """Runs that are not in memory yet, in the order of restoration."""

    def start(self, run_ids: Iterable[str]) -> None:
        """Start to restore these runs."""
        self.waiting = dict.fromkeys(run_ids)
        self._task = asyncio.create_task(self._restore(), name="restoring")

    async def stop(self) -> None:
        """Stop; the remaining runs stay in the store."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def skip(self, run_id: str) -> None:
        """Skip a run that is in memory already or was deleted."""
        self.waiting.pop(run_id, None)

    async def _restore(self) -> None:
        while self.waiting:
            for run_id in list(self.waiting):
                await self._restore_one(run_id)
            await asyncio.sleep(PAUSE_S)

    async def _restore_one(self, run_id: str) -> None:
        subject = f"run {run_id}"
        if run_id not in self.waiting or self._work.rests(subject):
            return
        try:
            await self._restore_run(run_id)
        except Exception as error:  # noqa: BLE001 - continue with the other runs
            self._work.failed(subject, error)
        else:
            self.waiting.pop(run_id, None)
            self._work.passed(subject)
