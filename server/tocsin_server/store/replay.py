"""Read a run in order of arrival, page by page, with bounded memory for a run of any length.

A page is at most one chunk of records per writer, read in a separate transaction: a long
replay neither keeps a run in memory nor prevents SQLite from checkpointing. Sealing may continue
meanwhile, because the next page starts at a record number, wherever its records are stored by then.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any

import numpy as np
from sqlalchemy import Connection, Engine, Row, bindparam, select

from tocsin_server.core.errors import DamagedError
from tocsin_server.core.models import RecordBatch, RunEvent, Writer
from tocsin_server.store.arrays import Points, batches, joined, nothing
from tocsin_server.store.chunk_reader import chunk_points, tail_records
from tocsin_server.store.damage import warn_of_records
from tocsin_server.store.pagination import events_after
from tocsin_server.store.series_window import writer_rows
from tocsin_server.store.tables import chunk_dir, writer
from tocsin_server.store.writer_cache import series_numbers

EVENTS = 1000
TAIL_ROWS = 256
"""Events and unsealed batches in a page."""
Item = RecordBatch | RunEvent
_SEALED = select(writer.c.sealed_seq).where(
    writer.c.run_id == bindparam("of_run"), writer.c.writer_no == bindparam("of_writer")
)
_NEXT_CHUNK = (
    select(chunk_dir.c.no, chunk_dir.c.seq1)
    .where(
        chunk_dir.c.run_id == bindparam("of_run"),
        chunk_dir.c.writer_no == bindparam("of_writer"),
        chunk_dir.c.seq1 > bindparam("seq"),
        chunk_dir.c.arrival1 > bindparam("after"),
    )
    .order_by(chunk_dir.c.no)
    .limit(1)
)


def replayed(engine: Engine, run_id: str, after: int, upto: int) -> Iterator[Item]:
    """Yield every batch and event with ``after < arrival <= upto``, as accepted, in order of arrival."""
    with engine.begin() as connection:
        writers = writer_rows(connection, run_id)
        names = {col: name for name, col in series_numbers(connection, run_id).items()}
    ways = [_of_writer(engine, row, names, after, upto) for row in writers]
    return heapq.merge(*ways, _events(engine, run_id, after, upto), key=lambda item: item.arrival)


def _events(engine: Engine, run_id: str, after: int, upto: int) -> Iterator[Item]:
    while True:
        with engine.begin() as connection:
            page = list(events_after(connection, run_id, after, EVENTS))
        for event in page:
            if event.arrival > upto:
                return
            yield event
        if len(page) < EVENTS:
            return
        after = page[-1].arrival


def _of_writer(engine: Engine, row: Row[Any], names: dict[int, str], after: int, upto: int) -> Iterator[Item]:
    """Yield the batches of one writer. The last batch of a page may continue on the next one."""
    who = Writer(row.run_id, row.writer_no, row.attempt_no, row.rank)
    begun, seq = nothing(), -1
    while True:
        with engine.begin() as connection:
            page = _page(connection, who, seq, after)
        if not page.n:
            break
        seq = int(page.seq[-1])
        points = joined([begun, page.where((page.arrival > after) & (page.arrival <= upto))])
        whole, begun = _parted(points)
        yield from batches(whole, who, names)
    yield from batches(begun, who, names)


def _parted(points: Points) -> tuple[Points, Points]:
    """Return the records of complete batches, and those of the last batch, which may be incomplete."""
    if not points.n:
        return points, points
    cut = int(np.flatnonzero(points.arrival == points.arrival[-1])[0])
    return points.part(0, cut), points.part(cut, points.n)


def _page(connection: Connection, who: Writer, seq: int, after: int) -> Points:
    """Return the next records of a writer after ``seq``, or none at the end.

    They come from one chunk, or from some tail rows after the last chunk. Chunks and tail rows that arrived
    up to ``after`` are skipped without being read. Damaged ones are logged and skipped, so that the run can
    resume.
    """
    while (row := _next_chunk(connection, who, seq, after)) is not None:
        try:
            points = chunk_points(connection, who.run_id, who.writer_no, [row.no], numbered=True)
        except (DamagedError, ValueError, TypeError, KeyError) as error:
            reason = str(getattr(error, "reason", error))
            warn_of_records(who.run_id, f"writer {who.writer_no}, chunk {row.no}", reason)
            seq = row.seq1
        else:
            return points.where(points.seq > seq)
    sealed = connection.execute(_SEALED, {"of_run": who.run_id, "of_writer": who.writer_no}).scalar()
    # A row across the seal is complete in the tail: its sealed part was already read from the chunk.
    low = max(seq, -1 if sealed is None else sealed)
    points = tail_records(
        connection,
        who.run_id,
        who.writer_no,
        after_arrival=after,
        from_seq=low + 1,
        limit=TAIL_ROWS,
        skip_damaged=True,
    )
    return points.where(points.seq > low)


def _next_chunk(connection: Connection, who: Writer, seq: int, after: int) -> Row[int, int] | None:
    place = {"of_run": who.run_id, "of_writer": who.writer_no, "seq": seq, "after": after}
    return connection.execute(_NEXT_CHUNK, place).first()
