"""Check that stored data can be read: every body against its checksum and its directory row.

A database detects a damaged page, but not a changed byte inside a value. Sealed bodies contain
a checksum (``chunks.compress``; bodies of versions before it have none and are
only decoded), and steps, times, arrivals and record numbers must match the range in ``chunk_dir``.
Functions of a Connection; memory is bounded by a few rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, select

from tocsin_server.core.errors import DamagedError
from tocsin_server.store import batch_codec, chunks, pyramid
from tocsin_server.store.packed_batches import unpack
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
    tail,
)
from tocsin_server.store.writer_cache import series_numbers

ROWS_AT_ONCE = 256
OWN_NAMES = {STEP: "step", TIME: "time", SEQ: "record numbers", ARRIVAL: "arrival"}
ENDS = {STEP: "step", TIME: "t", SEQ: "seq", ARRIVAL: "arrival"}
"""Columns whose smallest and largest value is in ``chunk_dir``."""


@dataclass(frozen=True, slots=True)
class IntegrityIssue:
    """A damaged body: where it is and what is wrong with it."""

    table: str
    run_id: str
    place: str
    reason: str

    def __str__(self) -> str:
        return f"run {self.run_id}, {self.place}: {self.reason}"


class Mismatch(ValueError):  # noqa: N818 - describes the data, not a failure of this code
    """A body can be decoded but does not match its row."""


def issues(connection: Connection) -> Iterator[IntegrityIssue]:
    """Yield every damaged body with its run, series and chunk, and the reason."""
    for run_id in connection.execute(select(run.c.id).order_by(run.c.id)).scalars().all():
        names = {number: name for name, number in series_numbers(connection, run_id).items()} | OWN_NAMES
        for what, look in ((chunk, _chunk), (roll, _roll), (packed, _packed), (tail, _tail)):
            yield from _issues_in(connection, run_id, what, look, names)


def _issues_in(
    connection: Connection, run_id: str, table: Any, look: Callable[[Row[Any]], None], names: dict[int, str]
) -> Iterator[IntegrityIssue]:
    query = _with_directory(run_id) if table is chunk else select(table).where(table.c.run_id == run_id)
    query = query.order_by(*table.primary_key).execution_options(yield_per=ROWS_AT_ONCE)
    for row in connection.execute(query):
        try:
            look(row)
        except (DamagedError, ValueError, TypeError, MemoryError) as error:
            yield IntegrityIssue(
                table.name, run_id, _place(table.name, row, names), str(getattr(error, "reason", error))
            )


def _with_directory(run_id: str) -> Any:
    here, there = chunk.c, chunk_dir.c
    same = (here.run_id == there.run_id) & (here.writer_no == there.writer_no) & (here.no == there.no)
    ends = [there[f"{name}{end}"] for name in ENDS.values() for end in (0, 1)]
    query = select(chunk, there.n.label("records"), *ends)
    return query.select_from(chunk.outerjoin(chunk_dir, same)).where(here.run_id == run_id)


def _place(kind: str, row: Row[Any], names: dict[int, str]) -> str:
    if kind in ("tail", "packed"):
        return f"writer {row.writer_no}, records {row.seq} to {row.seq + row.n - 1} of the tail"
    series = names.get(row.col_id, f"series number {row.col_id}")
    where = f"chunk {row.no}" if kind == "chunk" else f"row {row.no} of level {row.level}"
    return f"writer {row.writer_no}, {series}, {where}"


def _expect(what: str, expected: object, got: object) -> None:
    if expected != got:
        raise Mismatch(f"expected {what} {expected}, got {got}")


def _chunk(row: Row[Any]) -> None:
    if row.records is None:
        raise Mismatch("expected a row of the chunk directory, got none")
    if row.col_id >= FIRST_SERIES:
        column = chunks.decode_floats(row.codec, row.body, row.records)
        _expect("values", row.n, len(column.v))
        _expect("rows", len(chunks.rows_of(column, row.records)), len(column.v))
        return
    values = chunks.decode_ints(row.body)
    _expect("numbers", row.records, len(values))
    name = ENDS[row.col_id]
    ends = (getattr(row, f"{name}0"), getattr(row, f"{name}1"))
    _expect("least and greatest", ends, (int(values.min()), int(values.max())))


def _roll(row: Row[Any]) -> None:
    if row.col_id == STEP:
        _expect("buckets", row.n, len(pyramid.unpack_ranges(row.body).weight))
        return
    values = pyramid.unpack_values(row.codec, row.body, row.n)
    _expect("buckets", row.n, len(values.sum))
    _expect("buckets with counts", row.n, len(values.n))


def _tail(row: Row[Any]) -> None:
    batch_codec.checked(row.body, row.n)


def _packed(row: Row[Any]) -> None:
    unpack(row.body, row.seq, row.n)
