"""The writer commits in groups, applies each record once, and reports it only after the commit."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from sqlalchemy import event, func, select

from tests.server.store.conftest import batch
from tocsin_server.core.models import RunEvent, WriteBatch
from tocsin_server.store.database import Database
from tocsin_server.store.tables import event as event_table
from tocsin_server.store.tables import project, run, tail, writer
from tocsin_server.store.writer import StoreWriter

pytestmark = pytest.mark.both_databases  # SQL and locking differ


def stored(database: Database, *columns: Any) -> list[Any]:
    """Return rows of the given columns, in key order."""
    with database.reader.connect() as connection:
        return list(connection.execute(select(*columns).order_by(columns[0])))


def test_done_is_called_after_the_commit(database: Database, store: StoreWriter, admit: Any) -> None:
    """When `done` is called, another connection already sees the batch."""
    who = admit().writer
    seen: list[int] = []
    ended = threading.Event()

    def done() -> None:
        seen.append(len(stored(database, tail.c.seq)))
        ended.set()

    store.submit(WriteBatch("r1", batch=batch(who, 0, [0, 1], loss=[1.0, 2.0]), done=done))
    assert ended.wait(30)
    assert seen == [1]


def test_a_resend_is_applied_once(database: Database, admit: Any, put: Any) -> None:
    """A resent batch, whole or overlapping, adds only the new records."""
    who = admit().writer
    put(batch(who, 0, [0, 1], loss=[1, 2]))
    put(batch(who, 0, [0, 1], loss=[1, 2]), batch(who, 1, [1, 2, 3], loss=[2, 3, 4]))
    assert stored(database, tail.c.seq, tail.c.n) == [(0, 2), (2, 2)]


def test_a_reconnect_gets_the_durable_numbers(admit: Any, put: Any) -> None:
    """Another hello of the same process gives the same writer, with its last numbers and series."""
    who = admit().writer
    put(batch(who, 0, [0, 1, 2], loss=[1, 2, 3], lr=([1], [0.1])))
    again = admit()
    assert (again.writer, again.run_is_new, again.last_seq) == (who, False, 2)
    assert set(again.series) == {"loss", "lr"}


def test_refused_records_count_as_dealt_with(database: Database, store: StoreWriter, admit: Any) -> None:
    """Numbers that were rejected are durable, so that the client does not send them again."""
    who = admit().writer
    store.submit(WriteBatch("r1", rejected_to_seq=(who, 9)))
    assert admit().last_seq == 9
    assert stored(database, writer.c.handled_seq) == [(9,)]


def test_events_are_numbered_by_writer(database: Database, store: StoreWriter, admit: Any) -> None:
    """An event that is sent twice is stored once; NaN in its data survives."""
    who = admit().writer
    reported = RunEvent(who, 1, 0, "scaler", 5, 3, {"from": float("inf"), "to": float("nan")})
    store.submit(WriteBatch("r1", event=reported))
    store.submit(WriteBatch("r1", event=reported))
    assert admit().last_event == 0
    assert stored(database, event_table.c.data) == [({"from": "Infinity", "to": "NaN"},)]


def test_run_changes_reach_the_run_row(database: Database, store: StoreWriter, admit: Any) -> None:
    """State, end and error of a run are ordinary columns."""
    admit()
    store.submit(WriteBatch("r1", changes={"state": "failed", "ended_ns": 7, "error": {"type": "OOM"}}))
    store.call(lambda connection: None).result(30)
    assert stored(database, run.c.state, run.c.ended_ns, run.c.error) == [("failed", 7, {"type": "OOM"})]


def test_a_run_is_never_seen_earlier_than_before(database: Database, store: StoreWriter, admit: Any) -> None:
    """A late change keeps the later time; a newer one advances it."""
    admit(now_ns=50)
    for reported in (40, 60, 55):
        store.submit(WriteBatch("r1", changes={"last_seen_ns": reported}))
        store.call(lambda connection: None).result(30)
    assert stored(database, run.c.last_seen_ns) == [(60,)]


def test_an_impossible_intake_does_not_hold_up_the_others(
    database: Database, store: StoreWriter, admit: Any, put: Any
) -> None:
    """A batch that can never be stored is dropped, counted and answered, or its client would wait
    indefinitely."""
    who = admit().writer
    written: list[str] = []
    store.submit(WriteBatch("r1", changes={"colour": "red"}, done=lambda: written.append("red")))
    put(batch(who, 0, [0], loss=[1.0]))
    assert (store.rejected_batches, written) == (1, ["red"])
    assert stored(database, tail.c.seq) == [(0,)]
    assert store.backlog_bytes == 0


def test_a_flood_is_committed_in_pieces(
    database: Database, store: StoreWriter, admit: Any, eventually: Any
) -> None:
    """Waiting data is not one huge transaction; a call still runs after everything submitted before it."""
    who, begun, gate, done = admit().writer, threading.Event(), threading.Event(), []
    inserted: list[int] = []

    @event.listens_for(database.engine, "before_cursor_execute")
    def count(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        inserted.extend([1] * statement.startswith("INSERT INTO tail"))

    def hold(_connection: Any) -> bool:
        begun.set()
        return gate.wait(60)

    held = store.call(hold)
    assert begun.wait(60)
    size = 30_000
    for seq in range(0, 6 * size, size):
        one = batch(who, seq, list(range(seq, seq + size)), seq, loss=np.ones(size))
        store.submit(WriteBatch("r1", batch=one, done=lambda: done.append(1)))
    gate.set()
    held.result(60)
    eventually(lambda: len(done) == 6, "all to be durable")
    assert 2 <= len(inserted) <= 3
    store.submit(WriteBatch("r1", batch=batch(who, 6 * size, [7], 6 * size, loss=[1.0])))
    numbers = select(func.max(tail.c.seq))
    assert store.call(lambda connection: connection.execute(numbers).scalar()).result(60) == 6 * size


def test_many_calls_do_not_hold_up_a_batch(store: StoreWriter, admit: Any) -> None:
    """Two hundred clients register at once: the first one is acked before the last one is registered."""
    who, begun, durable = admit().writer, threading.Event(), threading.Event()

    def registering(_connection: Any) -> bool:
        begun.set()
        durable.wait(0.02)  # as long as a registration takes
        return durable.is_set()

    calls = [store.call(registering) for _ in range(200)]
    assert begun.wait(30)
    store.submit(WriteBatch("r1", batch=batch(who, 0, [0], loss=[1.0]), done=durable.set))
    answers = [call.result(60) for call in calls]
    assert answers == sorted(answers)  # in the order of the requests
    assert answers[-1]


def test_calls_that_share_a_transaction_fail_alone(store: StoreWriter) -> None:
    """One of them fails: its rows are rolled back, and those of the others are committed."""
    held = threading.Event()
    store.call(lambda connection: held.wait(60))  # so that the others wait for each other

    def named(name: str, fails: bool) -> Any:
        def work(connection: Any) -> str:
            connection.execute(project.insert(), {"name": name, "created_ns": 1, "settings": {}})
            return name if not fails else str(1 // 0)

        return store.call(work, together=True)

    calls = [named("a", False), named("b", True), named("c", False)]
    held.set()
    assert [calls[0].result(30), calls[2].result(30)] == ["a", "c"]
    with pytest.raises(ZeroDivisionError):
        calls[1].result(30)
    names = select(project.c.name).order_by(project.c.name)
    assert store.call(lambda connection: connection.execute(names).scalars().all()).result(30) == ["a", "c"]


def test_a_failing_call_reports_to_its_caller(store: StoreWriter) -> None:
    """An exception is set on the future, and the thread continues."""
    with pytest.raises(ZeroDivisionError):
        store.call(lambda connection: 1 // 0).result(30)
    assert (
        store.call(lambda connection: connection.execute(select(func.count(run.c.id))).scalar()).result(30)
        == 0
    )


def test_stop_commits_what_waits(database: Database, admit: Any, store: StoreWriter) -> None:
    """Everything submitted before stop is durable after it, and a later call is rejected."""
    who = admit().writer
    for seq in range(50):
        store.submit(WriteBatch("r1", batch=batch(who, seq, [seq], loss=[0.5])))
    store.stop(30.0)
    assert len(stored(database, tail.c.seq)) == 50
    with pytest.raises(RuntimeError, match="stopped"):
        store.call(lambda connection: None).result(1)
