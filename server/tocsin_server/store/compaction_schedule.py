"""Schedule sealing: after commits, on the writer thread, for a bounded time. See ``compactor``."""

from __future__ import annotations

import logging
import math
import time

from tocsin_server.store import chunks
from tocsin_server.store.compactor import seal, writers_due
from tocsin_server.store.database import Database
from tocsin_server.store.periodic_jobs import PeriodicJob
from tocsin_server.store.writer_cache import WriterCache, WriterKey

log = logging.getLogger("tocsin.store")

SLICE_S, LONGEST_SLICE_S = 0.03, 0.5
"""Sealing between two commits stops after this many seconds, because acks wait for it.

The limit rises to the second value if sealing falls behind, or the tail would grow without bound.
"""
USUAL_DEPTH = 4
"""Unsealed chunks of a writer above which sealing may take longer than SLICE_S."""
PAUSE_S = 30.0
"""Seconds after which a failed writer is tried again; its tail stays readable."""


def slice_s(unsealed: int) -> float:
    """Return the seconds to spend on sealing if the longest tail has ``unsealed`` records."""
    return min(SLICE_S * max(unsealed / chunks.RECORDS / USUAL_DEPTH, 1.0), LONGEST_SLICE_S)


class Sealer:
    """Seals the writers whose tail holds a chunk's worth of records, longest tail first."""

    def __init__(self, database: Database, cache: WriterCache, work: PeriodicJob | None = None) -> None:
        self._work = work or PeriodicJob("sealing")
        self._database = database
        self._cache = cache
        self._paused: dict[WriterKey, float] = {}

    def due(self, now_s: float) -> float:
        """Return when there is something to seal, on the monotonic clock, or infinity."""
        if not self._cache.surveyed:
            return now_s
        ripe = self.ripe()
        return min((self._paused.get(key, now_s) for key in ripe), default=math.inf)

    def work(self) -> None:
        """Seal for :func:`slice_s` seconds. Never raises: a failed writer is retried after ``PAUSE_S``."""
        begun = time.monotonic()
        self._survey()
        ripe = [key for key in self.ripe() if self._paused.get(key, begun) <= begun]
        ends = begun + slice_s(self._cache.unsealed[ripe[0]]) if ripe else begun
        for key in ripe:
            while self._one(key):
                if time.monotonic() > ends:
                    return
            if time.monotonic() > ends:
                return

    def _survey(self) -> None:
        """Find writers that were left with a full tail at the last stop and may never send again."""
        if self._cache.surveyed:
            return
        self._cache.surveyed = True
        try:
            with self._database.reader.begin() as connection:
                found = writers_due(connection)
        except Exception as error:  # noqa: BLE001 - the writer thread must not die
            log.warning("could not look for tails to compact; they are compacted as they grow: %s", error)
            return
        self._cache.unsealed = found | self._cache.unsealed

    def ripe(self) -> list[WriterKey]:
        """Return writers with a chunk or more in the tail, longest first so that none grows without bound."""
        unsealed = self._cache.unsealed
        return sorted((key for key, n in unsealed.items() if n >= chunks.RECORDS), key=lambda k: -unsealed[k])

    def _one(self, key: WriterKey) -> bool:
        """Seal one chunk; return whether the writer has another."""
        try:
            with self._database.engine.begin() as connection:
                taken = seal(connection, *key)
        except Exception as error:  # noqa: BLE001 - its tail stays as it is
            self._work.failed(_subject(key), error)
            self._paused[key] = time.monotonic() + PAUSE_S
            return False
        self._paused.pop(key, None)
        self._work.passed(_subject(key))
        left = self._cache.unsealed[key] - taken
        # The count can include records that are already sealed, from a batch across the last seal. If
        # nothing was sealed, the tail is not a full chunk yet: check again at the next batch.
        self._cache.unsealed[key] = left if taken else chunks.RECORDS - 1
        return taken > 0 and left >= chunks.RECORDS


def _subject(key: WriterKey) -> str:
    return f"run {key[0]}, writer {key[1]}"
