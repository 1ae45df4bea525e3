"""The test of truth: no fault is lost at any zoom, and the cost follows the pixels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.server.store.conftest import batch, hello, sealed
from tocsin_server.domain import Intake, RecordBatch, Writer
from tocsin_server.store.answers import SeriesLayer
from tocsin_server.store.chunks import RECORDS
from tocsin_server.store.database import Database, migrate, open_database
from tocsin_server.store.reader import StoreReader
from tocsin_server.store.registry import register
from tocsin_server.store.writer import StoreWriter

N = 40_000
SPIKE = 1e6


def loss_with_faults(places: list[int], steps: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A quiet loss with three one-step spikes, two NaN and one +Inf at the given steps."""
    loss = np.random.default_rng(3).normal(1.0, 0.05, len(steps))
    for place, fault in zip(places, [SPIKE, SPIKE, SPIKE, np.nan, np.nan, np.inf], strict=True):
        loss[steps == place] = fault
    return loss


def covers(layer: SeriesLayer, place: int, fault: float) -> bool:
    """Whether the layer shows the fault in an item that holds its step."""
    here = (layer.x <= place) & (layer.x1 >= place)
    if np.isnan(fault):
        return bool((layer.nan[here] > 0).any())
    if np.isinf(fault):
        return bool((layer.pinf[here] > 0).any())
    top = layer.first if layer.max is None else layer.max
    return bool((top[here] == fault).any())


def cut(who: Writer, steps: np.ndarray[Any, Any], loss: np.ndarray[Any, Any], size: int) -> list[RecordBatch]:
    """The run as the batches of a trainer."""
    return [
        batch(who, i, steps[i : i + size].tolist(), loss=loss[i : i + size])
        for i in range(0, len(steps), size)
    ]


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One SQLite store for the many runs of a property test."""
    url = f"sqlite:///{tmp_path_factory.mktemp('store') / 'tocsin.db'}"
    migrate(url)
    database = open_database(url)
    store = StoreWriter(database, interval_s=0.005)
    store.start()
    yield database, store
    store.stop(10)
    database.close()


def stored_run(room: Any, run: str, steps: np.ndarray[Any, Any], places: list[int], upto: int) -> None:
    database, store = room
    who = store.call(lambda c: register(c, hello(run), 1)).result(30).writer
    for one in cut(who, steps, loss_with_faults(places, steps), 500)[: upto // 500]:
        store.submit(Intake(run, batch=one))
    store.call(lambda c: None).result(60)
    sealed(database, upto // RECORDS, run)


FAULTS = [SPIKE, SPIKE, SPIKE, np.nan, np.nan, np.inf]
_runs = iter(range(10**6))


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    places=st.lists(st.integers(0, N - 1), min_size=6, max_size=6, unique=True),
    windows=st.lists(st.tuples(st.integers(0, N), st.integers(0, N)), min_size=4, max_size=4),
    buckets=st.sampled_from([50, 300, 2000]),
    shuffled=st.booleans(),
)
def test_six_of_six_faults_at_every_zoom(
    room: Any, places: list[int], windows: list[tuple[int, int]], buckets: int, shuffled: bool
) -> None:
    """Wherever they lie, all six faults show in the default view and in every window that holds them.

    Asked while the run grows (half of it there) and when it is whole, with steps in order and not.
    """
    steps = np.arange(N)
    if shuffled:
        steps = steps.reshape(-1, 250)[np.random.default_rng(1).permutation(N // 250)].ravel()
    run = f"run{next(_runs)}"
    reader = StoreReader(room[0])
    for upto in (N // 2, N):
        stored_run(room, run, steps, places, upto)
        there = [(p, f) for p, f in zip(places, FAULTS, strict=True) if p in steps[:upto]]
        for low, high in [(None, None), *((min(w), max(w)) for w in windows)]:
            answer = reader.series(run, ["loss"], start=low, stop=high, buckets=buckets)
            for place, fault in there:
                if low is None or high is None or low <= place <= high:
                    assert any(covers(layer, place, fault) for layer in answer.series["loss"])


def test_a_small_window_is_exact(database: Database, admit: Any, put: Any) -> None:
    """A window that holds no more records than buckets gives each of them, in order of step."""
    who = admit().writer
    steps = np.arange(12_000)
    put(*cut(who, steps, steps / 7, 500))
    sealed(database, 2)
    answer = StoreReader(database).series("r1", ["loss"], start=8000, stop=8500, buckets=2000)
    (layer,) = answer.series["loss"]
    assert (answer.level, layer.exact) == (0, True)
    assert layer.x.tolist() == list(range(8000, 8501))
    assert layer.first.tolist() == [step / 7 for step in range(8000, 8501)]


def test_attempts_and_ranks_are_layers(database: Database, admit: Any, put: Any) -> None:
    """Replayed steps are kept: the newest attempt comes first, then by rank; nothing is replaced."""
    for attempt, first, rank in (("a1", 0, 0), ("a2", 50, 0), ("a2", 50, 1)):
        who = admit(attempt=attempt, rank=rank, world_size=2).writer
        put(batch(who, 0, list(range(first, 100)), loss=[float(rank)] * (100 - first)))
    layers = StoreReader(database).series("r1", ["loss"]).series["loss"]
    assert [(layer.attempt, layer.rank, len(layer.x)) for layer in layers] == [
        (2, 0, 50),
        (2, 1, 50),
        (1, 0, 100),
    ]


def test_a_scarce_series_is_exact_in_a_long_run(database: Database, admit: Any, put: Any) -> None:
    """A metric measured every thousandth step is given value by value, whatever the run's length."""
    who = admit().writer
    for i in range(0, 40_000, 500):
        rows = [0] if i % 1000 == 0 else []
        put(batch(who, i, list(range(i, i + 500)), loss=np.ones(500), val=(rows, [float(i)] * len(rows))))
    sealed(database, 9)
    answer = StoreReader(database).series("r1", ["loss", "val"], buckets=100)
    (val,) = answer.series["val"]
    assert val.exact
    assert val.first.tolist() == [float(i) for i in range(0, 40_000, 1000)]
    assert not answer.series["loss"][0].exact


def test_time_is_an_axis_too(database: Database, admit: Any, put: Any) -> None:
    """With x=time, window and x are Unix ms."""
    who = admit().writer
    put(batch(who, 0, [5, 6, 7], loss=[1, 2, 3]))
    answer = StoreReader(database).series("r1", ["loss"], start=1e12 + 6, x="time")
    assert answer.series["loss"][0].x.tolist() == [1e12 + 6, 1e12 + 7]


def test_deltas_go_on_from_the_cursor(database: Database, admit: Any, put: Any) -> None:
    """What came after an answer is given once, exactly, sealed meanwhile or not."""
    reader = StoreReader(database)
    who = admit().writer
    steps = np.arange(2 * RECORDS)
    sent = cut(who, steps, steps * 0.5, 100)
    put(*sent[:30])
    cursor = reader.series("r1", ["loss"]).cursor
    put(*sent[30:])
    sealed(database, 1)
    delta = reader.since("r1", ["loss"], cursor)
    assert delta is not None
    assert delta.series["loss"][0].x.tolist() == list(range(3000, 2 * RECORDS))
    empty = reader.since("r1", ["loss"], delta.cursor)
    assert empty is not None
    assert empty.series["loss"] == []


def _bytes_read() -> int:
    """Bytes that this process has asked files for so far."""
    told = Path("/proc/self/io").read_text().splitlines()[0]
    return int(told.removeprefix("rchar: "))


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="counts bytes as Linux tells them")
def test_the_default_view_opens_no_chunk(room: Any) -> None:
    """A whole run at 300 buckets reads the pyramid: a small part of the bytes that its records take."""
    database, store = room
    who = store.call(lambda c: register(c, hello("long"), 1)).result(30).writer
    steps = np.arange(40 * RECORDS)
    for one in cut(who, steps, np.random.default_rng(0).normal(size=len(steps)), RECORDS):
        store.submit(Intake("long", batch=one))
    store.call(lambda c: None).result(60)
    sealed(database, 40, "long")
    fresh = open_database(database.url)
    reader = StoreReader(fresh)
    reader.runs()
    before = _bytes_read()
    answer = reader.series("long", ["loss"], buckets=300)
    read = _bytes_read() - before
    fresh.close()
    assert answer.level == 1024
    assert read < len(steps) * 8 / 10


def test_an_unknown_name_has_no_layers(database: Database, admit: Any) -> None:
    """Asking for what is not there is no error."""
    admit()
    assert StoreReader(database).series("r1", ["nope"]).series == {"nope": []}
