"""Cache of the writer thread between commits: column numbers and the last numbers of each writer.

It contains only data of the database: after a rollback it is cleared and read again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlalchemy import Connection, func, select

from tocsin_server.store.nonfinite_onsets import NonfiniteTracker, read_tracker
from tocsin_server.store.tables import FIRST_SERIES, event, metric, run, tail, writer

WriterKey = tuple[str, int]
"""(run id, writer number)."""


def last_seq(connection: Connection, run_id: str, writer_no: int) -> int:
    """Return the highest record number of this writer that is durable or rejected, or -1."""
    row = connection.execute(
        select(writer.c.handled_seq, writer.c.sealed_seq).where(
            writer.c.run_id == run_id, writer.c.writer_no == writer_no
        )
    ).first()
    newest = connection.execute(
        select(tail.c.seq, tail.c.n)
        .where(tail.c.run_id == run_id, tail.c.writer_no == writer_no)
        .order_by(tail.c.seq.desc())
        .limit(1)
    ).first()
    return max(*(row or (-1,)), newest.seq + newest.n - 1 if newest else -1, -1)


def last_event(connection: Connection, run_id: str, writer_no: int) -> int:
    """Return the highest durable event number of this writer, or -1."""
    query = select(func.max(event.c.no)).where(event.c.run_id == run_id, event.c.writer_no == writer_no)
    found = connection.execute(query).scalar()
    return -1 if found is None else int(found)


def series_numbers(connection: Connection, run_id: str) -> dict[str, int]:
    """Return the column number of every series of the run, by name."""
    rows = connection.execute(select(metric.c.name, metric.c.col_id).where(metric.c.run_id == run_id))
    return {row.name: row.col_id for row in rows}


@dataclass(slots=True)
class WriterCache:
    """Caches by run and by writer; ``unsealed`` counts the records of a writer in the tail."""

    numbers: dict[str, dict[str, int]] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)
    last: dict[WriterKey, int] = field(default_factory=dict)
    unsealed: dict[WriterKey, int] = field(default_factory=dict)
    trackers: dict[str, NonfiniteTracker] = field(default_factory=dict)
    surveyed: bool = False
    """Whether the tails of inactive writers were checked."""

    def clear(self) -> None:
        """Clear the cache after the transaction it anticipated was rolled back."""
        self.numbers.clear()
        self.known.clear()
        self.last.clear()
        self.unsealed.clear()
        self.trackers.clear()
        self.surveyed = False

    def forget(self, run_id: str) -> None:
        """Drop one run, whose rows were changed or deleted elsewhere."""
        self.numbers.pop(run_id, None)
        self.known.discard(run_id)
        self.trackers.pop(run_id, None)
        for key in [key for key in self.last | self.unsealed if key[0] == run_id]:
            self.last.pop(key, None)
            self.unsealed.pop(key, None)

    def exists(self, connection: Connection, run_id: str) -> bool:
        """Return whether the run has a row. A deleted run has none, and its late records are dropped."""
        if run_id not in self.known:
            found = connection.execute(select(run.c.id).where(run.c.id == run_id)).first()
            if found is None:
                return False
            self.known.add(run_id)
        return True

    def last_seq(self, connection: Connection, key: WriterKey) -> int:
        """Return the cached :func:`last_seq` of a writer; also caches its unsealed records."""
        if key not in self.last:
            self.last[key] = last_seq(connection, *key)
            self.unsealed[key] = _unsealed(connection, *key)
        return self.last[key]

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


def _unsealed(connection: Connection, run_id: str, writer_no: int) -> int:
    of_writer = (tail.c.run_id == run_id) & (tail.c.writer_no == writer_no)
    query = select(func.coalesce(func.sum(tail.c.n), 0)).where(of_writer)
    return int(connection.execute(query).scalar_one())
