"""Records of one writer as arrays, from the tail or from chunks. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tocsin_server.core.models import I64, Column, RecordBatch, Writer
from tocsin_server.store.batch_codec import Body, Sparse
from tocsin_server.store.chunks import rows_of


@dataclass(frozen=True, slots=True)
class TailRow:
    """One received batch as stored in the tail."""

    seq: int
    n: int
    arrival: int
    body: Body


@dataclass(frozen=True, slots=True)
class Points:
    """``n`` records in the order of their writer; arrays are i64[n], columns are keyed by column number."""

    seq: I64
    arrival: I64
    step: I64
    time_ns: I64
    columns: Mapping[int, Column]

    @property
    def n(self) -> int:
        return len(self.step)

    def part(self, begin: int, end: int) -> Points:
        """Return records ``begin`` to ``end`` (exclusive), by position."""
        if begin <= 0 and end >= self.n:
            return self
        keep = np.zeros(self.n, dtype=np.bool_)
        keep[max(begin, 0) : end] = True
        return self.where(keep)

    def where(self, keep: NDArray[np.bool_]) -> Points:
        """Return the records that ``keep`` bool[n] selects."""
        if keep.all():
            return self
        place = np.cumsum(keep) - 1
        columns = {col: column.where(keep, place) for col, column in self.columns.items()}
        return Points(
            self.seq[keep],
            self.arrival[keep],
            self.step[keep],
            self.time_ns[keep],
            {col: column for col, column in columns.items() if len(column.v)},
        )


def nothing() -> Points:
    """Return zero records."""
    none = np.empty(0, dtype=np.int64)
    return Points(none, none, none, none, {})


def from_tail(rows: Sequence[TailRow], wanted: Iterable[int] | None = None) -> Points:
    """Return the records of tail rows in order, with the ``wanted`` columns (None: all)."""
    if not rows:
        return nothing()
    n = np.array([row.n for row in rows], dtype=np.int64)
    begin = np.cumsum(n) - n
    offset = np.array([row.seq for row in rows], dtype=np.int64) - begin
    found = {col for row in rows for col in row.body.cols}
    chosen = found if wanted is None else found.intersection(wanted)
    return Points(
        np.repeat(offset, n) + np.arange(int(n.sum())),
        np.repeat(np.array([row.arrival for row in rows], dtype=np.int64), n),
        np.frombuffer(b"".join(row.body.step for row in rows), dtype="<i8"),
        np.frombuffer(b"".join(row.body.t for row in rows), dtype="<i8"),
        {col: _joined(col, rows, begin) for col in sorted(chosen)},
    )


def _joined(col: int, rows: Sequence[TailRow], begin: I64) -> Column:
    parts = [row.body.cols.get(col) for row in rows]
    dense = [part for part in parts if isinstance(part, bytes)]
    if len(dense) == len(rows):
        return Column(np.frombuffer(b"".join(dense), dtype="<f8"))
    at, values = [], []
    for row, start, part in zip(rows, begin.tolist(), parts, strict=True):
        if isinstance(part, bytes):
            at.append(np.arange(start, start + row.n, dtype=np.uint32))
            values.append(part)
        elif isinstance(part, Sparse):
            at.append(np.frombuffer(part.at, dtype="<u4") + np.uint32(start))
            values.append(part.v)
    return Column(np.frombuffer(b"".join(values), dtype="<f8"), np.concatenate(at))


def joined(parts: Sequence[Points]) -> Points:
    """Return ``parts`` concatenated."""
    parts = [part for part in parts if part.n]
    if len(parts) < 2:
        return parts[0] if parts else nothing()
    columns = sorted({col for part in parts for col in part.columns})
    return Points(
        np.concatenate([part.seq for part in parts]),
        np.concatenate([part.arrival for part in parts]),
        np.concatenate([part.step for part in parts]),
        np.concatenate([part.time_ns for part in parts]),
        {col: _in_a_row(col, parts) for col in columns},
    )


def _in_a_row(col: int, parts: Sequence[Points]) -> Column:
    values, at, start, dense = [], [], 0, True
    for part in parts:
        column = part.columns.get(col)
        if column is not None:
            values.append(column.v)
            at.append(rows_of(column, part.n) + np.uint32(start))
        dense = dense and column is not None and column.at is None
        start += part.n
    return Column(np.concatenate(values), None if dense else np.concatenate(at))


def batches(points: Points, writer: Writer, names: Mapping[int, str]) -> list[RecordBatch]:
    """Return ``points`` split where the arrival number changes: the batches as they were accepted."""
    if not points.n:
        return []
    cuts = [0, *(np.flatnonzero(np.diff(points.arrival)) + 1).tolist(), points.n]
    return [_batch(points.part(a, b), writer, names) for a, b in pairwise(cuts)]


def _batch(points: Points, writer: Writer, names: Mapping[int, str]) -> RecordBatch:
    return RecordBatch(
        writer,
        int(points.arrival[0]),
        int(points.seq[0]),
        points.n,
        points.step,
        points.time_ns,
        {names[col]: column for col, column in points.columns.items()},
    )
