"""Read what arrived after a given arrival, to evaluate it again on recovery and for live deltas.

Sealing does not wait for rule states: chunks keep the arrival number of every record, so
the batches after a rule state are found in the tail and in chunks, split as they were received.
Functions of a Connection.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sqlalchemy import Connection, Engine, Row, bindparam, func, select

from tocsin_server.core.models import SavedRuleState
from tocsin_server.store.alert_rows import newest_episodes
from tocsin_server.store.arrays import Points, joined
from tocsin_server.store.chunk_reader import chunk_points, tail_records
from tocsin_server.store.replay import replayed
from tocsin_server.store.results import Recovery, SeriesAnswer, SeriesLayer
from tocsin_server.store.series_window import exact_layer, last_arrival, writer_rows
from tocsin_server.store.tables import chunk_dir, packed, rule_state, tail
from tocsin_server.store.writer_cache import series_numbers

DELTA_RECORDS = 20_000
"""Beyond this many records, a live page must query the whole window instead of a delta."""

_RULE_STATE = select(rule_state).where(rule_state.c.run_id == bindparam("of_run"))


def read_recovery(engine: Engine, run_id: str, *, from_start: bool = False) -> Recovery:
    """Return what is needed to resume; see ``StoreReader.recovery``."""
    with engine.begin() as connection:
        row = None if from_start else connection.execute(_RULE_STATE, {"of_run": run_id}).first()
        alerts, last = newest_episodes(connection, run_id), last_arrival(connection, run_id)
        series = frozenset(series_numbers(connection, run_id))
    snapshot = SavedRuleState(run_id, row.arrival, row.body) if row is not None else None
    since = -1 if snapshot is None else snapshot.arrival
    return Recovery(snapshot, replayed(engine, run_id, since, last), alerts, last, series)


def points_after(
    connection: Connection, row: Row[Any], arrival: int, wanted: Sequence[int] | None = None
) -> Points:
    """Return the records of one writer that arrived after ``arrival``, sealed or not, without duplicates."""
    unsealed = tail_records(connection, row.run_id, row.writer_no, wanted, after_arrival=arrival)
    if row.sealed_arrival <= arrival:
        return unsealed
    numbers = _chunks_since(connection, row, arrival)
    sealed = chunk_points(connection, row.run_id, row.writer_no, numbers, wanted, numbered=True)
    # A batch across the end of the last chunk can be complete in the tail: it is read from there.
    first = int(unsealed.seq[0]) if unsealed.n else np.iinfo(np.int64).max
    return joined([sealed.where((sealed.arrival > arrival) & (sealed.seq < first)), unsealed])


def _chunks_since(connection: Connection, row: Row[Any], arrival: int) -> Sequence[int]:
    query = select(chunk_dir.c.no).where(
        chunk_dir.c.run_id == row.run_id,
        chunk_dir.c.writer_no == row.writer_no,
        chunk_dir.c.arrival1 > arrival,
    )
    return connection.execute(query.order_by(chunk_dir.c.no)).scalars().all()


def read_since(connection: Connection, run_id: str, names: Sequence[str], cursor: int) -> SeriesAnswer | None:
    """Return a live delta; see ``StoreReader.since``."""
    rows = writer_rows(connection, run_id)
    if _records_after(connection, rows, run_id, cursor) > DELTA_RECORDS:
        return None
    numbers = series_numbers(connection, run_id)
    wanted = {numbers[name]: name for name in names if name in numbers}
    answer: dict[str, list[SeriesLayer]] = {name: [] for name in names}
    steps: list[int] = []
    for row in rows:
        points = points_after(connection, row, cursor, sorted(wanted))
        steps += [int(points.step.min()), int(points.step.max())] if points.n else []
        for col, column in points.columns.items():
            answer[wanted[col]].append(exact_layer(row, points, column, "step"))
    newest = max(cursor, last_arrival(connection, run_id))
    return SeriesAnswer(run_id, "step", 0, newest, min(steps, default=None), max(steps, default=None), answer)


def _records_after(connection: Connection, rows: Sequence[Row[Any]], run_id: str, cursor: int) -> int:
    """Return an upper estimate of the records that arrived after ``cursor``; compressed ones count by row."""
    count = 0
    for table in (packed, tail):
        fresh = select(func.coalesce(func.sum(table.c.n), 0)).where(
            table.c.run_id == run_id, table.c.arrival > cursor
        )
        count += int(connection.execute(fresh).scalar_one())
    for row in rows:
        if row.sealed_arrival > cursor:
            found = select(func.coalesce(func.sum(chunk_dir.c.n), 0)).where(
                chunk_dir.c.run_id == run_id,
                chunk_dir.c.writer_no == row.writer_no,
                chunk_dir.c.arrival1 > cursor,
            )
            count += int(connection.execute(found).scalar_one())
    return count
