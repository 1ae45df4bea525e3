"""Periodic jobs outside the ingest path, in which a failing subject does not affect the others.

Every periodic job of the server is a :class:`PeriodicJob`. A failure of one run (or channel, or group) is
logged, reported by ``/health`` and retried with exponential backoff; the job continues with the other
subjects. A database outage (:func:`outage.is_outage`) ends the current pass; the next one starts after the
usual interval.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tocsin_server.store.outage import is_outage, line

log = logging.getLogger("tocsin.jobs")

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 600.0
"""Pause before a failing subject is retried: it doubles from the first to the longest."""
KEPT_S = 2 * LONGEST_PAUSE_S
"""A failure that has not recurred for this long is dropped: its run may have been deleted."""
MOST = 1000
"""Maximum number of failing subjects per job; above it, the one with the oldest failure is dropped."""
SLOW_S = 120.0
"""A pass that takes longer is listed in ``/health``."""
DATABASE = "database"
"""Name of the job that checks whether the database responds (``app/application.py``)."""
WHOLE = ""
"""The subject of a failure of the job as a whole."""
REASON_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class Failure:
    """One failing subject. Times are seconds on the monotonic clock, except ``since_ns`` (Unix ns)."""

    subject: str
    reason: str
    count: int
    since_ns: int
    last_s: float
    due_s: float


class PeriodicJob:
    """One periodic job. Thread-safe: its work may run in threads."""

    def __init__(self, name: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.name = name
        self._clock = clock
        self._failures: dict[str, Failure] = {}
        self._begun_s: float | None = None
        self._lock = threading.Lock()

    @contextmanager
    def isolated(self, subject: str) -> Iterator[None]:
        """Record an error of the block under `subject`, for example ``run r_1``. Raise outages."""
        try:
            yield
        except Exception as error:
            if is_outage(error):
                raise
            self.failed(subject, error)
        else:
            self.passed(subject)

    def rests(self, subject: str) -> bool:
        """Return whether `subject` failed and its next retry is not due yet."""
        with self._lock:
            failure = self._failures.get(subject)
            return failure is not None and self._clock() < failure.due_s

    def resting(self, kind: str = "") -> set[str]:
        """Return the names of the subjects of a kind (``run``) whose next retry is not due yet."""
        with self._lock:
            now_s, beginning = self._clock(), f"{kind} " if kind else ""
            return {
                subject.removeprefix(beginning)
                for subject, failure in self._failures.items()
                if subject.startswith(beginning) and subject and now_s < failure.due_s
            }

    def failed(self, subject: str, error: BaseException) -> None:
        """Record a failure; log it with its traceback if it is new."""
        reason = _reason(error)
        with self._lock:
            before = self._failures.pop(subject, None)
            count, now_s = (before.count if before else 0) + 1, self._clock()
            pause_s = min(FIRST_PAUSE_S * 2.0 ** min(count - 1, 30), LONGEST_PAUSE_S)
            since_ns = before.since_ns if before else time.time_ns()
            self._failures[subject] = Failure(subject, reason, count, since_ns, now_s, now_s + pause_s)
            if len(self._failures) > MOST:
                del self._failures[next(iter(self._failures))]
        where = f"{self.name}, {subject}" if subject else self.name
        if before is None or before.reason != reason:
            log.error("%s failed and will be retried: %s", where, reason, exc_info=_traced(error))
        else:
            log.debug("%s failed again: %s", where, reason)

    def passed(self, subject: str) -> None:
        """Forget a failure that is over."""
        if not self._failures:
            return
        with self._lock:
            before = self._failures.pop(subject, None)
        if before is not None:
            where = f"{self.name}, {subject}" if subject else self.name
            log.info("%s works again after %d failures", where, before.count)

    async def once(self, work: Callable[[], Awaitable[Any]]) -> None:
        """Do `work`; record any error instead of raising it."""
        self._begun_s = self._clock()
        try:
            await work()
        except Exception as error:  # noqa: BLE001 - the next round must start
            self.failed(WHOLE, error)
        else:
            self.passed(WHOLE)
        finally:
            self._begun_s = None

    async def keep(self, work: Callable[[], Awaitable[Any]], interval_s: float) -> None:
        """Do `work` every ``interval_s`` until canceled."""
        while True:
            await asyncio.sleep(interval_s)
            await self.once(work)

    def failing(self) -> list[dict[str, Any]]:
        """Return the current failures, as ``/health`` shows them."""
        with self._lock:
            now_s, begun_s = self._clock(), self._begun_s
            for subject in [s for s, failure in self._failures.items() if now_s - failure.last_s > KEPT_S]:
                del self._failures[subject]
            found = [self._item(failure, now_s) for failure in self._failures.values()]
        if begun_s is not None and now_s - begun_s > SLOW_S:
            reason = f"running for {now_s - begun_s:.0f} s"
            found.append({"job": self.name, "subject": WHOLE, "reason": reason, "failures": 0})
        return found

    def _item(self, failure: Failure, now_s: float) -> dict[str, Any]:
        return {
            "job": self.name,
            "subject": failure.subject,
            "reason": failure.reason,
            "failures": failure.count,
            "since_ms": failure.since_ns // 1_000_000,
            "next_try_s": round(max(failure.due_s - now_s, 0.0), 1),
        }


class PeriodicJobs:
    """All periodic jobs of one server."""

    def __init__(self) -> None:
        self._rounds: dict[str, PeriodicJob] = {}

    @property
    def outage(self) -> str | None:
        """The database's error message while it is unavailable, else None. Makes no query."""
        return next((item["reason"] for item in self.round(DATABASE).failing()), None)

    def round(self, name: str) -> PeriodicJob:
        """Return the job of this name, the same one in every call."""
        return self._rounds.setdefault(name, PeriodicJob(name))

    def failing(self) -> list[dict[str, Any]]:
        """Return the current failures of all jobs, sorted by the name of the job."""
        return [item for _, one in sorted(self._rounds.items()) for item in one.failing()]


def _reason(error: BaseException) -> str:
    reported = line(error) if is_outage(error) else f"{type(error).__name__}: {line(error)}"
    return reported[:REASON_CHARACTERS]


def _traced(error: BaseException) -> BaseException | None:
    """Return the error whose traceback to log: none for an outage, which is not a bug."""
    return None if is_outage(error) else error
