"""Seal the tail of a writer into column chunks and the pyramid, in one transaction per chunk, or pack it.

Runs on the writer thread, after acks are sent. A chunk is always ``chunks.RECORDS`` records
of one writer. The batch across its end stays in the tail as a whole until the next chunk covers
it; ``writer.sealed_seq`` is the last sealed record. There is no state outside the
database, so a kill at any moment leaves a record in either the tail or the chunk, never both.

A tail that is too short for a chunk is packed: one compressed row replaces its batches (``packed_batches``).
The next packing merges packed rows that are not larger than what follows them. Each time a record is
rewritten, its row is thus at least twice as large: with 64 new records or more each time, a record is
rewritten at most 6 times before its chunk, and a tail has at most 7 packed rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from sqlalchemy import Connection, Row, bindparam, func, literal, select, tuple_
from sqlalchemy.dialects import postgresql, sqlite

from tocsin_server.core.models import Column, RunState
from tocsin_server.store import chunks, pyramid
from tocsin_server.store.arrays import Points
from tocsin_server.store.chunk_reader import tail_records
from tocsin_server.store.packed_batches import pack
from tocsin_server.store.tables import (
    ARRIVAL,
    FIRST_SERIES,
    SEQ,
    STEP,
    TIME,
    chunk,
    chunk_dir,
    packed,
    roll,
    run,
    series,
    tail,
    writer,
)

_OF_WRITER: tuple[Any, Any] = (bindparam("of_run"), bindparam("of_writer"))
_WRITER = select(writer).where(writer.c.run_id == _OF_WRITER[0], writer.c.writer_no == _OF_WRITER[1])
_ADVANCE = (
    writer.update()
    .where(writer.c.run_id == _OF_WRITER[0], writer.c.writer_no == _OF_WRITER[1])
    .values(
        sealed_seq=bindparam("seq"),
        sealed_arrival=bindparam("arrival"),
        sealed_records=writer.c.sealed_records + bindparam("n"),
        chunks=writer.c.chunks + 1,
        first_step=bindparam("first"),
        last_step=bindparam("last"),
    )
)
_LET_GO = [
    table.delete().where(
        table.c.run_id == _OF_WRITER[0],
        table.c.writer_no == _OF_WRITER[1],
        table.c.seq <= bindparam("seq"),
        table.c.seq + table.c.n - 1 <= bindparam("seq"),
    )
    for table in (packed, tail)
]
# Statements are built once: building them for each chunk took longer than compressing it.

OVER = (RunState.FINISHED, RunState.FAILED, RunState.LOST)
"""States of runs from which no more records are expected."""

EASY_BYTES, PAGE_BYTES = 900, 4000
"""A page of SQLite has room for four rows of the first size, or for one of the second.

Rows between them would leave up to half of each page empty; larger ones fill pages of their own.
"""

Place = dict[str, Any]
"""``run_id`` and ``writer_no``, the first columns of every row."""


@dataclass(frozen=True, slots=True)
class TailSize:
    """Records in the tail of a writer; ``unpacked`` of them are in batches as received."""

    run_id: str
    writer_no: int
    records: int
    unpacked: int
    over: bool


def tail_sizes(connection: Connection, after: tuple[str, int], limit: int) -> list[TailSize]:
    """Return tails with batches of at most ``limit`` writers whose key is above ``after``, in their order."""
    key = (tail.c.run_id, tail.c.writer_no)
    bound = tuple_(*(literal(value, column.type) for value, column in zip(after, key, strict=True)))
    query = select(*key, func.sum(tail.c.n)).where(tuple_(*key) > bound).group_by(*key)
    found = connection.execute(query.order_by(*key).limit(limit)).all()
    runs = {row[0] for row in found}
    of_runs = select(packed.c.run_id, packed.c.writer_no, packed.c.n).where(packed.c.run_id.in_(runs))
    sizes: dict[tuple[str, int], int] = {}
    for run_id, writer_no, n in connection.execute(of_runs):
        sizes[run_id, writer_no] = sizes.get((run_id, writer_no), 0) + n
    states = select(run.c.id).where(run.c.id.in_(runs), run.c.state.in_(OVER))
    over = set(connection.execute(states).scalars())
    return [
        TailSize(run_id, writer_no, sizes.get((run_id, writer_no), 0) + int(n), int(n), run_id in over)
        for run_id, writer_no, n in found
    ]


def pack_tail(connection: Connection, run_id: str, writer_no: int) -> int:
    """Replace the batches in this writer's tail by one packed row, with packed rows that are not larger.

    Record numbers in a row have no gap; after a gap another row begins. A tail with enough records for a
    chunk stays as it is, because it is to be sealed first.

    Returns:
        The number of records in the tail.
    """
    return _pack(connection, run_id, writer_no, whole=False)


def pack_whole_tail(connection: Connection, run_id: str, writer_no: int) -> int:
    """Do the same as :func:`pack_tail`, but merge all packed rows: the run has ended."""
    return _pack(connection, run_id, writer_no, whole=True)


def _pack(connection: Connection, run_id: str, writer_no: int, *, whole: bool) -> int:
    who = connection.execute(_WRITER, {"of_run": run_id, "of_writer": writer_no}).first()
    if who is None:
        return 0
    place: Place = {"run_id": run_id, "writer_no": writer_no}
    in_tail, in_packed = (
        (table.c.run_id == run_id) & (table.c.writer_no == writer_no) for table in (tail, packed)
    )
    batches = connection.execute(select(tail.c.seq, tail.c.n).where(in_tail).order_by(tail.c.seq)).all()
    rows = connection.execute(select(packed.c.seq, packed.c.n).where(in_packed).order_by(packed.c.seq)).all()
    first = min([row.seq for row in (*rows[:1], *batches[:1])], default=0)
    waiting = sum(int(row.n) for row in batches)
    records = waiting + sum(int(row.n) for row in rows) - max(0, who.sealed_seq + 1 - first)
    begin = 0 if whole else _first_to_merge([row.n for row in rows], waiting)
    if records >= chunks.RECORDS or not (batches or len(rows) - begin > 1):
        return int(records)
    begin_seq = rows[begin].seq if begin < len(rows) else batches[0].seq
    points = tail_records(connection, run_id, writer_no, from_seq=begin_seq)
    points = points.where(points.seq > who.sealed_seq)
    connection.execute(packed.delete().where(in_packed, packed.c.seq >= begin_seq))
    connection.execute(tail.delete().where(in_tail))
    if points.n:
        connection.execute(packed.insert(), [place | row for row in _packed_rows(points)])
    return int(records)


def _first_to_merge(sizes: Sequence[int], waiting: int) -> int:
    """Return the index of the first packed row that is not larger than everything after it."""
    begin = len(sizes)
    while begin and sizes[begin - 1] <= waiting:
        begin -= 1
        waiting += sizes[begin]
    return begin


def _packed_rows(points: Points) -> list[dict[str, Any]]:
    """Return one row for each range of record numbers without a gap, or several that fill SQLite's pages."""
    cuts = [0, *(np.flatnonzero(np.diff(points.seq) > 1) + 1).tolist(), points.n]
    rows = []
    for begin, end in pairwise(cuts):
        body = pack(points.part(begin, end))
        parts = -(-len(body) // EASY_BYTES) if EASY_BYTES < len(body) < PAGE_BYTES else 1
        inner = np.linspace(begin, end, min(parts, end - begin) + 1).astype(int).tolist()
        rows += [_packed_row(points.part(*ends), body if parts == 1 else None) for ends in pairwise(inner)]
    return rows


def _packed_row(points: Points, body: bytes | None) -> dict[str, Any]:
    return {
        "seq": int(points.seq[0]),
        "n": points.n,
        "arrival": int(points.arrival[-1]),
        "body": pack(points) if body is None else body,
    }


def seal(connection: Connection, run_id: str, writer_no: int) -> int:
    """Seal the oldest chunk of this writer's tail.

    Returns:
        The number of sealed records; 0 if there are too few for a chunk.
    """
    place: Place = {"run_id": run_id, "writer_no": writer_no}
    who = connection.execute(_WRITER, {"of_run": run_id, "of_writer": writer_no}).first()
    if who is None:
        return 0
    points = _oldest(connection, who)
    if points.n < chunks.RECORDS:
        return 0
    _write_chunk(connection, place, who.chunks, points)
    _write_pyramid(connection, place, who.chunks, points)
    _count_series(connection, place, points)
    _advance(connection, who, points)
    return points.n


def _oldest(connection: Connection, who: Row[Any]) -> Points:
    """Return the oldest unsealed records of a writer, at most a chunk's worth."""
    # Record numbers rarely have gaps, so the first query nearly always reads exactly what is
    # needed; with gaps there are at most as many rows as records.
    for bounds in ({"to_seq": who.sealed_seq + chunks.RECORDS}, {"limit": chunks.RECORDS + 1}):
        points = tail_records(connection, who.run_id, who.writer_no, **bounds)
        begin = int(np.searchsorted(points.seq, who.sealed_seq, side="right"))
        if points.n - begin >= chunks.RECORDS:
            break
    return points.part(begin, begin + chunks.RECORDS)


def _write_chunk(connection: Connection, place: Place, no: int, points: Points) -> None:
    columns = {STEP: points.step, TIME: points.time_ns, ARRIVAL: points.arrival}
    if points.seq[-1] - points.seq[0] != points.n - 1:
        columns[SEQ] = points.seq
    bodies = [(col, points.n, *chunks.encode_ints(values)) for col, values in columns.items()]
    bodies += [
        (col, len(column.v), *chunks.encode_floats(column, points.n))
        for col, column in points.columns.items()
    ]
    connection.execute(
        chunk.insert(),
        [
            place | {"col_id": col, "no": no, "n": n, "codec": codec, "body": body}
            for col, n, codec, body in bodies
        ],
    )
    connection.execute(chunk_dir.insert(), place | _directory_row(no, points))


def _directory_row(no: int, points: Points) -> dict[str, int]:
    ends = {
        "seq": points.seq,
        "step": points.step,
        "t": points.time_ns,
        "arrival": points.arrival,
    }
    row = {"no": no, "n": points.n}
    for name, values in ends.items():
        row[f"{name}0"], row[f"{name}1"] = int(values.min()), int(values.max())
    return row


def _write_pyramid(connection: Connection, place: Place, no: int, points: Points) -> None:
    size = pyramid.LEVELS[0]
    ranges = pyramid.ranges_of(points.step, points.time_ns, size)
    values = {col: pyramid.values_of(column, points.n, size) for col, column in points.columns.items()}
    _write_row(connection, place, 0, no, ranges, values)
    for level in range(1, len(pyramid.LEVELS)):
        span = chunks_in_row(level)
        if (no + 1) % span:
            return
        _write_row(connection, place, level, no // span, *_from_below(connection, place, level, no // span))


def chunks_in_row(level: int) -> int:
    """Return how many chunks one row of the pyramid's ``level`` (index in LEVELS) covers."""
    return 1 if level == 0 else pyramid.ROW * pyramid.LEVELS[level] // chunks.RECORDS


def _from_below(
    connection: Connection, place: Place, level: int, no: int
) -> tuple[pyramid.Ranges, dict[int, pyramid.Values]]:
    """Return a full row of ``level``, merged from the rows of the level below that it covers."""
    ratio = chunks_in_row(level) // chunks_in_row(level - 1)
    found = connection.execute(
        select(roll.c.col_id, roll.c.no, roll.c.n, roll.c.codec, roll.c.body)
        .where(
            roll.c.run_id == place["run_id"],
            roll.c.writer_no == place["writer_no"],
            roll.c.level == pyramid.LEVELS[level - 1],
            roll.c.no.between(no * ratio, (no + 1) * ratio - 1),
        )
        .order_by(roll.c.col_id, roll.c.no)
    ).all()
    ranges = pyramid.joined_ranges([pyramid.unpack_ranges(row.body) for row in found if row.col_id == STEP])
    groups = np.arange(len(ranges.weight)) // pyramid.FAN_OUT
    count = int(groups[-1]) + 1
    values = {
        col: pyramid.merge_values(_whole(col, found, len(groups), no * ratio), groups, count)
        for col in sorted({row.col_id for row in found} - {STEP})
    }
    return pyramid.merge_ranges(ranges, groups), values


def _whole(col: int, found: Sequence[Any], count: int, first_no: int) -> pyramid.Values:
    """Return the values of one column over ``count`` buckets; rows without the column are empty buckets."""
    rows = {row.no - first_no: row for row in found if row.col_id == col}
    per_row = next(iter(rows.values())).n
    return pyramid.joined_values(
        [
            pyramid.unpack_values(rows[i].codec, rows[i].body, per_row)
            if i in rows
            else pyramid.empty_values(per_row)
            for i in range(count // per_row)
        ]
    )


def _write_row(
    connection: Connection,
    place: Place,
    level: int,
    no: int,
    ranges: pyramid.Ranges,
    values: Mapping[int, pyramid.Values],
) -> None:
    key = place | {"level": pyramid.LEVELS[level], "no": no, "n": len(ranges.weight)}
    rows = [key | {"col_id": STEP, "codec": chunks.DELTA, "body": pyramid.pack_ranges(ranges)}]
    for col, of_col in values.items():
        codec, body = pyramid.pack_values(of_col)
        rows.append(key | {"col_id": col, "codec": codec, "body": body})
    connection.execute(roll.insert(), rows)


def _count_series(connection: Connection, place: Place, points: Points) -> None:
    """Add the chunk to the sealed totals of each series."""
    rows = [
        place | _series_row(col, column, points)
        for col, column in points.columns.items()
        if col >= FIRST_SERIES
    ]
    if not rows:
        return
    connection.execute(_adding(connection.dialect.name), rows)


@cache
def _adding(dialect: str) -> sqlite.Insert | postgresql.Insert:
    """Return the statement that adds to the sealed totals of a series."""
    insert = sqlite.insert(series) if dialect == "sqlite" else postgresql.insert(series)
    smaller = func.min if dialect == "sqlite" else func.least
    new, old = insert.excluded, series.c
    changed = {name: old[name] + new[name] for name in ("n", "nan", "pinf", "ninf")} | {
        "first_step": smaller(old.first_step, new.first_step),
        "last_step": new.last_step,
        "last_value": new.last_value,
    }
    keys = [column.name for column in series.primary_key]
    return insert.on_conflict_do_update(index_elements=keys, set_=changed)


def _series_row(col: int, column: Column, points: Points) -> dict[str, Any]:
    at = chunks.rows_of(column, points.n)
    return {
        "col_id": col,
        "n": len(column.v),
        "first_step": int(points.step[at].min()),
        "last_step": int(points.step[at[-1]]),
        "last_value": float(column.v[-1]),
        "nan": int(np.isnan(column.v).sum()),
        "pinf": int(np.isposinf(column.v).sum()),
        "ninf": int(np.isneginf(column.v).sum()),
    }


def _advance(connection: Connection, who: Row[Any], points: Points) -> None:
    """Advance the writer's seal and delete the tail rows that are completely sealed."""
    steps = [int(points.step.min()), int(points.step.max())]
    if who.first_step is not None:
        steps += [who.first_step, who.last_step]
    place = {"of_run": who.run_id, "of_writer": who.writer_no, "seq": int(points.seq[-1])}
    for let_go in _LET_GO:
        connection.execute(let_go, place)
    connection.execute(
        _ADVANCE,
        place
        | {
            "arrival": int(points.arrival.max()),
            "n": points.n,
            "first": min(steps),
            "last": max(steps),
        },
    )
