"""Cache of the writer thread between commits: column numbers and the last numbers of each writer.

It contains only data of the database: after a rollback it is cleared and read again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Table, bindparam, func, select

from tocsin_server.store.nonfinite_onsets import NonfiniteTracker, read_tracker
from tocsin_server.store.tables import FIRST_SERIES, event, metric, packed, run, tail, writer

WriterKey = tuple[str, int]
"""(run id, writer number)."""


def _of_writer(table: Table) -> ColumnElement[bool]:
    return (table.c.run_id == bindparam("of_run")) & (table.c.writer_no == bindparam("of_writer"))


def _newest(table: Table) -> Select[Any]:
    last = select(table.c.seq + table.c.n - 1).where(_of_writer(table))
    return last.order_by(table.c.seq.desc()).limit(1)


_SERIES = select(metric.c.name, metric.c.col_id).where(metric.c.run_id == bindparam("of_run"))
_RUN = select(run.c.id).where(run.c.id == bindparam("of_run"))
_HANDLED = select(writer.c.handled_seq, writer.c.sealed_seq).where(_of_writer(writer))
_NEWEST = (_newest(packed), _newest(tail))
_LAST_EVENT = select(func.max(event.c.no)).where(_of_writer(event))


@dataclass(slots=True)
class Unpacked:
    """Records of a writer that wait as received batches, the oldest since ``since_s`` (monotonic clock)."""

    records: int
    since_s: float


def last_seq(connection: Connection, run_id: str, writer_no: int) -> int:
    """Return the highest record number of this writer that is durable or rejected, or -1."""
    who = {"of_run": run_id, "of_writer": writer_no}
    ends = [-1, *(connection.execute(_HANDLED, who).first() or ())]
    for newest in _NEWEST:
        ends += [int(found) for found in connection.execute(newest, who).scalars()]
    return int(max(ends))


def last_event(connection: Connection, run_id: str, writer_no: int) -> int:
    """Return the highest durable event number of this writer, or -1."""
    found = connection.execute(_LAST_EVENT, {"of_run": run_id, "of_writer": writer_no}).scalar()
    return -1 if found is None else int(found)


def series_numbers(connection: Connection, run_id: str) -> dict[str, int]:
    """Return the column number of every series of the run, by name."""
    return {row.name: row.col_id for row in connection.execute(_SERIES, {"of_run": run_id})}


@dataclass(slots=True)
class WriterCache:
    """Caches by run and by writer.

    ``unsealed`` counts the records of a writer in the tail; what an earlier process left is added by the
    sealer's survey.
    """

    numbers: dict[str, dict[str, int]] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)
    last: dict[WriterKey, int] = field(default_factory=dict)
    unsealed: dict[WriterKey, int] = field(default_factory=dict)
    unpacked: dict[WriterKey, Unpacked] = field(default_factory=dict)
    """Writers with batches in the tail that are not packed, the longest waiting first."""
    over: dict[str, float] = field(default_factory=dict)
    """Runs that ended, and when on the monotonic clock, oldest first; their tails are packed as a whole."""
    trackers: dict[str, NonfiniteTracker] = field(default_factory=dict)
    surveyed: WriterKey | None = ("", -1)
    """The last writer whose tail of before the start was counted, or None once all were."""

    def clear(self) -> None:
        """Clear the cache after the transaction it anticipated was rolled back."""
        self.numbers.clear()
        self.known.clear()
        self.last.clear()
        self.unsealed.clear()
        self.unpacked.clear()
        self.over.clear()
        self.trackers.clear()
        self.surveyed = ("", -1)

    def forget(self, run_id: str) -> None:
        """Drop one run, whose rows were changed or deleted elsewhere."""
        self.numbers.pop(run_id, None)
        self.known.discard(run_id)
        self.trackers.pop(run_id, None)
        self.over.pop(run_id, None)
        for key in [key for key in self.last | self.unsealed if key[0] == run_id]:
            self.last.pop(key, None)
            self.unsealed.pop(key, None)
            self.unpacked.pop(key, None)

    def exists(self, connection: Connection, run_id: str) -> bool:
        """Return whether the run has a row. A deleted run has none, and its late records are dropped."""
        if run_id not in self.known:
            found = connection.execute(_RUN, {"of_run": run_id}).first()
            if found is None:
                return False
            self.known.add(run_id)
        return True

    def last_seq(self, connection: Connection, key: WriterKey) -> int:
        """Return the cached :func:`last_seq` of a writer."""
        if key not in self.last:
            self.last[key] = last_seq(connection, *key)
        return self.last[key]

    def add_to_tail(self, key: WriterKey, records: int, now_s: float) -> None:
        """Count ``records`` of a new batch."""
        self.unsealed[key] = self.unsealed.get(key, 0) + records
        self.unpacked.setdefault(key, Unpacked(0, now_s)).records += records

    def end(self, run_id: str, now_s: float) -> None:
        """Note that no more records of the run are expected."""
        self.over.pop(run_id, None)
        self.over[run_id] = now_s

    def tracker(self, connection: Connection, run_id: str) -> NonfiniteTracker:
        """Return the tracker of NaN and infinity onsets of the run."""
        found = self.trackers.get(run_id)
        if found is None:
            found = self.trackers[run_id] = read_tracker(connection, run_id)
        return found

    def number(self, connection: Connection, run_id: str, names: list[str]) -> list[tuple[str, int]]:
        """Assign column numbers to new ``names`` and return these (name, number) pairs."""
        known = self.numbers.get(run_id)
        if known is None:
            known = self.numbers[run_id] = series_numbers(connection, run_id)
        following = max(known.values(), default=FIRST_SERIES - 1) + 1
        fresh = [(name, following + i) for i, name in enumerate(n for n in names if n not in known)]
        known.update(fresh)
        return fresh
