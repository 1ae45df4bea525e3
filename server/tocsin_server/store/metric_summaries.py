"""Read the newest, lowest and highest value of some series of many runs, and means of their newest values.

Sealed records are summarized from the coarsest rows of the pyramid that cover them, unsealed ones from the
tail. The newest values are read from the tail and the last chunks. A summary is kept with the last record
number that it covers, so that the next request reads newer records only.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import Connection, Row, and_, func, or_, select

from tocsin_server.core.errors import DamagedError
from tocsin_server.core.models import F64, Column
from tocsin_server.store import pyramid
from tocsin_server.store.arrays import Points
from tocsin_server.store.chunk_reader import SQL_NUMBERS, tail_records
from tocsin_server.store.chunks import decode_floats, rows_of
from tocsin_server.store.compactor import chunks_in_row
from tocsin_server.store.damage import warn_of_records
from tocsin_server.store.tables import chunk, chunk_dir, metric, roll, run, series, writer

MOST_KEPT = 50_000
"""Summaries of one series of one writer that are kept; about 15 MB."""
MOST_VALUES = 4_000_000
"""Newest values that are kept for means; 32 MB."""
LONGEST_MEAN = 1_000
"""Maximum number of values in a mean."""
_CHUNKS_AT_ONCE = 8


class MetricSummary(NamedTuple):
    """One series over all attempts and ranks, or over one writer.

    ``last`` is the newest value of the newest attempt's lowest rank, ``step`` its step. ``min`` and ``max``
    are those of the finite values, None without any. ``n`` counts values, ``nonfinite`` those of them that
    are NaN, Inf or -Inf.
    """

    last: float
    step: int
    min: float | None
    max: float | None
    n: int
    nonfinite: int
    means: Mapping[int, float] | None = None
    """Means of the newest values of the writer of ``last``, by the number of values; None: not requested."""


class _Kept(NamedTuple):
    upto: int
    """The last record of the writer that is covered."""
    summary: MetricSummary | None
    depth: int = 0
    """How many of the newest values are kept."""
    newest: F64 = np.empty(0)
    """At most ``depth`` values, oldest first; fewer if the writer has no more."""


Key = tuple[str, int, int, int]
"""(run, writer, when the writer first connected, column): a run that is deleted and sent again differs."""


class MetricSummaries:
    """Reads summaries, and keeps them in memory. Thread-safe."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Key, _Kept] = OrderedDict()
        self._values = 0
        """Newest values that are kept."""
        self._lock = Lock()

    def read(
        self,
        connection: Connection,
        run_ids: Sequence[str],
        names: Sequence[str],
        means: Mapping[str, Collection[int]] | None = None,
    ) -> dict[str, dict[str, MetricSummary]]:
        """Return the summary of each series that a run has, by run and name.

        Args:
            connection: A connection.
            run_ids: The runs.
            names: The series.
            means: For some of them, the numbers of newest values to average, at most LONGEST_MEAN.
        """
        out: dict[str, dict[str, MetricSummary]] = {run_id: {} for run_id in run_ids}
        numbers, means = _numbers(connection, run_ids, names), means or {}
        for row in _writers(connection, list(numbers)):
            wanted, found = numbers[row.run_id], out[row.run_id]
            depths = {
                col: 0 if name in found else max(means.get(name, ()), default=0)
                for col, name in wanted.items()
            }
            for col, kept in self._of_writer(connection, row, depths).items():
                if kept.summary is not None:
                    name = wanted[col]
                    found[name] = (
                        _over_writers(found[name], kept.summary)
                        if name in found
                        else kept.summary._replace(means=_means(kept.newest, means.get(name)))
                    )
        return out

    def _of_writer(
        self, connection: Connection, row: Row[Any], depths: Mapping[int, int]
    ) -> dict[int, _Kept]:
        cols = list(depths)
        kept = self._get(row, depths)
        fresh = [col for col in cols if col not in kept]
        kept |= {col: _Kept(row.sealed_seq, None, depths[col]) for col in fresh}
        if fresh and row.chunks:
            for col, summary in _sealed(connection, row, fresh).items():
                newest = _newest_sealed(connection, row, col, depths[col])
                kept[col] = _Kept(row.sealed_seq, summary, depths[col], newest)
        first = min(one.upto for one in kept.values()) + 1
        newer = tail_records(connection, row.run_id, row.writer_no, cols, from_seq=first, skip_damaged=True)
        if newer.n or fresh:
            kept = {col: _extended(one, newer, col) for col, one in kept.items()}
            self._put(row, kept)
        return kept

    def _get(self, row: Row[Any], depths: Mapping[int, int]) -> dict[int, _Kept]:
        """Return what is kept, except what must be read again.

        That is what ends before the tail, and what has too few of the newest values.
        """
        with self._lock:
            found = {col: self._kept.get(_key(row, col)) for col in depths}
        return {
            col: one
            for col, one in found.items()
            if one is not None and one.upto >= row.sealed_seq and one.depth >= depths[col]
        }

    def _put(self, row: Row[Any], kept: Mapping[int, _Kept]) -> None:
        with self._lock:
            for col, one in kept.items():
                before = self._kept.pop(_key(row, col), None)
                self._kept[_key(row, col)] = one
                self._values += one.newest.size - (before.newest.size if before else 0)
            while len(self._kept) > MOST_KEPT or self._values > MOST_VALUES:
                self._values -= self._kept.popitem(last=False)[1].newest.size


def metric_names(
    connection: Connection, project: str | None, limit: int
) -> tuple[list[tuple[str, int]], bool]:
    """Return the names of series with the number of runs that have each, and whether there are more names.

    The most frequent names come first.
    """
    count = func.count().label("runs")
    query = select(metric.c.name, count).join(run, run.c.id == metric.c.run_id)
    if project is not None:
        query = query.where(run.c.project == project)
    query = query.group_by(metric.c.name).order_by(count.desc(), metric.c.name).limit(limit + 1)
    found = [(row.name, int(row.runs)) for row in connection.execute(query)]
    return found[:limit], len(found) > limit


def runs_by_series(connection: Connection, run_ids: Sequence[str]) -> dict[str, int]:
    """Return the names of the series of these runs, each with the number of runs that have it."""
    found: Counter[str] = Counter()
    for some in _parts(run_ids):
        query = select(metric.c.name, func.count().label("runs")).where(metric.c.run_id.in_(some))
        found.update({row.name: row.runs for row in connection.execute(query.group_by(metric.c.name))})
    return dict(found)


def _key(row: Row[Any], col: int) -> Key:
    return row.run_id, row.writer_no, row.handshake_ns, col


def _numbers(
    connection: Connection, run_ids: Sequence[str], names: Sequence[str]
) -> dict[str, dict[int, str]]:
    """Return the columns of the series that each run has, with their names."""
    out: dict[str, dict[int, str]] = {}
    for some in _parts(run_ids):
        query = select(metric).where(metric.c.run_id.in_(some), metric.c.name.in_(names))
        for row in connection.execute(query):
            out.setdefault(row.run_id, {})[row.col_id] = row.name
    return out


def _writers(connection: Connection, run_ids: Sequence[str]) -> Iterator[Row[Any]]:
    """Yield the writers of the runs; those of a run newest attempt first, then by rank."""
    for some in _parts(run_ids):
        order = (writer.c.run_id, writer.c.attempt_no.desc(), writer.c.rank, writer.c.writer_no.desc())
        query = select(writer).where(writer.c.run_id.in_(some)).order_by(*order)
        yield from connection.execute(query).all()


def _parts(run_ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for i in range(0, len(run_ids), SQL_NUMBERS):
        yield run_ids[i : i + SQL_NUMBERS]


def _over_writers(newest: MetricSummary, other: MetricSummary) -> MetricSummary:
    return newest._replace(
        min=_lower(newest.min, other.min),
        max=_higher(newest.max, other.max),
        n=newest.n + other.n,
        nonfinite=newest.nonfinite + other.nonfinite,
    )


def _lower(a: float | None, b: float | None) -> float | None:
    return min((x for x in (a, b) if x is not None), default=None)


def _higher(a: float | None, b: float | None) -> float | None:
    return max((x for x in (a, b) if x is not None), default=None)


def _sealed(connection: Connection, row: Row[Any], cols: Sequence[int]) -> dict[int, MetricSummary]:
    """Return the summaries over the chunks of a writer; a column without values there is missing."""
    own = (series.c.run_id == row.run_id, series.c.writer_no == row.writer_no, series.c.col_id.in_(cols))
    totals = {found.col_id: found for found in connection.execute(select(series).where(*own))}
    if not totals:
        return {}
    ends: dict[int, tuple[float | None, float | None]] = dict.fromkeys(totals, (None, None))
    of_writer = (roll.c.run_id == row.run_id, roll.c.writer_no == row.writer_no)
    query = select(roll.c.col_id, roll.c.n, roll.c.codec, roll.c.body).where(
        *of_writer, roll.c.col_id.in_(list(totals)), or_(*_covering(row.chunks))
    )
    for found in connection.execute(query):
        values = pyramid.unpack_values(found.codec, found.body, found.n)
        low, high = ends[found.col_id]
        ends[found.col_id] = _lower(low, _lowest(values.min)), _higher(high, _highest(values.max))
    return {
        col: MetricSummary(
            found.last_value, found.last_step, *ends[col], found.n, found.nan + found.pinf + found.ninf
        )
        for col, found in totals.items()
    }


def _newest_sealed(connection: Connection, row: Row[Any], col: int, depth: int) -> F64:
    """Return the newest ``depth`` values of a column in the chunks of a writer, or all, oldest first.

    A damaged chunk ends them: the mean is then one of fewer values.
    """
    parts: list[F64] = []
    lacking, below = depth, row.chunks
    while lacking > 0 and below > 0:
        bodies = _last_chunks(connection, row, col, below)
        if not bodies:
            break
        for no, rows, codec, body in bodies:
            try:
                values = decode_floats(codec, body, rows).v
            except (DamagedError, ValueError, TypeError) as error:
                warn_of_records(row.run_id, f"writer {row.writer_no}, chunk {no}", str(error))
                return _joined(parts, depth)
            parts.append(values)
            lacking -= values.size
            below = no
    return _joined(parts, depth)


def _last_chunks(connection: Connection, row: Row[Any], col: int, below: int) -> list[Any]:
    """Return number, records, codec and body of the last chunks of a column below a number, newest first."""
    in_chunk = and_(
        chunk_dir.c.run_id == chunk.c.run_id,
        chunk_dir.c.writer_no == chunk.c.writer_no,
        chunk_dir.c.no == chunk.c.no,
    )
    query = (
        select(chunk.c.no, chunk_dir.c.n, chunk.c.codec, chunk.c.body)
        .join(chunk_dir, in_chunk)
        .where(chunk.c.run_id == row.run_id, chunk.c.writer_no == row.writer_no)
        .where(chunk.c.col_id == col, chunk.c.no < below)
        .order_by(chunk.c.no.desc())
        .limit(_CHUNKS_AT_ONCE)
    )
    return [(found.no, found.n, found.codec, found.body) for found in connection.execute(query)]


def _joined(parts: Sequence[F64], depth: int) -> F64:
    """Return the last ``depth`` values of parts that are newest first."""
    return np.concatenate([np.empty(0), *reversed(parts)])[-depth:] if depth else np.empty(0)


def _means(newest: F64, counts: Collection[int] | None) -> dict[int, float] | None:
    """Return the means of the last values, by the number of values; NaN if one of them is NaN."""
    if not counts:
        return None
    with np.errstate(all="ignore"):
        return {count: float(newest[-count:].mean()) for count in counts}


def _covering(chunks: int) -> Iterator[Any]:
    """Yield conditions that select rows of the pyramid that cover all chunks once, the coarsest first."""
    low = 0
    for level in range(len(pyramid.LEVELS) - 1, -1, -1):
        span = chunks_in_row(level)
        if low // span < chunks // span:
            yield and_(
                roll.c.level == pyramid.LEVELS[level], roll.c.no.between(low // span, chunks // span - 1)
            )
            low = chunks // span * span


def _extended(kept: _Kept, newer: Points, col: int) -> _Kept:
    """Return a summary with the records of the tail that it did not cover."""
    if not newer.n or newer.seq[-1] <= kept.upto:
        return kept
    points = newer.part(int(np.searchsorted(newer.seq, kept.upto, side="right")), newer.n)
    column = points.columns.get(col)
    if column is None or not column.v.size:
        return kept._replace(upto=int(newer.seq[-1]))
    summary = _of_column(column, points)
    if kept.summary is not None:
        summary = _over_writers(summary, kept.summary)
    values = np.concatenate([kept.newest, column.v])[-kept.depth :] if kept.depth else kept.newest
    return _Kept(int(newer.seq[-1]), summary, kept.depth, values)


def _of_column(column: Column, points: Points) -> MetricSummary:
    v = column.v
    finite = v[np.isfinite(v)]
    return MetricSummary(
        float(v[-1]),
        int(points.step[rows_of(column, points.n)[-1]]),
        _lowest(finite),
        _highest(finite),
        int(v.size),
        int(v.size - finite.size),
    )


def _lowest(values: F64) -> float | None:
    """Return the lowest value that is not NaN, or None."""
    known = values[~np.isnan(values)]
    return float(known.min()) if known.size else None


def _highest(values: F64) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.max()) if known.size else None
