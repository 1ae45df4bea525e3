"""Seal the tail of a writer into column chunks and the pyramid, in one transaction per chunk.

Runs on the writer thread, after acks are sent. A chunk is always ``chunks.RECORDS`` records
of one writer. The batch across its end stays in the tail as a whole until the next chunk covers
it; ``writer.sealed_seq`` is the last sealed record. There is no state outside the
database, so a kill at any moment leaves a record in either the tail or the chunk, never both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from sqlalchemy import Connection, Row, bindparam, func, select
from sqlalchemy.dialects import postgresql, sqlite

from tocsin_server.core.models import Column
from tocsin_server.store import chunks, pyramid
from tocsin_server.store.arrays import Points, from_tail
from tocsin_server.store.chunk_reader import tail_rows
from tocsin_server.store.tables import (
    ARRIVAL,
    FIRST_SERIES,
    SEQ,
    STEP,
    TIME,
    chunk,
    chunk_dir,
    roll,
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
_LET_GO = tail.delete().where(
    tail.c.run_id == _OF_WRITER[0],
    tail.c.writer_no == _OF_WRITER[1],
    tail.c.seq <= bindparam("seq"),
    tail.c.seq + tail.c.n - 1 <= bindparam("seq"),
)
# Statements are built once: building them for each chunk took longer than compressing it.

Place = dict[str, Any]
"""``run_id`` and ``writer_no``, the first columns of every row."""


def writers_due(connection: Connection) -> dict[tuple[str, int], int]:
    """Return the records in the tail of each writer with a chunk's worth or more. Queried once at startup."""
    count = func.sum(tail.c.n)
    query = select(tail.c.run_id, tail.c.writer_no, count.label("n")).group_by(
        tail.c.run_id, tail.c.writer_no
    )
    found = connection.execute(query.having(count >= chunks.RECORDS))
    return {(row.run_id, row.writer_no): int(row.n) for row in found}


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
        points = from_tail(tail_rows(connection, who.run_id, who.writer_no, **bounds))
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
    connection.execute(_LET_GO, place)
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
