"""Metrics of many runs are summarized exactly, and again when records arrive."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.server.store.conftest import batch, sealed
from tocsin_server.core.models import RecordBatch
from tocsin_server.store import metric_summaries
from tocsin_server.store.chunks import RECORDS
from tocsin_server.store.database import Database
from tocsin_server.store.metric_summaries import MetricSummary
from tocsin_server.store.reader import StoreReader

Put = Callable[..., None]


def batches(writer: Any, values: Any, size: int = 500) -> list[RecordBatch]:
    """Return batches whose series ``v`` has these values, at steps 0, 1, 2, ..."""
    return [
        batch(writer, i, list(range(i, min(i + size, len(values)))), v=values[i : i + size])
        for i in range(0, len(values), size)
    ]


def test_the_newest_and_the_extreme_values_of_a_series(database: Database, admit: Any, put: Put) -> None:
    put(batch(admit().writer, 0, [5, 6, 7], v=[2.0, -1.5, math.nan], other=[1.0, 1.0, 1.0]))
    found = StoreReader(database).metric_summaries(["r1"], ["v", "none"])["r1"]
    assert list(found) == ["v"]
    assert math.isnan(found["v"].last)
    assert found["v"][1:6] == (7, -1.5, 2.0, 3, 1)


def test_a_series_without_a_finite_value_has_no_extremes(database: Database, admit: Any, put: Put) -> None:
    put(batch(admit().writer, 0, [0, 1], v=[math.inf, -math.inf]))
    found = StoreReader(database).metric_summaries(["r1"], ["v"])["r1"]["v"]
    assert found == MetricSummary(-math.inf, 1, None, None, 2, 2)


def test_sealed_and_unsealed_records_count_once(database: Database, admit: Any, put: Put) -> None:
    """Chunks at two levels of the pyramid, and a tail: the extremes of each are found."""
    values = np.random.default_rng(0).normal(size=18 * RECORDS + 700)
    values[[3, 17 * RECORDS + 5, -2]] = [math.nan, 99.0, -99.0]
    put(*batches(admit().writer, values.tolist(), 4000))
    sealed(database, 18)
    found = StoreReader(database).metric_summaries(["r1"], ["v"])["r1"]["v"]
    assert found == MetricSummary(values[-1], len(values) - 1, -99.0, 99.0, len(values), 1)


@pytest.mark.parametrize("count", [1, 50, 300, 1000])
def test_a_mean_is_that_of_the_newest_values(database: Database, admit: Any, put: Put, count: int) -> None:
    """Over the tail and, of a series that few records have, over several chunks."""
    values = np.random.default_rng(0).normal(size=3 * RECORDS + 100)
    writer, every = admit().writer, 100
    for i in range(0, len(values), 500):
        part = values[i : i + 500]
        rows = list(range(0, len(part), every))
        put(batch(writer, i, list(range(i, i + len(part))), v=part, rare=(rows, part[rows])))
    sealed(database, 3)
    means = {"v": [count], "rare": [count]}
    found = StoreReader(database).metric_summaries(["r1"], ["v", "rare"], means)["r1"]
    assert found["v"].means == {count: values[-count:].mean()}
    assert found["rare"].means == {count: values[::every][-count:].mean()}


def test_a_mean_follows_newer_records_and_longer_ones_are_read(
    database: Database, admit: Any, put: Put
) -> None:
    writer, reader, values = admit().writer, StoreReader(database), np.arange(RECORDS + 300.0)
    for stop in range(1000, len(values), 500):
        put(batch(writer, stop - 500, list(range(stop - 500, stop)), v=values[stop - 500 : stop]))
        for count in (2, 700):
            found = reader.metric_summaries(["r1"], ["v"], {"v": [count]})["r1"]["v"]
            assert found.means == {count: values[max(500, stop - count) : stop].mean()}


def test_a_mean_is_of_the_newest_attempt_and_keeps_nan(database: Database, admit: Any, put: Put) -> None:
    for attempt, value in (("a1", 5.0), ("a2", math.nan)):
        put(batch(admit(attempt=attempt).writer, 0, [0, 1], arrival=ord(attempt[1]), v=[1.0, value]))
    means = StoreReader(database).metric_summaries(["r1"], ["v"], {"v": [1, 9]})["r1"]["v"].means
    assert means is not None
    assert all(map(math.isnan, means.values()))


def test_the_values_that_are_kept_for_means_are_bounded(
    database: Database, admit: Any, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metric_summaries, "MOST_VALUES", 3)
    put(batch(admit().writer, 0, [0, 1], a=[1.0, 2.0], b=[3.0, 4.0]))
    reader = StoreReader(database)
    for _ in range(2):
        found = reader.metric_summaries(["r1"], ["a", "b"], {"a": [2], "b": [2]})["r1"]
        assert {name: one.means for name, one in found.items()} == {"a": {2: 1.5}, "b": {2: 3.5}}
    assert len(reader._summaries._kept) == 1


@pytest.mark.parametrize("first", [10, RECORDS - 3, RECORDS + 10])
def test_later_records_are_added_to_what_is_kept(
    database: Database, admit: Any, put: Put, first: int
) -> None:
    """Also if a part of them was sealed between the two requests."""
    values = np.random.default_rng(first).normal(size=2 * RECORDS + 100).tolist()
    made = batches(admit().writer, values, first)
    reader = StoreReader(database)
    put(made[0])
    assert reader.metric_summaries(["r1"], ["v"])["r1"]["v"].n == first
    put(*made[1:])
    sealed(database, 2)
    found = reader.metric_summaries(["r1"], ["v"])["r1"]["v"]
    assert found == MetricSummary(values[-1], len(values) - 1, min(values), max(values), len(values), 0)


def test_kept_summaries_are_read_on_from_where_they_end(database: Database, admit: Any, put: Put) -> None:
    writer, reader = admit().writer, StoreReader(database)
    for n in range(4):
        put(batch(writer, 2 * n, [2 * n, 2 * n + 1], v=[n, -n]))
        found = reader.metric_summaries(["r1"], ["v"])["r1"]["v"]
        assert found == MetricSummary(-n, 2 * n + 1, -n, n, 2 * n + 2, 0)


def test_the_newest_value_is_that_of_the_newest_attempt_and_lowest_rank(
    database: Database, admit: Any, put: Put
) -> None:
    """The extremes are those of all."""
    for attempt, rank, value in (("a1", 0, 5.0), ("a2", 1, 1.0), ("a2", 0, 3.0)):
        put(batch(admit(attempt=attempt, rank=rank).writer, 0, [rank], arrival=rank + 2, v=[value]))
    found = StoreReader(database).metric_summaries(["r1"], ["v"])["r1"]["v"]
    assert found == MetricSummary(3.0, 0, 1.0, 5.0, 3, 0)


def test_the_kept_summaries_are_bounded(
    database: Database, admit: Any, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond that, they are read again."""
    monkeypatch.setattr(metric_summaries, "MOST_KEPT", 1)
    put(batch(admit().writer, 0, [0], a=[1.0], b=[2.0]))
    reader = StoreReader(database)
    for _ in range(2):
        found = reader.metric_summaries(["r1"], ["a", "b"])["r1"]
        assert {name: one.last for name, one in found.items()} == {"a": 1.0, "b": 2.0}
    assert len(reader._summaries._kept) == 1


def test_names_of_series_are_listed_by_their_number_of_runs(database: Database, admit: Any, put: Put) -> None:
    for run, names in (("r1", ["a", "b"]), ("r2", ["b", "c"])):
        columns: dict[str, Any] = {name: [1.0] for name in names}
        put(batch(admit(run).writer, 0, [0], **columns))
    reader = StoreReader(database)
    assert reader.metric_names(None, 10) == ([("b", 2), ("a", 1), ("c", 1)], False)
    assert reader.metric_names("deblur", 2) == ([("b", 2), ("a", 1)], True)
    assert reader.metric_names("other", 2) == ([], False)
