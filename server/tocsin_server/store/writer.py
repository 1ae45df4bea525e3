"""The only thread that writes: it commits queued data every 100 ms and acks it only afterwards.

A failing database loses no data: the current group is retried indefinitely with back-off,
``failing`` contains the database's message, and no ``done`` is called meanwhile, so no
client gets an ack. The queue itself is unbounded: its callers compare ``backlog_bytes`` with
``limit_bytes`` (``Pressure.wait``) and stop reading sockets.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import (
    DataError,
    DBAPIError,
    IntegrityError,
    NotSupportedError,
    ProgrammingError,
    TimeoutError,
)

from tocsin_server.core.memory_size import size_of_write_batch
from tocsin_server.core.models import WriteBatch
from tocsin_server.core.stats import Durations
from tocsin_server.store.compaction_schedule import Sealer
from tocsin_server.store.database import Database
from tocsin_server.store.outage import words
from tocsin_server.store.periodic_jobs import PeriodicJobs
from tocsin_server.store.row_builder import RowBuilder
from tocsin_server.store.writer_cache import WriterCache

T = TypeVar("T")
log = logging.getLogger("tocsin.store")

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0
"""Back-off while the database fails: doubled from the first to the longest."""
GROUP_BYTES = 2 << 20
"""Maximum bytes of one commit, so that acks and sealing keep up (``compaction_schedule.slice_s``)."""
CALLS_S = 0.05
"""Seconds for which calls are run between two commits, because acks wait meanwhile."""
HOPELESS = (DataError, IntegrityError, NotSupportedError, ProgrammingError)
"""Errors caused by the rows themselves: retrying the same rows never succeeds."""


@dataclass(frozen=True, slots=True)
class Call:
    """A queued call of :meth:`StoreWriter.call`; ``then`` receives its result after the commit."""

    work: Callable[[Connection], Any]
    then: Callable[[Any], None] | None
    future: Future[Any]
    together: bool = False


class Queued(NamedTuple):
    """A queued write batch, and the bytes of memory that it occupies."""

    batch: WriteBatch
    size: int


class StoreWriter:
    """Group commit on one thread, ``interval_s`` apart; when idle, the first write batch commits at once."""

    def __init__(
        self,
        database: Database,
        *,
        interval_s: float = 0.1,
        limit_bytes: int = 32 << 20,
        jobs: PeriodicJobs | None = None,
        pack_after_s: float = 600.0,
    ) -> None:
        self.database = database
        self.interval_s = interval_s
        self.limit_bytes = limit_bytes
        self.backlog_bytes = 0
        self.last_commit_s = 0.0
        self.commits = Durations()
        self._failing: str | None = None
        self.rejected_batches = 0
        self.cache = WriterCache()
        self._row_builder = RowBuilder(self.cache)
        work = (jobs or PeriodicJobs()).round("sealing")
        self._sealer = Sealer(database, self.cache, work, pack_after_s=pack_after_s)
        self._batches: deque[Queued] = deque()
        self._calls: deque[Call] = deque()
        self._held: list[Queued] = []
        self._more = False
        """Whether the last group left part of the queue for the next one."""
        self._due = 0.0
        self._pause_s = FIRST_PAUSE_S
        self._stop_at: float | None = None
        self._wake = threading.Condition()
        self._thread = threading.Thread(target=self._live, name="tocsin-store", daemon=True)

    @property
    def failing(self) -> str | None:
        """Why nothing can be committed now, as the database's message, or None."""
        return self.database.gate.closed or self._failing

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Commit what is queued within ``timeout_s`` and stop; the rest has not been acked."""
        with self._wake:
            self._stop_at = time.monotonic() + timeout_s
            self._wake.notify()
        if self._thread.is_alive():
            self._thread.join(timeout_s + 1.0)
        self._reject()

    def submit(self, write: WriteBatch) -> None:
        """Queue a write batch; thread-safe, never blocks. After ``stop`` it is dropped without an ack."""
        queued = Queued(write, size_of_write_batch(write))
        with self._wake:
            if self._stop_at is None:
                self._batches.append(queued)
                self.backlog_bytes += queued.size
                self._wake.notify()

    def call(
        self,
        work: Callable[[Connection], T],
        then: Callable[[T], None] | None = None,
        *,
        together: bool = False,
    ) -> Future[T]:
        """Run ``work`` in a separate transaction, after everything submitted before.

        Args:
            work: Called on the writer thread. Unlike write batches, it is not retried.
            then: Receives the result on the writer thread, after the commit and before anything else is
                written; it must not raise.
            together: Share a transaction with adjacent calls of this kind. ``work`` must have no effect but
                its rows: if one of the calls fails, all of them run again separately.

        Returns:
            A future with the result after the commit, or the exception after the rollback.
        """
        future: Future[T] = Future()
        with self._wake:
            if self._stop_at is not None:
                future.set_exception(RuntimeError("The store writer has stopped."))
            else:
                self._calls.append(Call(work, then, future, together))
                self._wake.notify()
        return future

    def forget(self, run_id: str) -> None:
        """Drop cached data of a run that was deleted elsewhere. Call it on the writer thread only."""
        self.cache.forget(run_id)
        self._row_builder.forget(run_id)

    def _live(self) -> None:
        while self._wait():
            group, calls = self._take()
            if group:
                self._commit_or_hold(group)
            self._answer_some(deque(calls))
            if self._stop_at is None and self.failing is None:
                self._sealer.work()
                if time.monotonic() >= self._row_builder.latest.due:
                    self._write_latest()
        if self.failing is None and self._row_builder.latest.due < math.inf:
            self._write_latest()

    def _wait(self) -> bool:
        """Wait until there is something to do; return False when the thread should end."""
        with self._wake:
            while True:
                now = time.monotonic()
                waiting = bool(self._batches or self._held)
                if self._stop_at is not None and (not waiting or now >= self._stop_at):
                    return bool(self._calls)
                due = self._due if waiting else min(self._sealer.due(now), self._row_builder.latest.due)
                if self._calls or now >= due:
                    return True
                self._wake.wait(due - now if due < math.inf else None)

    def _take(self) -> tuple[list[Queued], list[Call]]:
        with self._wake:
            calls = list(self._calls)
            self._calls.clear()
            if self._held and time.monotonic() < self._due:
                return [], calls  # failing: calls may try, the group waits for its back-off
            group, self._held = self._held, []
            room = math.inf if calls else GROUP_BYTES  # a call runs after everything submitted before it
            while self._batches and room > 0:
                group.append(self._batches.popleft())
                room -= group[-1].size
            self._more = bool(self._batches)
            return group, calls

    def _commit_or_hold(self, group: list[Queued]) -> None:
        begun = time.monotonic()
        try:
            self._commit(group)
        except Exception as error:  # noqa: BLE001 - handled below; this thread must not die
            self._row_builder.rolled_back()
            if _may_pass(error):
                self._hold(group, error)
            else:
                self._commit_each(group, error)
            return
        self.last_commit_s = time.monotonic() - begun
        self.commits.take(self.last_commit_s)
        self._due = begun if self._more else begun + self.interval_s
        self._durable(group)

    def _commit(self, group: list[Queued]) -> None:
        with self.database.engine.begin() as connection:
            self._row_builder.apply(connection, [queued.batch for queued in group])
        self._row_builder.committed()

    def _write_latest(self) -> None:
        """Write newest values that no later commit included. They are queued again if this fails."""
        try:
            with self.database.engine.begin() as connection:
                self._row_builder.apply(connection, (), all_latest=True)
            self._row_builder.committed()
        except Exception as error:  # noqa: BLE001 - this thread must not die
            self._row_builder.rolled_back()
            log.warning("newest values could not be written and will be retried: %s", words(error))

    def _commit_each(self, group: list[Queued], error: Exception) -> None:
        """Commit each write batch separately, so that one that cannot be stored does not block the others."""
        if len(group) == 1:
            self._leave_out(group, error)
            return
        for place, queued in enumerate(group):
            self._commit_or_hold([queued])
            if self._held:
                self._held += group[place + 1 :]
                return

    def _leave_out(self, group: list[Queued], error: Exception) -> None:
        """Drop a write batch that cannot be stored, and log the loss as an error.

        It counts as handled: otherwise the client would wait for its ack and fill its spool with later
        records.
        """
        self.rejected_batches += 1
        run_id = group[0].batch.run_id
        log.error("a write batch of run %s cannot be stored and was left out: %s", run_id, words(error))
        self._durable(group)

    def _hold(self, group: list[Queued], error: Exception) -> None:
        if self._failing is None:
            log.error("the database fails; nothing is acknowledged until it works again: %s", words(error))
        self._failing = words(error)
        self._held = group
        self._due = time.monotonic() + self._pause_s
        self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)

    def _durable(self, group: list[Queued]) -> None:
        if self._failing is not None:
            log.warning("database works again")
        self._failing = None
        self._pause_s = FIRST_PAUSE_S
        self._lighten(group)
        for queued in group:
            if queued.batch.done is not None:
                _call_done(queued.batch.done)

    def _lighten(self, group: list[Queued]) -> None:
        with self._wake:
            self.backlog_bytes -= sum(queued.size for queued in group)

    def _answer_some(self, calls: deque[Call]) -> None:
        """Run calls for :data:`CALLS_S`; the others follow after the next group.

        Two hundred handshakes after a restart must not delay the first acknowledgement.
        """
        ends = time.monotonic() + CALLS_S
        while calls and time.monotonic() < ends:
            if calls[0].together:
                self._answer_together(calls, ends)
            else:
                self._answer(calls.popleft())
        if calls:
            with self._wake:
                self._calls.extendleft(reversed(calls))

    def _answer_together(self, calls: deque[Call], ends: float) -> None:
        """Run the first calls that may share a transaction in one, until ``ends``."""
        taken: list[Call] = []
        results: list[Any] = []
        try:
            with self.database.engine.begin() as connection:
                while calls and calls[0].together and (not taken or time.monotonic() < ends):
                    call = calls.popleft()
                    if call.future.set_running_or_notify_cancel():
                        taken.append(call)
                        results.append(call.work(connection))
        except BaseException as error:  # noqa: BLE001 - passed on to the caller
            for call in taken:
                if isinstance(error, Exception) and _may_pass(error):
                    call.future.set_exception(error)  # none of them would succeed now
                else:
                    self._run(call)
            return
        for call, result in zip(taken, results, strict=True):
            _finish(call, result)

    def _answer(self, call: Call) -> None:
        if call.future.set_running_or_notify_cancel():
            self._run(call)

    def _run(self, call: Call) -> None:
        try:
            with self.database.engine.begin() as connection:
                result = call.work(connection)
        except BaseException as error:  # noqa: BLE001 - passed on to the caller
            call.future.set_exception(error)
        else:
            _finish(call, result)

    def _reject(self) -> None:
        with self._wake:
            calls = list(self._calls)
            self._calls.clear()
        for call in calls:
            call.future.cancel()


def _may_pass(error: Exception) -> bool:
    """Return whether the same group may succeed later: disk full, locked, restarted, connection lost."""
    if isinstance(error, DBAPIError):
        return error.connection_invalidated or not isinstance(error, HOPELESS)
    return isinstance(error, (TimeoutError, OSError, MemoryError))


def _finish(call: Call, result: Any) -> None:
    try:
        if call.then is not None:
            call.then(result)
    except BaseException as error:  # noqa: BLE001 - passed on to the caller
        call.future.set_exception(error)
    else:
        call.future.set_result(result)


def _call_done(done: Callable[[], None]) -> None:
    try:
        done()
    except Exception:
        log.exception("a done callback raised after its commit")
