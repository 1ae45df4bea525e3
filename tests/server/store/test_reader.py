"""Runs, events, alerts and recovery data are read as they were stored."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from sqlalchemy import func, select

from tests.server.store.conftest import batch, sealed
from tocsin_server.core.models import (
    Alert,
    AlertState,
    Diagnosis,
    Evidence,
    Remedy,
    RunEvent,
    SavedRuleState,
    Severity,
    Transition,
    WriteBatch,
)
from tocsin_server.store.chunks import RECORDS
from tocsin_server.store.database import Database
from tocsin_server.store.deletion_jobs import finish, mark_on, mark_runs, on_writer
from tocsin_server.store.reader import StoreReader
from tocsin_server.store.tables import RUN_TABLES, run
from tocsin_server.store.writer import StoreWriter

DIAGNOSIS = Diagnosis(
    "the scale collapsed",
    (Evidence("scale", 64.0, "", 40), Evidence("grad_norm", math.inf, "", 41)),
    ("bad data",),
    (Remedy("restart with a lower rate", "lr=1e-4"),),
    "the scale grows again",
    ((40, "scale halved", "scaler-collapse"),),
)
ALERT = Alert(
    "r1", "f1", 1, "scaler-collapse", "scale", Severity.CRITICAL, AlertState.FIRING, 40, 400, 400, 41, 410,
    None, None, "Loss scale fell", DIAGNOSIS, {"rank": "0"}, False, 410,
)  # fmt: skip


def write_transitions(store: StoreWriter, *transitions: Transition) -> None:
    """Store transitions and wait until they are durable."""
    store.submit(WriteBatch("r1", transitions=transitions))
    store.call(lambda connection: None).result(30)


def test_an_alert_is_read_back_whole(database: Database, store: StoreWriter, admit: Any) -> None:
    """Every field of an alert, also infinite evidence, and its run."""
    admit()
    write_transitions(store, Transition(ALERT, None, 410))
    reader = StoreReader(database)
    (found,) = reader.alerts("r1")
    assert (found.alert, found.run_name, found.project) == (ALERT, "mdt", "deblur")
    assert reader.alert(ALERT.id) == found
    assert reader.alert("r1.f1.9") is None
    assert reader.alert("nonsense") is None


def test_an_alert_is_one_row_and_its_history_another(
    database: Database, store: StoreWriter, admit: Any
) -> None:
    """The row has the latest state; the history has each first transition once, and no updates."""
    admit()
    over = replace(ALERT, state=AlertState.RESOLVED, resolved_step=90, resolved_ns=900, updated_ns=900)
    again = replace(ALERT, summary="Loss scale fell further", updated_ns=500)
    write_transitions(
        store, Transition(ALERT, None, 410), Transition(again, AlertState.FIRING, 500, first=False)
    )
    write_transitions(store, Transition(ALERT, None, 410), Transition(over, AlertState.FIRING, 900))
    reader = StoreReader(database)
    assert [found.alert for found in reader.alerts("r1", states=["resolved"])] == [over]
    assert reader.alerts("r1", states=["firing"]) == []
    reported = [(step.state, step.previous, step.at_ns) for step in reader.alert_history(ALERT.id)]
    assert reported == [("firing", None, 410), ("resolved", "firing", 900)]


def test_transitions_of_one_commit_are_in_order_of_state(
    database: Database, store: StoreWriter, admit: Any
) -> None:
    """If one batch has the whole episode, all times are equal, and pending is still first."""
    admit()
    waiting = replace(ALERT, state=AlertState.PENDING)
    over = replace(ALERT, state=AlertState.RESOLVED, resolved_step=90, resolved_ns=410)
    write_transitions(
        store, Transition(over, AlertState.FIRING, 410), Transition(ALERT, AlertState.PENDING, 410)
    )
    write_transitions(store, Transition(waiting, None, 410))
    reported = [step.state for step in StoreReader(database).alert_history(ALERT.id)]
    assert reported == ["pending", "firing", "resolved"]


def test_recovery_is_snapshot_and_what_came_after(
    database: Database, store: StoreWriter, admit: Any, put: Any
) -> None:
    """Batches and events after the newest snapshot are returned in order of arrival; it covers the rest."""
    who = admit().writer
    put(batch(who, 0, [0, 1], arrival=0, loss=[1, 2]))
    store.submit(WriteBatch("r1", rule_state=SavedRuleState("r1", 0, b"state")))
    put(batch(who, 2, [2, 3], arrival=2, loss=[math.nan, 4]))
    store.submit(WriteBatch("r1", event=RunEvent(who, 1, 0, "scaler", 5, 3, {"to": 2.0})))
    write_transitions(store, Transition(ALERT, None, 410))
    found = StoreReader(database).recovery("r1")
    assert found.rule_state == SavedRuleState("r1", 0, b"state")
    assert [(type(item).__name__, item.arrival) for item in found.replay] == [
        ("RunEvent", 1),
        ("RecordBatch", 2),
    ]
    assert (found.alerts, found.last_arrival) == ([ALERT], 2)
    assert [item.arrival for item in StoreReader(database).recovery("r1", from_start=True).replay] == [
        0,
        1,
        2,
    ]


def test_events_are_paged_in_order_of_arrival(database: Database, store: StoreWriter, admit: Any) -> None:
    """Pages follow each other without gaps; the last one is marked."""
    who = admit().writer
    for no in range(5):
        store.submit(WriteBatch("r1", event=RunEvent(who, no, no, "phase", no, None, {"name": "eval"})))
    store.call(lambda connection: None).result(30)
    reader, after, reported = StoreReader(database), None, []
    for _ in range(3):
        page = reader.events("r1", after=after, limit=2)
        reported += [event.no for event in page.items]
        after = page.next
    assert (reported, after) == ([0, 1, 2, 3, 4], None)


@pytest.mark.parametrize("limit", [1, 700, 5000])
def test_pages_of_records_hold_each_record_once(database: Database, admit: Any, put: Any, limit: int) -> None:
    """Across chunks, tail and two ranks, pages of any size add up to the whole."""
    size = 10 if limit == 1 else RECORDS + 900
    for rank in (0, 1):
        who = admit(rank=rank, world_size=2).writer
        put(batch(who, 0, list(range(size)), arrival=rank, loss=np.arange(size) * 0.5))
    sealed(database, 0 if limit == 1 else 2)
    reader, after, reported = StoreReader(database), None, []
    while True:
        page = reader.records("r1", names=["loss"], after=after, limit=limit)
        assert page.n <= limit
        reported += list(
            zip(page.rank.tolist(), page.seq.tolist(), page.columns["loss"].v.tolist(), strict=True)
        )
        after = page.next
        if after is None:
            break
    assert reported == [(rank, seq, seq * 0.5) for rank in (0, 1) for seq in range(size)]


def test_a_cursor_that_never_was_is_rejected(database: Database, admit: Any) -> None:
    """An invalid cursor gets an error."""
    admit()
    with pytest.raises(ValueError, match="after: expected the `next` of a page, got 'x'"):
        StoreReader(database).records("r1", after="x")


@pytest.mark.parametrize("after", ["1", "1.", "-1.0", "1.1.1", "1_0.1", " 1.1", "\u0663.1"])
def test_a_cursor_is_digits(database: Database, admit: Any, after: str) -> None:
    """Numbers that only Python accepts are rejected."""
    admit()
    with pytest.raises(ValueError, match="after: expected"):
        StoreReader(database).records("r1", after=after)


def test_windows_and_cursors_beyond_the_databases_numbers(database: Database, admit: Any, put: Any) -> None:
    """A window near 2**63 exceeds the range of a column; a cursor can have any value."""
    put(batch(admit().writer, 0, list(range(RECORDS)), arrival=0, loss=np.arange(RECORDS)))
    sealed(database, 1)
    reader, beyond = StoreReader(database), 1 << 64
    assert reader.records("r1", start=-beyond, stop=beyond).n == RECORDS
    assert reader.records("r1", start=beyond).n == 0
    assert reader.records("r1", after=f"{'9' * 10}.{'9' * 19}").n == 0
    assert reader.events("r1", after="9" * 19).items == []
    found = reader.series("r1", ["loss"], start=-1e300, stop=1e300, x="time").series["loss"]
    assert found[0].n.sum() == RECORDS


def test_a_run_has_its_series_attempts_and_writers(database: Database, admit: Any, put: Any) -> None:
    """Counts and ends include chunks and tail; the last value is the newest attempt's."""
    n = RECORDS + 100
    put(batch(admit(attempt="a1").writer, 0, list(range(n)), arrival=0, loss=np.arange(n)))
    put(batch(admit(attempt="a2").writer, 0, [50, 51], arrival=1, loss=[7.0, math.nan], lr=([1], [0.1])))
    sealed(database, 1)
    found = StoreReader(database).run("r1")
    assert found is not None
    reported = {s.name: (s.n, s.first_step, s.last_step) for s in found.series}
    assert reported == {"loss": (n + 2, 0, n - 1), "lr": (1, 51, 51)}
    assert math.isnan(found.series[0].last)
    assert [(a.attempt, a.first_step, a.last_step) for a in found.attempts_list] == [
        (1, 0, n - 1),
        (2, 50, 51),
    ]
    assert [w.records for w in found.writers] == [2, n]
    assert [row.id for row in StoreReader(database).active_runs()] == ["r1"]


def test_deleting_a_run_deletes_everything_of_it(
    database: Database, store: StoreWriter, admit: Any, put: Any
) -> None:
    """No table has a row of it; later data is dropped; another run is unchanged."""
    who, other = admit().writer, admit("r2").writer
    put(batch(who, 0, list(range(RECORDS)), loss=np.ones(RECORDS)), batch(other, 0, [0], loss=[1.0]))
    sealed(database, 1)
    write_transitions(store, Transition(ALERT, None, 410))
    assert mark_on(store, partial(mark_runs, run_ids=["r1"], now_ns=1, actor="test")).result(30) == ["r1"]
    put(batch(who, RECORDS, [RECORDS], loss=[1.0]))
    finish(on_writer(store), ["r1"])
    with database.reader.connect() as connection:
        for table in RUN_TABLES:
            query = select(func.count()).select_from(table).where(table.c.run_id == "r1")
            assert connection.execute(query).scalar_one() == 0, table.name
        assert connection.execute(select(run.c.id)).scalars().all() == ["r2"]
    assert StoreReader(database).records("r2").n == 1


def test_an_incident_of_many_alerts_hides_no_other(
    database: Database, store: StoreWriter, admit: Any
) -> None:
    """It is read with its most severe alerts, and the number of all."""
    admit()
    many = [
        replace(ALERT, fingerprint=f"f{no}", incident="f0.1", severity=Severity.WARNING, updated_ns=500 + no)
        for no in range(300)
    ]
    worst = replace(ALERT, fingerprint="worst", incident="f0.1", updated_ns=420)
    other = replace(ALERT, fingerprint="other", incident="other.1")
    write_transitions(store, *[Transition(each, None, 410) for each in (*many, worst, other)])
    first, second = StoreReader(database).incidents(limit=2)
    assert (first.incident.id, first.count, len(first.incident.alerts)) == ("r1.f0.1", 301, 50)
    assert (first.incident.lead, second.incident.id) == (worst, "r1.other.1")
