"""The only thread that writes: it commits all that waits every 100 ms, and only then says so.

Nothing is lost by a failing database: the group in hand is tried again for ever with back-off,
``failing`` carries the database's own words, and no ``done`` is called meanwhile, so no
trainer hears an ack. The queue has no bound of its own: ``backlog_bytes`` is compared with
``limit_bytes`` by who feeds it (``Pipeline.ready_for_more``), which stops reading sockets.
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
"""What one commit takes of a flood, so that acks come and sealing keeps up (``sealer.slice_s``)."""
CALLS_S = 0.05
"""Calls are answered for so long between two commits; acks wait meanwhile."""
HOPELESS = (DataError, IntegrityError, NotSupportedError, ProgrammingError)
"""What the database says of the rows themselves: the same rows will never pass."""


@dataclass(frozen=True, slots=True)
class Call:
    """Work that someone waits for; ``then`` hears its result after the commit."""

    work: Callable[[Connection], Any]
    then: Callable[[Any], None] | None
    future: Future[Any]


class Queued(NamedTuple):
    """An intake that waits, and the bytes of memory that it holds."""

    batch: WriteBatch
    size: int


class StoreWriter:
    """Group commit on one thread. ``interval_s`` apart; idle, the first intake commits at once."""

    def __init__(
        self,
        database: Database,
        *,
        interval_s: float = 0.1,
        limit_bytes: int = 32 << 20,
        jobs: PeriodicJobs | None = None,
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
        self._sealer = Sealer(database, self.cache, (jobs or PeriodicJobs()).round("sealing"))
        self._batches: deque[Queued] = deque()
        self._calls: deque[Call] = deque()
        self._held: list[Queued] = []
        self._more = False
        """Whether the last group left some of the queue for the next one."""
        self._due = 0.0
        self._pause_s = FIRST_PAUSE_S
        self._stop_at: float | None = None
        self._wake = threading.Condition()
        self._thread = threading.Thread(target=self._live, name="tocsin-store", daemon=True)

    @property
    def failing(self) -> str | None:
        """Why nothing becomes durable now, in the database's own words; None while it does."""
        return self.database.gate.closed or self._failing

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Commits what waits, within ``timeout_s``, and ends; what is left was never acked."""
        with self._wake:
            self._stop_at = time.monotonic() + timeout_s
            self._wake.notify()
        if self._thread.is_alive():
            self._thread.join(timeout_s + 1.0)
        self._reject()

    def submit(self, write: WriteBatch) -> None:
        """Queues ``intake``; any thread, never blocks. After ``stop`` it is let go, not acked."""
        queued = Queued(write, size_of_write_batch(write))
        with self._wake:
            if self._stop_at is None:
                self._batches.append(queued)
                self.backlog_bytes += queued.size
                self._wake.notify()

    def call(self, work: Callable[[Connection], T], then: Callable[[T], None] | None = None) -> Future[T]:
        """Runs ``work`` in a transaction of its own, after all that was submitted before.

        The future carries its result after the commit, or its exception after the rollback;
        unlike intakes it is not tried again. ``then`` hears the result on this thread, after the
        commit and before anything else is written; it must not raise.
        """
        future: Future[T] = Future()
        with self._wake:
            if self._stop_at is not None:
                future.set_exception(RuntimeError("store writer: expected it to run, got one that stopped"))
            else:
                self._calls.append(Call(work, then, future))
                self._wake.notify()
        return future

    def forget(self, run_id: str) -> None:
        """Someone else deleted the run: nothing remembered of it is written. Only on this thread."""
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
        """Sleeps until there is something to do; False when it is time to end."""
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
                return [], calls  # failing: calls may try, the group waits out its back-off
            group, self._held = self._held, []
            room = math.inf if calls else GROUP_BYTES  # a call comes after all that was submitted before
            while self._batches and room > 0:
                group.append(self._batches.popleft())
                room -= group[-1].size
            self._more = bool(self._batches)
            return group, calls

    def _commit_or_hold(self, group: list[Queued]) -> None:
        begun = time.monotonic()
        try:
            self._commit(group)
        except Exception as error:  # noqa: BLE001 - judged below; this thread must not die
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
        """Newest values that no later records took along. They are told again where this fails."""
        try:
            with self.database.engine.begin() as connection:
                self._row_builder.apply(connection, (), all_latest=True)
            self._row_builder.committed()
        except Exception as error:  # noqa: BLE001 - this thread must not die
            self._row_builder.rolled_back()
            log.warning("newest values could not be written, they are tried again: %s", words(error))

    def _commit_each(self, group: list[Queued], error: Exception) -> None:
        """One of the group cannot be stored at all: it must not hold up the others."""
        if len(group) == 1:
            self._leave_out(group, error)
            return
        for place, queued in enumerate(group):
            self._commit_or_hold([queued])
            if self._held:
                self._held += group[place + 1 :]
                return

    def _leave_out(self, group: list[Queued], error: Exception) -> None:
        """Its records are lost, so this is said loudly. It counts as dealt with: a trainer that waits for
        an ack for ever would fill its spool with what comes after."""
        self.rejected_batches += 1
        run_id = group[0].batch.run_id
        log.error("a write batch of run %s cannot be stored and was left out: %s", run_id, words(error))
        self._durable(group)

    def _hold(self, group: list[Queued], error: Exception) -> None:
        if self._failing is None:
            log.error("database fails, nothing is acked until it works again: %s", words(error))
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
                _say(queued.batch.done)

    def _lighten(self, group: list[Queued]) -> None:
        with self._wake:
            self.backlog_bytes -= sum(queued.size for queued in group)

    def _answer_some(self, calls: deque[Call]) -> None:
        """Answer calls for :data:`CALLS_S`; the others come after the next group.

        Two hundred handshakes after a restart must not keep the first acknowledgement waiting.
        """
        ends = time.monotonic() + CALLS_S
        while calls and time.monotonic() < ends:
            self._answer(calls.popleft())
        if calls:
            with self._wake:
                self._calls.extendleft(reversed(calls))

    def _answer(self, call: Call) -> None:
        if not call.future.set_running_or_notify_cancel():
            return
        try:
            with self.database.engine.begin() as connection:
                result = call.work(connection)
            if call.then is not None:
                call.then(result)
        except BaseException as error:  # noqa: BLE001 - it belongs to who asked
            call.future.set_exception(error)
        else:
            call.future.set_result(result)

    def _reject(self) -> None:
        with self._wake:
            calls = list(self._calls)
            self._calls.clear()
        for call in calls:
            call.future.cancel()


def _may_pass(error: Exception) -> bool:
    """Whether the same group may succeed later: disk full, locked, restarted, connection lost."""
    if isinstance(error, DBAPIError):
        return error.connection_invalidated or not isinstance(error, HOPELESS)
    return isinstance(error, (TimeoutError, OSError, MemoryError))


def _say(done: Callable[[], None]) -> None:
    try:
        done()
    except Exception:
        log.exception("a done callback raised after its commit")
