"""Read series in a window at screen resolution, from tail, chunks and pyramid.

The cost depends on the number of requested buckets: exact records if the window holds no more, else
sealed records are decoded if they are few, else the coarsest level of the pyramid with at
least half as many buckets is read. Buckets that overlap the window are included, so nothing at
its edges is lost. Functions of a Connection, whose transaction is the snapshot.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import BindParameter, Connection, Row, bindparam, func, select

from tocsin_server.core.models import F64, I64, Column
from tocsin_server.store import chunks, pyramid
from tocsin_server.store.arrays import Points, joined
from tocsin_server.store.chunk_reader import chunk_points, points_of, tails_of
from tocsin_server.store.columns import LARGEST
from tocsin_server.store.compactor import chunks_in_row
from tocsin_server.store.log_buckets import decades, read_decades
from tocsin_server.store.results import SeriesAnswer, SeriesLayer
from tocsin_server.store.tables import (
    STEP,
    chunk,
    chunk_dir,
    event,
    metric,
    packed,
    roll,
    run,
    series,
    tail,
    writer,
)

DECODED = pyramid.LEVELS[0] // 2
"""Up to this many records per requested bucket are decoded; beyond, the pyramid is read.

The finest level therefore covers windows in which it has half as many buckets as requested; decoding
these takes several times as long.
"""
NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class Window:
    """From ``start`` to ``stop``, both included, None for open; ``by`` is step, or time in Unix ms.

    With ``log_from``, a step, the buckets are for a logarithmic axis of the distance from it.
    """

    start: float | None
    stop: float | None
    by: str
    log_from: float | None = None

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """The ends in the stored unit: steps, or ns."""
        ends = (self.start, self.stop) if self.by == "step" else (_ns(self.start), _ns(self.stop))
        return _storable(ends[0]), _storable(ends[1])

    def touches(self, ranges: pyramid.Ranges) -> pyramid.Mask:
        """Return which buckets overlap the window, bool[m]."""
        if self.by == "time":
            return pyramid.overlapping(ranges.t0, ranges.t1, *self.bounds)
        return pyramid.overlapping(ranges.step0, ranges.step1, *self.bounds)

    def of(self, points: Points) -> Points:
        """Return the records in the window."""
        x = points.time_ns if self.by == "time" else points.step
        return points.where(pyramid.overlapping(x, x, *self.bounds))


def _ns(ms: float | None) -> float | None:
    """Return Unix ms as whole ns. A float64 in ns would be off by up to hundreds of ns."""
    if ms is None or not math.isfinite(ms):
        return ms
    return int(ms) * NS_PER_MS + round((ms - int(ms)) * NS_PER_MS)


def _storable(end: float | None) -> float | None:
    """Return ``end``, clamped to what the databases can compare with."""
    return None if end is None else max(-LARGEST - 1, min(end, LARGEST))


def to_ms(ns: I64) -> F64:
    """Return Unix ns as float64 ms, rounded once."""
    return ns // NS_PER_MS + (ns % NS_PER_MS) / NS_PER_MS


@dataclass(frozen=True, slots=True)
class Layer:
    """One writer in a window: its row, the chunks that overlap the window, its tail in the window."""

    row: Row[Any]
    numbers: Sequence[int]
    tail: Points


# Built once, because that takes longer than to run it: a start reads each run that has not ended.
_OF_RUN: BindParameter[str] = bindparam("of_run")
_WRITERS = (
    select(writer)
    .where(writer.c.run_id == _OF_RUN)
    .order_by(writer.c.attempt_no.desc(), writer.c.rank, writer.c.writer_no.desc())
)
_ARRIVALS = select(
    *(
        select(func.max(table.c.arrival)).where(table.c.run_id == _OF_RUN).scalar_subquery()
        for table in (tail, packed, event)
    ),
    select(func.max(writer.c.sealed_arrival)).where(writer.c.run_id == _OF_RUN).scalar_subquery(),
)

_SOME_RUNS: BindParameter[Sequence[str]] = bindparam("of_runs", expanding=True)
_MANY_NUMBERS = select(metric).where(metric.c.run_id.in_(_SOME_RUNS))
_MANY_WRITERS = (
    select(writer)
    .where(writer.c.run_id.in_(_SOME_RUNS))
    .order_by(writer.c.run_id, writer.c.attempt_no.desc(), writer.c.rank, writer.c.writer_no.desc())
)
_MANY_ARRIVALS = select(
    run.c.id,
    select(func.max(event.c.arrival)).where(event.c.run_id == run.c.id).scalar_subquery().label("arrival"),
).where(run.c.id.in_(_SOME_RUNS))


def writer_rows(connection: Connection, run_id: str) -> list[Row[Any]]:
    """Return the writers of a run, newest attempt first, then by rank."""
    return list(connection.execute(_WRITERS, {"of_run": run_id}))


def last_arrival(connection: Connection, run_id: str) -> int:
    """Return the newest arrival number of a batch or event of the run, or -1."""
    found = connection.execute(_ARRIVALS, {"of_run": run_id}).one()
    return max([-1, *(int(value) for value in found if value is not None)])


def read_series(
    connection: Connection, run_id: str, names: Sequence[str] | None, window: Window, buckets: int
) -> SeriesAnswer:
    """Return series in a window; see ``StoreReader.series``."""
    return ManySeries(connection, [run_id]).of(run_id, names, window, buckets)


class ManySeries:
    """What the series of some runs are read from: few queries for all runs, which have at most few writers.

    Use it for some dozens of runs, because it holds the records that are not sealed yet.
    """

    def __init__(self, connection: Connection, run_ids: Sequence[str]) -> None:
        self._connection = connection
        asked = {"of_runs": list(run_ids)}
        self._numbers: dict[str, dict[str, int]] = {run_id: {} for run_id in run_ids}
        for row in connection.execute(_MANY_NUMBERS, asked):
            self._numbers[row.run_id][row.name] = row.col_id
        self._writers: dict[str, list[Row[Any]]] = {run_id: [] for run_id in run_ids}
        for row in connection.execute(_MANY_WRITERS, asked):
            self._writers[row.run_id].append(row)
        self._tails = tails_of(connection, run_ids)
        found = connection.execute(_MANY_ARRIVALS, asked)
        self._arrivals = {row.id: -1 if row.arrival is None else int(row.arrival) for row in found}

    def __contains__(self, run_id: str) -> bool:
        """Return whether the run exists."""
        return run_id in self._arrivals

    def names(self, run_id: str) -> list[str]:
        """Return the names of all series of a run, in order of first appearance."""
        numbers = self._numbers[run_id]
        return sorted(numbers, key=lambda name: numbers[name])

    def of(self, run_id: str, names: Sequence[str] | None, window: Window, buckets: int) -> SeriesAnswer:
        """Return series of one of the runs in a window; see ``StoreReader.series``.

        Raises:
            DamagedError: Records of the run cannot be decoded.
        """
        numbers = self._numbers[run_id]
        asked = list(numbers) if names is None else list(dict.fromkeys(names))
        wanted = {numbers[name]: name for name in asked if name in numbers}
        answer: dict[str, list[SeriesLayer]] = {name: [] for name in asked}
        ends: list[int] = []
        level, cursor = 0, self._arrivals.get(run_id, -1)
        for row in self._writers[run_id]:
            rows = self._tails.get((run_id, row.writer_no), [])
            cursor = max([cursor, row.sealed_arrival, *(each.arrival for each in rows)])
            unsealed = _after(points_of(run_id, row.writer_no, rows, wanted), row.sealed_seq)
            ends += _ends(row, unsealed)
            for col, made, size in self._of_writer(row, unsealed, sorted(wanted), window, buckets):
                answer[wanted[col]].append(made)
                level = max(level, size)
        return SeriesAnswer(
            run_id, window.by, level, cursor, min(ends, default=None), max(ends, default=None), answer
        )

    def _of_writer(
        self, row: Row[Any], unsealed: Points, wanted: Sequence[int], window: Window, buckets: int
    ) -> list[tuple[int, SeriesLayer, int]]:
        """Return (column, its layer, bucket size in records) for the series of one writer."""

        def read(
            start: float | None, stop: float | None, columns: Sequence[int], count: int
        ) -> list[tuple[int, SeriesLayer, int]]:
            part = Window(start, stop, window.by)
            layer = Layer(row, _chunks_touched(self._connection, row, part), part.of(unsealed))
            return _layers(self._connection, layer, columns, part, count)

        ends = _ends(row, unsealed)
        if window.log_from is None or not ends:
            return read(window.start, window.stop, wanted, buckets)
        stop = max(ends) if window.stop is None else min(window.stop, max(ends))
        edges, share = decades(window.log_from, window.start, stop, buckets)
        return read_decades(read, wanted, (window.start, window.stop), edges, share)


def _after(points: Points, sealed_seq: int) -> Points:
    """Return the records that are not sealed; the newest chunk may end in the middle of a batch."""
    return points.part(int(np.searchsorted(points.seq, sealed_seq, side="right")), points.n)


def _ends(row: Row[Any], unsealed: Points) -> list[int]:
    ends = [] if row.first_step is None else [row.first_step, row.last_step]
    return ends + ([int(unsealed.step.min()), int(unsealed.step.max())] if unsealed.n else [])


def _chunks_touched(connection: Connection, row: Row[Any], window: Window) -> Sequence[int]:
    """Return the numbers of the chunks that overlap the window, from the directory without decoding."""
    start, stop = window.bounds
    if not row.chunks or (start is None and stop is None):
        return range(row.chunks)
    low, high = (
        (chunk_dir.c.t0, chunk_dir.c.t1) if window.by == "time" else (chunk_dir.c.step0, chunk_dir.c.step1)
    )
    query = select(chunk_dir.c.no).where(
        chunk_dir.c.run_id == row.run_id, chunk_dir.c.writer_no == row.writer_no
    )
    if start is not None:
        query = query.where(high >= start)
    if stop is not None:
        query = query.where(low <= stop)
    return connection.execute(query.order_by(chunk_dir.c.no)).scalars().all()


def _layers(
    connection: Connection, layer: Layer, wanted: Sequence[int], window: Window, buckets: int
) -> list[tuple[int, SeriesLayer, int]]:
    """Return (column, its layer, bucket size in records) for the series of one writer."""
    if not wanted:
        return []
    sealed = len(layer.numbers) * chunks.RECORDS
    if not sealed or sealed + layer.tail.n <= DECODED * buckets:  # a long tail alone has no pyramid yet
        points = _decoded(connection, layer, layer.numbers, wanted, window)
        return [_from_points(layer, points, col, window, buckets) for col in wanted if col in points.columns]
    few = _scarce(connection, layer, wanted, buckets)
    out = []
    for col, numbers in few.items():
        points = _decoded(connection, layer, numbers, [col], window)
        if col in points.columns:
            out.append(_from_points(layer, points, col, window, buckets))
    return out + _from_pyramid(connection, layer, [c for c in wanted if c not in few], window, buckets)


def _decoded(
    connection: Connection, layer: Layer, numbers: Sequence[int], wanted: Sequence[int], window: Window
) -> Points:
    """Return the sealed and unsealed records in the window."""
    row = layer.row
    sealed = chunk_points(connection, row.run_id, row.writer_no, numbers, wanted)
    return joined([window.of(sealed), layer.tail])


def _scarce(
    connection: Connection, layer: Layer, wanted: Sequence[int], buckets: int
) -> dict[int, Sequence[int]]:
    """Return the series whose values in the window all fit, each with the chunks that contain any."""
    row = layer.row
    counts = connection.execute(
        select(series.c.col_id, series.c.n).where(
            series.c.run_id == row.run_id, series.c.writer_no == row.writer_no, series.c.col_id.in_(wanted)
        )
    )
    sealed = {found.col_id: found.n for found in counts}
    out: dict[int, Sequence[int]] = {col: [] for col in wanted if col not in sealed}
    for col, n in sealed.items():
        if n * 2 <= row.sealed_records:
            found = _values_in(connection, layer, col)
            if sum(found.values()) <= buckets:
                out[col] = sorted(found)
    return out


def _values_in(connection: Connection, layer: Layer, col: int) -> dict[int, int]:
    """Return the number of values of one column, by number of the chunks that overlap the window."""
    row, touched = layer.row, set(layer.numbers)
    query = select(chunk.c.no, chunk.c.n).where(
        chunk.c.run_id == row.run_id,
        chunk.c.writer_no == row.writer_no,
        chunk.c.col_id == col,
        chunk.c.no.between(layer.numbers[0], layer.numbers[-1]),
    )
    return {found.no: found.n for found in connection.execute(query) if found.no in touched}


def _from_points(
    layer: Layer, points: Points, col: int, window: Window, buckets: int
) -> tuple[int, SeriesLayer, int]:
    column = points.columns[col]
    if len(column.v) <= buckets:
        return col, exact_layer(layer.row, points, column, window.by), 0
    size = -(-points.n // buckets)
    ranges = pyramid.ranges_of(points.step, points.time_ns, size)
    values = pyramid.values_of(column, points.n, size)
    return col, _bucket_layer(layer.row, ranges, values, window.by, buckets), size


def _from_pyramid(
    connection: Connection, layer: Layer, wanted: list[int], window: Window, buckets: int
) -> list[tuple[int, SeriesLayer, int]]:
    if not wanted:
        return []
    level = _level(len(layer.numbers) * chunks.RECORDS, buckets)
    size = pyramid.LEVELS[level]
    ranges, values = _gather(connection, layer, level, wanted)
    touched = window.touches(ranges)
    ranges = pyramid.chosen_ranges(ranges, touched)
    out = []
    for col in wanted:
        parts = [pyramid.chosen_values(values[col], touched)]
        spans = [ranges]
        if layer.tail.n:
            column = layer.tail.columns.get(col, Column(np.empty(0), np.empty(0, dtype=np.uint32)))
            spans.append(pyramid.ranges_of(layer.tail.step, layer.tail.time_ns, size))
            parts.append(pyramid.values_of(column, layer.tail.n, size))
        made = _bucket_layer(
            layer.row, pyramid.joined_ranges(spans), pyramid.joined_values(parts), window.by, buckets
        )
        if len(made.x):
            out.append((col, made, size))
    return out


def _level(records: int, buckets: int) -> int:
    """Return the index of the coarsest level with at least half as many buckets as requested."""
    serving = [i for i, size in enumerate(pyramid.LEVELS) if records // size >= buckets / 2]
    return serving[-1] if serving else 0


def _gather(
    connection: Connection, layer: Layer, level: int, wanted: list[int]
) -> tuple[pyramid.Ranges, dict[int, pyramid.Values]]:
    """Return buckets over the touched chunks: full rows of ``level``, then newer ones of finer levels."""
    low, end = layer.numbers[0], layer.numbers[-1] + 1
    ranges: list[pyramid.Ranges] = []
    values: dict[int, list[pyramid.Values]] = {col: [] for col in wanted}
    while low < end:
        span = chunks_in_row(level)
        full = layer.row.chunks // span * span
        if low < full:
            numbers = range(low // span, (min(end, full) - 1) // span + 1)
            _read_rows(connection, layer.row, level, numbers, ranges, values)
            low = numbers[-1] * span + span
        level -= 1
    return pyramid.joined_ranges(ranges), {col: pyramid.joined_values(parts) for col, parts in values.items()}


def _read_rows(
    connection: Connection,
    row: Row[Any],
    level: int,
    numbers: range,
    ranges: list[pyramid.Ranges],
    values: dict[int, list[pyramid.Values]],
) -> None:
    """Append the rows ``numbers`` of a level to ``ranges`` and ``values``."""
    query = select(roll.c.col_id, roll.c.no, roll.c.n, roll.c.codec, roll.c.body).where(
        roll.c.run_id == row.run_id,
        roll.c.writer_no == row.writer_no,
        roll.c.col_id.in_([STEP, *values]),
        roll.c.level == pyramid.LEVELS[level],
        roll.c.no.between(numbers[0], numbers[-1]),
    )
    found = {(r.col_id, r.no): r for r in connection.execute(query)}
    for no in numbers:
        span = pyramid.unpack_ranges(found[STEP, no].body)
        ranges.append(span)
        for col, parts in values.items():
            of_col = found.get((col, no))
            parts.append(
                pyramid.empty_values(len(span.weight))
                if of_col is None
                else pyramid.unpack_values(of_col.codec, of_col.body, of_col.n)
            )


def exact_layer(row: Row[Any], points: Points, column: Column, by: str) -> SeriesLayer:
    """Return the single values of a column in order of x; equal x keep the order of the writer."""
    step, time_ns, v = points.step, points.time_ns, column.v
    if column.at is not None:
        step, time_ns = step[column.at], time_ns[column.at]
    by_x = time_ns if by == "time" else step
    if not (by_x[1:] >= by_x[:-1]).all():
        order = np.argsort(by_x, kind="stable")
        step, time_ns, v = step[order], time_ns[order], v[order]
    t = to_ms(time_ns)
    x = t if by == "time" else step.astype(np.float64)
    nan, pinf, ninf = _nonfinite(v)
    return SeriesLayer(
        row.attempt_no, row.rank, row.writer_no, True, x, x, t, v, np.ones(len(v)), nan, pinf, ninf
    )


def _nonfinite(v: F64) -> tuple[F64, F64, F64]:
    """Return where values are NaN, +Inf and -Inf, as 1.0."""
    if np.isfinite(v).all():
        none = np.zeros(len(v))
        return none, none, none
    nan, pinf, ninf = (flag(v).astype(np.float64) for flag in (np.isnan, np.isposinf, np.isneginf))
    return nan, pinf, ninf


def _bucket_layer(
    row: Row[Any], ranges: pyramid.Ranges, values: pyramid.Values, by: str, buckets: int
) -> SeriesLayer:
    ranges, values = pyramid.reduce_to(ranges, values, buckets)
    order = np.argsort(ranges.t0 if by == "time" else ranges.step0, kind="stable")
    ends = (to_ms(ranges.t0), to_ms(ranges.t1)) if by == "time" else (ranges.step0, ranges.step1)

    def sorted_floats(array: np.ndarray[Any, Any]) -> F64:
        return array[order].astype(np.float64)

    return SeriesLayer(
        row.attempt_no,
        row.rank,
        row.writer_no,
        False,
        sorted_floats(ends[0]),
        sorted_floats(ends[1]),
        sorted_floats(to_ms(ranges.t0)),
        sorted_floats(values.first),
        sorted_floats(values.n),
        sorted_floats(values.nan),
        sorted_floats(values.pinf),
        sorted_floats(values.ninf),
        sorted_floats(values.min),
        sorted_floats(values.max),
        sorted_floats(pyramid.mean_of(values)),
        sorted_floats(values.last),
    )
