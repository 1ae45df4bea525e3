"""No spike or non-finite value is lost at any zoom, and the cost depends on the number of pixels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.server.store.conftest import batch, hello, sealed
from tocsin_server.core.models import RecordBatch, WriteBatch, Writer
from tocsin_server.store import chunks, pyramid
from tocsin_server.store.chunks import RECORDS
from tocsin_server.store.database import Database, migrate, open_database
from tocsin_server.store.reader import StoreReader
from tocsin_server.store.registration import register
from tocsin_server.store.results import SeriesLayer
from tocsin_server.store.writer import StoreWriter

N = 40_000
SPIKE = 1e6


def loss_with_faults(places: list[int], steps: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a smooth loss with three one-step spikes, two NaN and one +Inf at the given steps."""
    loss = np.random.default_rng(3).normal(1.0, 0.05, len(steps))
    for place, fault in zip(places, [SPIKE, SPIKE, SPIKE, np.nan, np.nan, np.inf], strict=True):
        loss[steps == place] = fault
    return loss


def covers(layer: SeriesLayer, place: int, fault: float) -> bool:
    """Return whether the layer shows the value in an item that contains its step."""
    here = (layer.x <= place) & (layer.x1 >= place)
    if np.isnan(fault):
        return bool((layer.nan[here] > 0).any())
    if np.isinf(fault):
        return bool((layer.pinf[here] > 0).any())
    top = layer.first if layer.max is None else layer.max
    return bool((top[here] == fault).any())


def cut(who: Writer, steps: np.ndarray[Any, Any], loss: np.ndarray[Any, Any], size: int) -> list[RecordBatch]:
    """Return the run as the batches of a client."""
    return [
        batch(who, i, steps[i : i + size].tolist(), loss=loss[i : i + size])
        for i in range(0, len(steps), size)
    ]


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def room(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One store for the many runs of a property test, on either database."""
    url = f"sqlite:///{tmp_path_factory.mktemp('store') / 'tocsin.db'}"
    if request.param == "postgresql":
        url = request.getfixturevalue("own_postgres").migrated_database()
    migrate(url)
    database = open_database(url)
    store = StoreWriter(database, interval_s=0.005)
    store.start()
    yield database, store
    store.stop(10)
    database.close()


FAULTS = [SPIKE, SPIKE, SPIKE, np.nan, np.nan, np.inf]
_runs = iter(range(10**6))


class Growing:
    """A run whose records arrive while it is read."""

    def __init__(self, room: Any, steps: np.ndarray[Any, Any], places: list[int]) -> None:
        self.database, self._store = room
        self.run, self.steps, self.places = f"run{next(_runs)}", steps, places
        who = self._store.call(lambda c: register(c, hello(self.run), 1)).result(30).writer
        self._batches = iter(cut(who, steps, loss_with_faults(places, steps), 500))
        self._reader = StoreReader(self.database)
        self.there = 0

    def grow(self, upto: int, *, wait: bool) -> None:
        """Submit records up to ``upto``; with ``wait``, wait until they are stored and sealed."""
        for _ in range(self.there, upto, 500):
            self._store.submit(WriteBatch(self.run, batch=next(self._batches)))
        if wait:
            self._store.call(lambda c: None).result(60)
            sealed(self.database, upto // RECORDS, self.run)
        self.there = upto

    def stored(self) -> int:
        """Return the number of durable records."""
        stored_run = self._reader.run(self.run)
        return sum(w.records for w in stored_run.writers) if stored_run else 0

    def shows_all(
        self, there: int, window: tuple[int, int] | None, buckets: int, log_from: int | None = None
    ) -> int:
        """Check that every fault among the first ``there`` records is in the response for ``window``; return
        how many."""
        low, high = window or (None, None)
        answer = self._reader.series(
            self.run, ["loss"], start=low, stop=high, buckets=buckets, log_from=log_from
        )
        known, shown = set(self.steps[:there].tolist()), 0
        for place, fault in zip(self.places, FAULTS, strict=True):
            if place in known and (low is None or high is None or low <= place <= high):
                assert any(covers(layer, place, fault) for layer in answer.series["loss"]), (place, window)
                shown += 1
        return shown


def steps_in(order: str) -> np.ndarray[Any, Any]:
    """Return 40,000 steps: in order, in swapped blocks, or with every two neighbors swapped."""
    steps = np.arange(N)
    if order == "shuffled":
        return steps.reshape(-1, 250)[np.random.default_rng(1).permutation(N // 250)].ravel()
    if order == "swapped":
        return steps.reshape(-1, 2)[:, ::-1].ravel()
    return steps


def zooms(places: list[int]) -> list[tuple[int, int] | None]:
    """Return the default view, repeated halves at both ends, and windows of every size around each fault."""
    halves = [(k * N >> depth, (k + 1) * N >> depth) for depth in range(1, 9) for k in (0, (1 << depth) - 1)]
    return [None, *halves, *((max(p - w, 0), p + w) for p in places for w in (0, 30, 1500, 9000))]


@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    places=st.lists(st.integers(0, N - 1), min_size=6, max_size=6, unique=True),
    buckets=st.sampled_from([50, 300, 2000]),
    order=st.sampled_from(["ascending", "shuffled", "swapped"]),
)
def test_six_of_six_faults_at_every_zoom(room: Any, places: list[int], buckets: int, order: str) -> None:
    """Wherever they are, all six faults are in the default view and at every zoom.

    Read while records arrive and are sealed, and at the end, with steps in order and not.
    """
    run, windows = Growing(room, steps_in(order), places), zooms(places)
    run.grow(N // 2, wait=True)
    run.grow(N, wait=False)
    while (there := run.stored()) < N:
        for window in (None, windows[there // 500 % len(windows)]):
            run.shows_all(there, window, buckets)
    run.grow(N, wait=True)
    shown = [run.shows_all(N, window, buckets) for window in windows]
    assert shown == [run.shows_all(N, window, buckets, 0) for window in windows]
    assert shown[0] == len(FAULTS)
    assert min(shown[-4 * len(FAULTS) :]) >= 1  # at least the windows around each fault contain it


ODD_BITS = [0x7FF8000000000000, 0x7FF8DEADBEEF0001, 0xFFF8000000000001, 0x7FF0000000000000,
            0xFFF0000000000000, 0x8000000000000000, 0x1, 0x3FF0000000000001]  # fmt: skip


@pytest.mark.parametrize("n", [100, RECORDS + 100])
def test_series_are_exact_to_the_bit(database: Database, admit: Any, put: Any, n: int) -> None:
    """A chart of few records is exact: NaN payloads, infinities, -0.0, sealed or not, on both axes."""
    who = admit().writer
    loss = np.resize(np.array(ODD_BITS, dtype=np.uint64), n).view(np.float64)
    put(*cut(who, np.arange(n), loss, 64))
    sealed(database, n // RECORDS)
    for x in ("step", "time"):
        (layer,) = StoreReader(database).series("r1", ["loss"], buckets=8192, x=x).series["loss"]
        assert layer.exact
        assert layer.first.view(np.uint64).tolist() == loss.view(np.uint64).tolist()


def test_a_small_window_is_exact(database: Database, admit: Any, put: Any) -> None:
    """A window with no more records than buckets returns each of them, in order of step."""
    who = admit().writer
    steps = np.arange(12_000)
    put(*cut(who, steps, steps / 7, 500))
    sealed(database, 2)
    answer = StoreReader(database).series("r1", ["loss"], start=8000, stop=8500, buckets=2000)
    (layer,) = answer.series["loss"]
    assert (answer.level, layer.exact) == (0, True)
    assert layer.x.tolist() == list(range(8000, 8501))
    assert layer.first.tolist() == [step / 7 for step in range(8000, 8501)]


def test_a_log_axis_has_fine_buckets_in_each_decade(database: Database, admit: Any, put: Any) -> None:
    """The first hundred steps are exact, and each later decade has some dozen buckets; no value is lost."""
    who = admit().writer
    steps = np.arange(60_000)
    put(*cut(who, steps, steps / 7, 500))
    sealed(database, 14)
    answer = StoreReader(database).series("r1", ["loss"], buckets=400, log_from=0)
    (layer,) = answer.series["loss"]
    assert layer.x[:60].tolist() == list(range(60))
    assert all(np.count_nonzero((layer.x >= 10**k) & (layer.x < 10 ** (k + 1))) > 40 for k in (2, 3))
    assert layer.n.sum() == len(steps)
    assert len(layer.x) < 800


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
    """A metric at every thousandth step is returned value by value, whatever the run's length."""
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


def test_deltas_continue_from_the_cursor(database: Database, admit: Any, put: Any) -> None:
    """What was stored after a response is returned once, exactly, whether or not it has been sealed."""
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


@pytest.fixture
def bytes_read(room: Any) -> Callable[[Callable[[], Any]], tuple[Any, int]]:
    """Return the result of a function, and how many bytes the database read for it."""
    sqlite = room[0].dialect == "sqlite"
    if sqlite and not Path("/proc/self/io").exists():
        pytest.skip("counts bytes as Linux reports them")
    return of_files if sqlite else of_bodies


def of_files(work: Callable[[], Any]) -> tuple[Any, int]:
    """Measure bytes that this process reads from files: SQLite reads in this process."""

    def so_far() -> int:
        return int(Path("/proc/self/io").read_text().splitlines()[0].removeprefix("rchar: "))

    before = so_far()
    answer = work()
    return answer, so_far() - before


def of_bodies(work: Callable[[], Any]) -> tuple[Any, int]:
    """Measure the bytes of every decompressed body: Postgres reads in separate processes."""
    total = 0
    expand = chunks.expand

    def counting(body: bytes) -> bytes:
        nonlocal total
        total += len(body)
        return expand(body)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "expand", counting)
        patch.setattr(pyramid, "expand", counting)
        answer = work()
    return answer, total


def test_the_default_view_opens_no_chunk(room: Any, bytes_read: Any) -> None:
    """A whole run at 300 buckets reads the pyramid: a small fraction of the bytes of its records."""
    database, store = room
    who = store.call(lambda c: register(c, hello("long"), 1)).result(30).writer
    steps = np.arange(40 * RECORDS)
    for one in cut(who, steps, np.random.default_rng(0).normal(size=len(steps)), RECORDS):
        store.submit(WriteBatch("long", batch=one))
    store.call(lambda c: None).result(60)
    sealed(database, 40, "long")
    fresh = open_database(database.url)
    reader = StoreReader(fresh)
    reader.runs()
    answer, read = bytes_read(lambda: reader.series("long", ["loss"], buckets=300))
    fresh.close()
    assert answer.level == 1024
    assert 0 < read < len(steps) * 8 / 10


def test_an_unknown_name_has_no_layers(database: Database, admit: Any) -> None:
    """A request for an unknown name is not an error."""
    admit()
    assert StoreReader(database).series("r1", ["nope"]).series == {"nope": []}
