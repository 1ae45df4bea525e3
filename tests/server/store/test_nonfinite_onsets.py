"""Onsets of NaN and infinities are rows for SQL queries, exactly once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select, text

from tests.server.store.conftest import batch
from tocsin_server.core.models import Column, RecordBatch, Writer
from tocsin_server.store import nonfinite_onsets
from tocsin_server.store.database import Database
from tocsin_server.store.nonfinite_onsets import NonfiniteTracker, Onset, Recovered
from tocsin_server.store.tables import latest, nonfinite_onset
from tocsin_server.store.writer import StoreWriter

NAN, INF = math.nan, math.inf
WHO = Writer("r1", 0, 1, 0)


def onsets_of(database: Database) -> list[Any]:
    with database.reader.connect() as connection:
        columns = (nonfinite_onset.c.step, nonfinite_onset.c.kind, nonfinite_onset.c.end_step)
        return list(
            connection.execute(select(*columns).order_by(nonfinite_onset.c.col_id, nonfinite_onset.c.seq))
        )


def test_onsets_are_rows_with_their_end(database: Database, admit: Any, put: Any) -> None:
    """Each range without finite values is one row, also across batches; an open range has no end."""
    who = admit().writer
    put(batch(who, 0, [0, 1, 2], loss=[1, NAN, INF]))
    put(batch(who, 3, [3, 4, 5], loss=[NAN, 2, -INF], val=([1, 2], [NAN, 3.0])))
    put(batch(who, 6, [6], loss=[-INF]))
    assert onsets_of(database) == [(1, "nan", 4), (5, "-inf", None), (4, "nan", 5)]


def test_a_restarted_writer_continues_the_open_onset(database: Database, admit: Any, put: Any) -> None:
    """A new process reads the open onsets: none is stored twice, and its end is found."""
    who = admit().writer
    put(batch(who, 0, [0, 1], loss=[NAN, NAN]))
    again = StoreWriter(database)
    again.start()
    for one in (batch(who, 2, [2], loss=[NAN]), batch(who, 3, [3], loss=[1.0])):
        again.submit(faults_intake(one))
    again.stop(30.0)
    assert onsets_of(database) == [(0, "nan", 3)]


def faults_intake(one: RecordBatch) -> Any:
    from tocsin_server.core.models import WriteBatch

    return WriteBatch(one.run_id, batch=one)


def test_a_resend_stores_no_onset_twice(database: Database, admit: Any, put: Any) -> None:
    """Records that are already durable start no onset."""
    who = admit().writer
    for _ in range(2):
        put(batch(who, 0, [0, 1, 2], loss=[1, INF, 1]))
    assert onsets_of(database) == [(1, "+inf", 2)]


def test_what_a_person_asks_in_sql(database: Database, admit: Any, put: Any, store: StoreWriter) -> None:
    """First onsets by name and the newest values are plain columns, as docs/internals/storage.md shows."""
    put(batch(admit().writer, 0, [7, 8], loss=[NAN, 0.25], lr=[0.1, 0.1]))
    store.stop(30.0)
    query = """
        SELECT metric.name, nonfinite_onset.step, nonfinite_onset.kind FROM nonfinite_onset
        JOIN metric ON metric.run_id = nonfinite_onset.run_id AND metric.col_id = nonfinite_onset.col_id
        WHERE nonfinite_onset.run_id = 'r1' ORDER BY nonfinite_onset.step
    """
    with database.reader.connect() as connection:
        assert connection.execute(text(query)).all() == [("loss", 7, "nan")]
        newest = connection.execute(select(latest.c.step, latest.c.value).order_by(latest.c.col_id))
        assert newest.all() == [(8, 0.25), (8, 0.1)]


@given(st.lists(st.lists(st.sampled_from([1.0, NAN, INF, -INF]), min_size=1, max_size=200), max_size=6))
def test_onsets_are_where_finite_ends(parts: list[list[float]]) -> None:
    """However values are split into batches, onsets and ends are those of the whole series."""
    book, found, seq = NonfiniteTracker(), [], 0
    for part in parts:
        steps = np.arange(seq, seq + len(part))
        column = Column(np.array(part))
        found += book.take(RecordBatch(WHO, seq, seq, len(part), steps, steps, {}), 16, column)
        seq += len(part)
    bad = [False, *(not math.isfinite(value) for part in parts for value in part)]
    edges = [i - 1 for i in range(1, len(bad)) if bad[i] != bad[i - 1]]
    assert [one.seq for one in found if isinstance(one, Onset)] == edges[0::2]
    assert [one.end_seq for one in found if isinstance(one, Recovered)] == edges[1::2]


def test_onsets_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first ones of a series are stored; later ones are only counted."""
    monkeypatch.setattr(nonfinite_onsets, "MOST_OF_SERIES", 3)
    book, values = NonfiniteTracker(), np.tile([NAN, 1.0], 10)
    steps = np.arange(len(values))
    found = book.take(RecordBatch(WHO, 0, 0, len(values), steps, steps, {}), 16, Column(values))
    assert [one.seq for one in found if isinstance(one, Onset)] == [0, 2, 4]
    assert (book.total, book.open) == (3, {})
