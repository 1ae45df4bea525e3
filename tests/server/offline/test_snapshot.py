"""An incident snapshot as a document, restored exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.server.store.whole_run import NASTY
from tocsin_server.core.models import Column, RecordBatch, RunEvent, RunState, Writer
from tocsin_server.offline.snapshot import (
    IncidentSnapshotError,
    Window,
    document,
    is_incident_snapshot,
    read,
    window_of,
)
from tocsin_server.store.results import StoredRun

STORED = StoredRun(
    "r", "p", "n", RunState.FAILED, 0, 0, None, None, 100, 2, "h", "", [], {"lr": float("inf")},
    {"scalers": [{"init_scale": 4.0}], "imported": {}}, None, None, False, 1,
)  # fmt: skip
WINDOW = Window(5, -195, 205)


def batch_of(values: list[float], at: list[int] | None = None) -> RecordBatch:
    """Return records 7, 8, ... of writer 2 with the series ``a "name"``."""
    n = len(values) if at is None else max(at) + 1
    rows = None if at is None else np.array(at, dtype=np.uint32)
    steps = np.arange(n, dtype=np.int64) - 1
    column = Column(np.array(values), rows)
    return RecordBatch(Writer("r", 2, 3, 1), 9, 7, n, steps, steps + 2**60, {'a "name"': column})


def through(*batches: RecordBatch, events: tuple[RunEvent, ...] = ()) -> Any:
    return read(document(STORED, [], WINDOW, True, batches, events))


@given(st.lists(st.floats(width=64) | st.sampled_from(NASTY), min_size=1, max_size=20), st.booleans())
def test_every_value_comes_back(values: list[float], sparse: bool) -> None:
    """NaN, the sign of zero, denormals; dense and at some rows."""
    reported = batch_of(values, [2 * row for row in range(len(values))] if sparse else None)
    (back,) = through(reported).items
    assert (back.writer, back.arrival, back.seq, back.n) == (reported.writer, 9, 7, reported.n)
    assert back.time_ns.tolist() == reported.time_ns.tolist()
    column, before = back.columns['a "name"'], reported.columns['a "name"']
    assert repr(column.v.tolist()) == repr(before.v.tolist())
    assert (column.at is None) == (before.at is None)


def test_what_happened_comes_back_in_order_of_arrival() -> None:
    """Events between batches, and the run's environment."""
    event = RunEvent(Writer("r", 2, 3, 1), 4, 0, "attached", 1, None, {"clip": 1.0})
    snapshot = through(batch_of([1.0]), events=(event,))
    assert [type(item).__name__ for item in snapshot.items] == ["RunEvent", "RecordBatch"]
    assert snapshot.items[0] == event
    assert (snapshot.window, snapshot.whole) == (WINDOW, True)
    assert snapshot.run["environment"] == {"scalers": [{"init_scale": 4.0}]}


@pytest.mark.parametrize(("steps", "records", "reach"), [(999, 1000, 200), (0, 1, 200), (99_900, 1000, 6000)])
def test_sparse_runs_have_wider_windows(steps: int, records: int, reach: int) -> None:
    """A window has at least 200 steps and about 60 records."""
    assert window_of(5000, steps, records) == Window(5000, 5000 - reach, 5000 + reach)


@pytest.mark.parametrize(
    "text",
    [
        b'{"tocsin_snapshot":2}',
        b'{"tocsin_snapshot":1}',
        b'{"tocsin_snapshot":1,"run":{"id":1},"window":{},"alerts":[],"events":[],"batches":[7]}',
        b'{"tocsin_snapshot"',
    ],
)
def test_invalid_documents_are_rejected(text: bytes) -> None:
    """Documents of another version, truncated ones and other structures are rejected."""
    assert is_incident_snapshot(text)
    with pytest.raises(IncidentSnapshotError, match=r"incident snapshot (has version|\()"):
        read(text)
