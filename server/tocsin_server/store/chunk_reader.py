"""Read records from the tail and from chunks. Functions of a Connection."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
from sqlalchemy import ColumnElement, CompoundSelect, Connection, bindparam, literal, select, union_all

from tocsin_server.core.errors import DamagedError
from tocsin_server.core.models import I64
from tocsin_server.store import batch_codec, chunks
from tocsin_server.store.arrays import Points, TailRow, from_tail, joined
from tocsin_server.store.damage import warn_of_records
from tocsin_server.store.packed_batches import unpack
from tocsin_server.store.tables import ARRIVAL, FIRST_SERIES, SEQ, STEP, TIME, chunk, chunk_dir, packed, tail

SQL_NUMBERS = 500
"""Numbers in one IN list, below the limit of both databases."""


@cache
def _tail_query(bounds: frozenset[str]) -> CompoundSelect[Any]:
    """Return the query of :func:`tail_records` with these bounds. To build it takes longer than to run it."""
    queries = []
    for table in (packed, tail):
        conditions = [table.c.run_id == bindparam("of_run"), table.c.writer_no == bindparam("of_writer")]
        if "after_arrival" in bounds:
            conditions.append(table.c.arrival > bindparam("after_arrival"))
        if "to_seq" in bounds:
            conditions.append(table.c.seq <= bindparam("to_seq"))
        if "from_seq" in bounds:
            conditions.append(table.c.seq + table.c.n > bindparam("from_seq"))
        columns = (table.c.seq, table.c.n, table.c.arrival, table.c.body, literal(table is packed))
        queries.append(select(*columns).where(*conditions))
    query = union_all(*queries).order_by("seq")
    return query.limit(bindparam("most")) if "most" in bounds else query


_TAILS = union_all(
    *(
        select(
            *(table.c.seq, table.c.n, table.c.arrival, table.c.body, literal(table is packed)),
            *(table.c.run_id, table.c.writer_no),
        ).where(table.c.run_id.in_(bindparam("of_runs", expanding=True)))
        for table in (packed, tail)
    )
).order_by("run_id", "writer_no", "seq")


def tail_records(
    connection: Connection,
    run_id: str,
    writer_no: int,
    wanted: Iterable[int] | None = None,
    *,
    after_arrival: int | None = None,
    from_seq: int | None = None,
    to_seq: int | None = None,
    limit: int | None = None,
    skip_damaged: bool = False,
) -> Points:
    """Return records of a writer's tail in order of their numbers, with the ``wanted`` columns (None: all).

    Args:
        connection: A connection.
        run_id: The run.
        writer_no: The writer.
        wanted: The columns.
        after_arrival: Only records with a higher arrival number.
        from_seq: Only rows with a record of this number or above.
        to_seq: Only rows whose first record number is at most this.
        limit: Maximum number of rows.
        skip_damaged: Log and skip damaged rows instead of raising.

    Raises:
        DamagedError: A row cannot be decoded.
    """
    bounds = {"after_arrival": after_arrival, "from_seq": from_seq, "to_seq": to_seq, "most": limit}
    given = {name: value for name, value in bounds.items() if value is not None}
    query = _tail_query(frozenset(given))
    found = connection.execute(query, {"of_run": run_id, "of_writer": writer_no, **given})
    points = points_of(run_id, writer_no, found, wanted, skip_damaged=skip_damaged)
    return points if after_arrival is None else points.where(points.arrival > after_arrival)


def points_of(
    run_id: str,
    writer_no: int,
    found: Iterable[Any],
    wanted: Iterable[int] | None = None,
    *,
    skip_damaged: bool = False,
) -> Points:
    """Return the records in rows ``(seq, n, arrival, body, whether packed)`` of one writer's tail.

    Raises:
        DamagedError: A row cannot be decoded, unless ``skip_damaged``.
    """
    chosen = None if wanted is None else set(wanted)
    parts: list[Points] = []
    batches: list[TailRow] = []
    for row in found:
        read = _row(run_id, writer_no, row, chosen, skip_damaged)
        if isinstance(read, Points):
            parts += [from_tail(batches, chosen), read]
            batches = []
        elif read is not None:
            batches.append(read)
    return joined([*parts, from_tail(batches, chosen)])


def tails_of(connection: Connection, run_ids: Sequence[str]) -> dict[tuple[str, int], list[Any]]:
    """Return the rows of the tails of many runs, for :func:`points_of`, by run and writer number."""
    rows: dict[tuple[str, int], list[Any]] = {}
    for row in connection.execute(_TAILS, {"of_runs": list(run_ids)}):
        rows.setdefault((row.run_id, row.writer_no), []).append(row)
    return rows


def _row(
    run_id: str, writer_no: int, row: Any, wanted: set[int] | None, skip_damaged: bool
) -> TailRow | Points | None:
    """Return the records of a packed row, the batch of another one, or None for a damaged one to skip."""
    try:
        if row[4]:
            return unpack(row.body, row.seq, row.n, wanted)
        read = batch_codec.checked(row.body, row.n) if skip_damaged else batch_codec.decode(row.body)
        return TailRow(row.seq, row.n, row.arrival, read)
    except (DamagedError, ValueError, TypeError) as error:
        if not skip_damaged:
            raise
        place = f"writer {writer_no}, records {row.seq} to {row.seq + row.n - 1} of the tail"
        warn_of_records(run_id, place, str(getattr(error, "reason", error)))
        return None


def tail_points(
    connection: Connection,
    run_id: str,
    writer_no: int,
    sealed_seq: int,
    wanted: Iterable[int] | None = None,
    *,
    after_arrival: int | None = None,
    skip_damaged: bool = False,
) -> Points:
    """Return the writer's records after ``sealed_seq``, which may be in the middle of a batch."""
    points = tail_records(
        connection, run_id, writer_no, wanted, after_arrival=after_arrival, skip_damaged=skip_damaged
    )
    return points.part(int(np.searchsorted(points.seq, sealed_seq, side="right")), points.n)


def chunk_points(
    connection: Connection,
    run_id: str,
    writer_no: int,
    numbers: Sequence[int],
    wanted: Iterable[int] | None = None,
    *,
    numbered: bool = False,
) -> Points:
    """Return the records of the chunks ``numbers`` (ascending) with the ``wanted`` columns (None: all).

    Record and arrival numbers are read only if ``numbered``; otherwise they are zero.
    """
    parts = [
        _some_chunks(connection, run_id, writer_no, numbers[i : i + SQL_NUMBERS], wanted, numbered)
        for i in range(0, len(numbers), SQL_NUMBERS)
    ]
    return joined(parts)


def _some_chunks(
    connection: Connection,
    run_id: str,
    writer_no: int,
    numbers: Sequence[int],
    wanted: Iterable[int] | None,
    numbered: bool,
) -> Points:
    of_writer = (chunk.c.run_id == run_id) & (chunk.c.writer_no == writer_no)
    query = select(chunk.c.col_id, chunk.c.no, chunk.c.n, chunk.c.codec, chunk.c.body).where(of_writer)
    if wanted is not None:
        own = {STEP, TIME, SEQ, ARRIVAL} if numbered else {STEP, TIME}
        query = query.where(chunk.c.col_id.in_(sorted({*wanted} | own)))
    found: dict[int, dict[int, tuple[int, bytes]]] = {no: {} for no in numbers}
    for row in connection.execute(query.where(_among(numbers))):
        if row.no in found:
            found[row.no][row.col_id] = (row.codec, row.body)
    first = _first_numbers(connection, run_id, writer_no, numbers) if numbered else {}
    return joined([_chunk(found[no], first.get(no)) for no in numbers])


def _among(numbers: Sequence[int]) -> ColumnElement[bool]:
    if numbers[-1] - numbers[0] == len(numbers) - 1:
        return chunk.c.no.between(numbers[0], numbers[-1])
    return chunk.c.no.in_(numbers)


def _first_numbers(
    connection: Connection, run_id: str, writer_no: int, numbers: Sequence[int]
) -> dict[int, int]:
    query = select(chunk_dir.c.no, chunk_dir.c.seq0).where(
        chunk_dir.c.run_id == run_id,
        chunk_dir.c.writer_no == writer_no,
        chunk_dir.c.no.between(numbers[0], numbers[-1]),
    )
    return {row.no: row.seq0 for row in connection.execute(query)}


def _chunk(columns: dict[int, tuple[int, bytes]], seq0: int | None) -> Points:
    step = chunks.decode_ints(columns[STEP][1])
    rows = len(step)
    return Points(
        _numbers(columns, seq0, rows),
        _zeros(rows) if seq0 is None else chunks.decode_ints(columns[ARRIVAL][1]),
        step,
        chunks.decode_ints(columns[TIME][1]),
        {
            col: chunks.decode_floats(codec, body, rows)
            for col, (codec, body) in columns.items()
            if col >= FIRST_SERIES
        },
    )


def _numbers(columns: dict[int, tuple[int, bytes]], seq0: int | None, rows: int) -> I64:
    if seq0 is None:
        return _zeros(rows)
    if SEQ in columns:
        return chunks.decode_ints(columns[SEQ][1])
    return np.arange(seq0, seq0 + rows, dtype=np.int64)


def _zeros(rows: int) -> I64:
    return np.zeros(rows, dtype=np.int64)
