"""Read records and events in pages, complete and in order. Functions of a Connection."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
from sqlalchemy import Connection, Row, bindparam, select

from tocsin_server.core.models import I64, RunEvent, Writer
from tocsin_server.store.arrays import Points, joined
from tocsin_server.store.chunk_reader import chunk_points, tail_points
from tocsin_server.store.columns import LARGEST, LARGEST_SMALL
from tocsin_server.store.damage import checked
from tocsin_server.store.results import EventPage, RecordPage
from tocsin_server.store.series_window import Window
from tocsin_server.store.tables import chunk_dir, event, writer
from tocsin_server.store.writer_cache import series_numbers

CHUNKS_AT_ONCE = 4
"""Chunks that are decoded together; bounds the memory of a page."""
_RECORD_CURSOR = re.compile(r"([0-9]{1,10})\.([0-9]{1,19})")
_EVENT_CURSOR = re.compile(r"[0-9]{1,19}")


def read_records(
    connection: Connection,
    run_id: str,
    names: Sequence[str] | None,
    window: Window,
    after: str | None,
    limit: int,
    since: int | None = None,
) -> RecordPage:
    """Return a page of records; see ``StoreReader.records``."""
    numbers = series_numbers(connection, run_id)
    wanted = {col: name for name, col in numbers.items() if names is None or name in names}
    parts: list[tuple[Row[Any], Points]] = []
    missing = limit + 1
    for row, points in _pieces(connection, run_id, sorted(wanted), window, _place(after), since):
        taken = points.part(0, missing)
        if taken.n:
            parts.append((row, taken))
            missing -= taken.n
        if not missing:
            break
    return _page(parts, wanted, limit)


def _place(after: str | None) -> tuple[int, int]:
    """Return (writer number, record number) of a cursor.

    Raises:
        ValueError: ``after`` is not a cursor.
    """
    if not after:
        return 0, -1
    place = _RECORD_CURSOR.fullmatch(after)
    if place is None:
        raise ValueError(f"after: expected the `next` of a page, got {after!r}")
    return min(int(place[1]), LARGEST_SMALL), min(int(place[2]), LARGEST)


def _pieces(
    connection: Connection,
    run_id: str,
    wanted: list[int],
    window: Window,
    place: tuple[int, int],
    since: int | None,
) -> Iterator[tuple[Row[Any], Points]]:
    """Yield records after ``place`` in order of (writer, seq), a few chunks at a time."""
    rows = connection.execute(
        select(writer)
        .where(writer.c.run_id == run_id, writer.c.writer_no >= place[0])
        .order_by(writer.c.writer_no)
    ).all()
    for row in rows:
        after = place[1] if row.writer_no == place[0] else -1
        numbers = _chunks_after(connection, row, after, window, since)
        for i in range(0, len(numbers), CHUNKS_AT_ONCE):
            some = numbers[i : i + CHUNKS_AT_ONCE]
            points = chunk_points(connection, run_id, row.writer_no, some, wanted, numbered=True)
            yield row, _after(window.of(points), after, since)
        unsealed = tail_points(connection, run_id, row.writer_no, row.sealed_seq, wanted, after_arrival=since)
        yield row, _after(window.of(unsealed), after, since)


def _after(points: Points, seq: int, since: int | None) -> Points:
    keep = points.seq > seq
    return points.where(keep if since is None else keep & (points.arrival > since))


def _chunks_after(
    connection: Connection, row: Row[Any], seq: int, window: Window, since: int | None
) -> Sequence[int]:
    start, stop = window.bounds
    query = select(chunk_dir.c.no).where(
        chunk_dir.c.run_id == row.run_id, chunk_dir.c.writer_no == row.writer_no, chunk_dir.c.seq1 > seq
    )
    if start is not None:
        query = query.where(chunk_dir.c.step1 >= start)
    if stop is not None:
        query = query.where(chunk_dir.c.step0 <= stop)
    if since is not None:
        query = query.where(chunk_dir.c.arrival1 > since)
    return connection.execute(query.order_by(chunk_dir.c.no)).scalars().all()


def _page(parts: list[tuple[Row[Any], Points]], wanted: dict[int, str], limit: int) -> RecordPage:
    points = joined([part for _row, part in parts])
    whose = [np.full((3, part.n), [[row.attempt_no], [row.rank], [row.writer_no]]) for row, part in parts]
    attempt, rank, number = np.concatenate(whose, axis=1) if whose else np.empty((3, 0), dtype=np.int64)
    more = points.n > limit
    points = points.part(0, limit)
    n = points.n
    return RecordPage(
        n,
        _whole(attempt, n),
        _whole(rank, n),
        _whole(number, n),
        points.seq,
        points.step,
        points.time_ns,
        {wanted[col]: column for col, column in points.columns.items()},
        f"{number[n - 1]}.{points.seq[-1]}" if more and n else None,
        points.arrival,
    )


def _whole(values: np.ndarray[Any, Any], n: int) -> I64:
    return values[:n].astype(np.int64)


def read_events(
    connection: Connection, run_id: str, after: str | None, limit: int, without: Collection[str] = ()
) -> EventPage:
    """Return a page of events; see ``StoreReader.events``."""
    if after and not _EVENT_CURSOR.fullmatch(after):
        raise ValueError(f"after: expected the `next` of a page, got {after!r}")
    arrival = min(int(after), LARGEST) if after else -1
    rows = list(events_after(connection, run_id, arrival, limit + 1, without))
    items = rows[:limit]
    return EventPage(items, str(items[-1].arrival) if len(rows) > limit else None)


_EVENTS = (
    select(event, writer.c.attempt_no, writer.c.rank)
    .outerjoin(writer, (writer.c.run_id == event.c.run_id) & (writer.c.writer_no == event.c.writer_no))
    .where(event.c.run_id == bindparam("of_run"), event.c.arrival > bindparam("after"))
    .order_by(event.c.arrival, event.c.writer_no, event.c.no)
)


def events_after(
    connection: Connection,
    run_id: str,
    arrival: int,
    limit: int | None = None,
    without: Collection[str] = (),
) -> Iterator[RunEvent]:
    """Yield events that arrived after ``arrival``, in order of arrival, except the kinds in ``without``."""
    query = _EVENTS.where(event.c.kind.not_in(without)) if without else _EVENTS
    for row in connection.execute(query.limit(limit), {"of_run": run_id, "after": arrival}):
        # Events of the server itself have no writer row.
        who = Writer(run_id, row.writer_no, row.attempt_no or 0, row.rank or 0)
        yield RunEvent(
            who, row.arrival, row.no, row.kind, row.time_ns, row.step, checked(row.data, event, row, "data")
        )
