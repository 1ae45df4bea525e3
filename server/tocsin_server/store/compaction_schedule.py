"""Schedule sealing: after commits, on the writer thread, for a bounded time. See ``compactor``."""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable
from itertools import islice

from tocsin_server.store import chunks
from tocsin_server.store.compactor import pack_tail, pack_whole_tail, seal, tail_sizes
from tocsin_server.store.connection import Connection
from tocsin_server.store.database import Database
from tocsin_server.store.periodic_jobs import PeriodicJob
from tocsin_server.store.writer_cache import Unpacked, WriterCache, WriterKey

log = logging.getLogger("tocsin.store")

SLICE_S, LONGEST_SLICE_S = 0.03, 0.5
"""Sealing between two commits stops after this many seconds, because acks wait for it.

The limit rises to the second value if sealing falls behind, or the tail would grow without bound.
"""
USUAL_DEPTH = 4
"""Unsealed chunks of a writer above which sealing may take longer than SLICE_S."""
PAUSE_S = 30.0
"""Seconds after which a failed writer is tried again; its tail stays readable."""
LEAST_PACKED = 64
"""New records below which the tail of a run that has not ended is not packed."""
OVER_S = 10.0
"""Seconds after the end of a run in which its last records may arrive; then its tails are packed."""
SURVEYED, SURVEY_S = 20, 0.1
"""Writers whose tails are counted at once after a start, and the seconds between two times."""


def slice_s(unsealed: int) -> float:
    """Return the seconds to spend on sealing if the longest tail has ``unsealed`` records."""
    return min(SLICE_S * max(unsealed / chunks.RECORDS / USUAL_DEPTH, 1.0), LONGEST_SLICE_S)


class Sealer:
    """Seals the writers whose tail holds a chunk's worth of records, longest tail first; packs other tails.

    A tail is packed once its run has ended, or once its oldest batch has waited ``pack_after_s``.
    """

    def __init__(
        self,
        database: Database,
        cache: WriterCache,
        work: PeriodicJob | None = None,
        *,
        pack_after_s: float = 600.0,
    ) -> None:
        self._work = work or PeriodicJob("sealing")
        self._database = database
        self._cache = cache
        self._pack_after_s = pack_after_s
        self._paused: dict[WriterKey, float] = {}
        self._survey_s = 0.0
        self._ending: deque[WriterKey] = deque()
        """Writers of runs that are over, to be packed as a whole."""

    def due(self, now_s: float) -> float:
        """Return when there is something to seal or to pack, on the monotonic clock, or infinity."""
        times = [self._paused.get(key, now_s) for key in self.ripe()] + [now_s] * bool(self._ending)
        if self._cache.surveyed is not None:
            times.append(self._survey_s)
        times += [ended_s + OVER_S for ended_s in islice(self._cache.over.values(), 1)]
        times += [tail.since_s + self._pack_after_s for tail in islice(self._cache.unpacked.values(), 1)]
        return min(times, default=math.inf)

    def work(self) -> None:
        """Seal and pack for :func:`slice_s` seconds. Never raises: a failure is retried after ``PAUSE_S``."""
        begun = time.monotonic()
        if self._cache.surveyed is not None and begun >= self._survey_s:
            self._survey(self._cache.surveyed, begun)
        ripe = [key for key in self.ripe() if self._paused.get(key, begun) <= begun]
        ends = begun + slice_s(self._cache.unsealed[ripe[0]] if ripe else 0)
        for key in ripe:
            while self._one(key):
                if time.monotonic() > ends:
                    return
            if time.monotonic() > ends:
                return
        self._end_runs(begun)
        while self._pack_next(begun) and time.monotonic() <= ends:
            pass

    def _survey(self, after: WriterKey, now_s: float) -> None:
        """Count the next tails that an earlier process left; their writers may never send again."""
        self._survey_s = now_s + SURVEY_S
        try:
            with self._database.reader.begin() as connection:
                found = tail_sizes(connection, after, SURVEYED)
        except Exception as error:  # noqa: BLE001 - the writer thread must not die
            self._survey_s = now_s + PAUSE_S
            log.warning("could not look for tails to compact and will look again: %s", error)
            return
        for tail in found:
            key = tail.run_id, tail.writer_no
            self._cache.unsealed[key] = tail.records
            self._cache.unpacked.setdefault(key, Unpacked(0, now_s)).records = tail.unpacked
            if tail.over:
                self._cache.over.setdefault(tail.run_id, now_s)
        self._cache.surveyed = (found[-1].run_id, found[-1].writer_no) if len(found) == SURVEYED else None

    def ripe(self) -> list[WriterKey]:
        """Return writers with a chunk or more in the tail, longest first so that none grows without bound."""
        unsealed = self._cache.unsealed
        return sorted((key for key, n in unsealed.items() if n >= chunks.RECORDS), key=lambda k: -unsealed[k])

    def _one(self, key: WriterKey) -> bool:
        """Seal one chunk; return whether the writer has another."""
        taken = self._transact(key, seal)
        if taken is None:
            return False
        left = self._cache.unsealed[key] - taken
        # The count can include records that are already sealed, from a batch across the last seal. If
        # nothing was sealed, the tail is not a full chunk yet: check again at the next batch.
        self._cache.unsealed[key] = left if taken else chunks.RECORDS - 1
        self._wait_again(key, left)
        return taken > 0 and left >= chunks.RECORDS

    def _end_runs(self, now_s: float) -> None:
        """Let the tails of runs that ended be packed, those with a full chunk after it is sealed."""
        over, unsealed = self._cache.over, self._cache.unsealed
        while over and (ended := next(iter(over.items())))[1] + OVER_S <= now_s:
            keys = [key for key in unsealed if key[0] == ended[0]]
            if any(unsealed[key] >= chunks.RECORDS for key in keys):
                self._cache.end(ended[0], now_s)
            else:
                del over[ended[0]]
                self._ending.extend(keys)

    def _pack_next(self, now_s: float) -> bool:
        """Pack one tail that is due; return whether one was."""
        if self._ending:
            self._pack(self._ending.popleft(), pack_whole_tail)
            return True
        unpacked = self._cache.unpacked
        while unpacked and (first := next(iter(unpacked.items())))[1].since_s + self._pack_after_s <= now_s:
            key, waiting = first
            if waiting.records >= LEAST_PACKED and self._cache.unsealed[key] < chunks.RECORDS:
                self._pack(key, pack_tail)
                return True
            self._wait_again(key, waiting.records)
        return False

    def _pack(self, key: WriterKey, work: Callable[[Connection, str, int], int]) -> None:
        records = self._transact(key, work)
        if records is None or records >= chunks.RECORDS:  # a full chunk that was not counted is sealed first
            self._wait_again(key, chunks.RECORDS)
        else:
            self._cache.unpacked.pop(key, None)
        if records is not None:
            self._cache.unsealed[key] = records

    def _wait_again(self, key: WriterKey, most: int) -> None:
        """Move a writer behind the others that wait for packing; at most ``most`` of its records do."""
        waiting = self._cache.unpacked.pop(key, None)
        if waiting is not None and most > 0:
            self._cache.unpacked[key] = Unpacked(min(waiting.records, most), time.monotonic())

    def _transact(self, key: WriterKey, work: Callable[[Connection, str, int], int]) -> int | None:
        """Return the result of ``work`` in a transaction, or None if it failed."""
        try:
            with self._database.engine.begin() as connection:
                done = work(connection, *key)
        except Exception as error:  # noqa: BLE001 - its tail stays as it is
            self._work.failed(_subject(key), error)
            self._paused[key] = time.monotonic() + PAUSE_S
            return None
        self._paused.pop(key, None)
        self._work.passed(_subject(key))
        return done


def _subject(key: WriterKey) -> str:
    return f"run {key[0]}, writer {key[1]}"
