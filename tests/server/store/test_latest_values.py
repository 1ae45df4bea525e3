"""Newest values are written once per second, and a failed transaction loses none."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from sqlalchemy import select

from tests.server.store.conftest import batch
from tocsin_server.core.models import Writer
from tocsin_server.store.database import Database
from tocsin_server.store.deletion_jobs import finish, mark_on, mark_runs, on_writer
from tocsin_server.store.latest_values import EVERY_S, Latest
from tocsin_server.store.tables import latest
from tocsin_server.store.writer import StoreWriter

WHO = Writer("r1", 0, 1, 0)
NUMBERS = {"loss": 16, "val": 17}


def test_the_last_value_of_each_series_waits() -> None:
    """A later batch replaces pending values; a series that some records lack keeps its own step."""
    waiting = Latest()
    waiting.take(batch(WHO, 0, [0, 1, 2], loss=[1, 2, 3], val=([1], [9.0])), NUMBERS, 10.0)
    waiting.take(batch(WHO, 3, [3], loss=[4]), NUMBERS, 10.5)
    assert waiting.due == 10.0 + EVERY_S
    assert [(row["seq"], row["step"], row["value"]) for row in waiting.begin()] == [(3, 3, 4.0), (1, 1, 9.0)]
    assert waiting.due == math.inf


def test_a_deleted_run_is_forgotten() -> None:
    """Its values are not written into a new run with the same id; those of others stay pending."""
    waiting = Latest()
    waiting.take(batch(WHO, 0, [0], loss=[1]), NUMBERS, 0.0)
    waiting.take(batch(Writer("r2", 0, 1, 0), 0, [0], loss=[2]), NUMBERS, 0.0)
    waiting.forget("r1")
    assert [row["run_id"] for row in waiting.begin()] == ["r2"]
    waiting.take(batch(WHO, 0, [0], loss=[1]), NUMBERS, 5.0)
    waiting.forget("r1")
    assert waiting.due == math.inf


def test_a_recreated_run_has_no_values_of_the_deleted_one(
    database: Database, store: StoreWriter, admit: Any, put: Any
) -> None:
    """A run is deleted and created again within the second in which its newest values are pending."""
    put(batch(admit().writer, 0, [0], loss=[7.0], lr=[0.1]))
    assert mark_on(store, partial(mark_runs, run_ids=["r1"], now_ns=1, actor="test")).result(30)
    finish(on_writer(store), ["r1"])
    put(batch(admit().writer, 0, [0], val=[1.0]))
    store.stop(30.0)
    with database.reader.connect() as connection:
        assert [tuple(row) for row in connection.execute(select(latest.c.value))] == [(1.0,)]


def test_a_rollback_queues_them_again() -> None:
    """Uncommitted values are written again, unless there are newer ones."""
    waiting = Latest()
    waiting.take(batch(WHO, 0, [0], loss=[1], val=[5]), NUMBERS, 0.0)
    waiting.begin()
    waiting.take(batch(WHO, 1, [1], loss=[2]), NUMBERS, 1.0)
    waiting.rolled_back(2.0)
    assert sorted(row["value"] for row in waiting.begin()) == [2.0, 5.0]
    waiting.committed()
    waiting.rolled_back(3.0)
    assert waiting.begin() == []
