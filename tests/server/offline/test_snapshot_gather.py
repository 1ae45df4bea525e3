"""Incident snapshots, gathered from stored records."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server.store.conftest import batch, hello
from tests.server.store.whole_run import NASTY, write_run_to
from tocsin_server.core.models import (
    Alert,
    AlertState,
    Diagnosis,
    RunEvent,
    Severity,
    Transition,
    WriteBatch,
    Writer,
)
from tocsin_server.offline.replay import LogResult
from tocsin_server.offline.snapshot import IncidentSnapshot, read
from tocsin_server.offline.snapshot_gather import download
from tocsin_server.offline.snapshot_replay import evaluate_incident_snapshot
from tocsin_server.runs.validation.limits import Limits
from tocsin_server.store.database import Database
from tocsin_server.store.deletion_jobs import finish, mark_on, mark_runs, on_writer
from tocsin_server.store.registration import register
from tocsin_server.store.writer import StoreWriter
from tocsin_server.transfer.run_export import export_run
from tocsin_server.transfer.run_import import import_run

ONSET = 1000


def alert_of(run_id: str, onset: int | None = ONSET, fingerprint: str = "f" * 16) -> Alert:
    return Alert(
        run_id, fingerprint, 1, "nonfinite-loss", "loss", Severity.CRITICAL, AlertState.FIRING, onset, 5,
        None, onset, 5, None, None, "The loss is NaN", Diagnosis("a cause"), {}, False, 7,
    )  # fmt: skip


class BrokenRun:
    """A run of two ranks that fails at step ``ONSET``."""

    def __init__(self, store: StoreWriter, run_id: str = "r1") -> None:
        self.store, self.run_id, self.arrival = store, run_id, 0
        self.writers = [self._admit(rank) for rank in (0, 1)]
        self.seq = self.first = 0

    def again(self, step: int) -> None:
        """Start another attempt at ``step``."""
        self.writers = [self._admit(rank, "a2") for rank in (0, 1)]
        self.seq = step
        self.first = step

    def _admit(self, rank: int, attempt: str = "a1") -> Writer:
        greeting = hello(self.run_id, rank=rank, attempt=attempt, config={"lr": 1.0})
        return self.store.call(lambda connection: register(connection, greeting, 2_000)).result(60).writer

    def train(self, upto: int) -> None:
        """Report every step below ``upto`` on both ranks; the loss is NaN from the onset on."""
        steps = list(range(self.seq, upto))
        losses = [math.nan if step >= ONSET else 1.0 + step / 7 for step in steps]
        for who in self.writers:
            self.arrival += 1
            one = batch(who, self.seq - self.first, steps, self.arrival, loss=losses, lr=[0.1] * len(steps))
            self.store.submit(WriteBatch(self.run_id, batch=one))
        self.seq = upto

    def fire(self, **changes: Any) -> str:
        reported = alert_of(self.run_id, **changes)
        self.store.submit(WriteBatch(self.run_id, transitions=(Transition(reported, None, 7),)))
        self.store.call(lambda _: None).result(60)
        return reported.id

    def add_event(self, kind: str, step: int | None, **data: Any) -> None:
        self.arrival += 1
        event = RunEvent(self.writers[0], self.arrival, self.arrival, kind, 1, step, data)
        self.store.submit(WriteBatch(self.run_id, event=event))

    def end(self) -> None:
        self.store.submit(WriteBatch(self.run_id, changes={"state": "failed", "ended_ns": 9}))
        self.store.call(lambda _: None).result(60)


@pytest.fixture
def broken_run(store: StoreWriter) -> BrokenRun:
    return BrokenRun(store)


def incident_snapshot_of(database: Database, alert_id: str) -> IncidentSnapshot:
    text = download(database, alert_id)
    assert text is not None
    return read(text)


def steps_of(snapshot: IncidentSnapshot) -> dict[int, list[int]]:
    """Return the steps of each rank."""
    found: dict[int, list[int]] = {}
    for item in snapshot.items:
        if not isinstance(item, RunEvent):
            found.setdefault(item.writer.rank, []).extend(item.step.tolist())
    return found


def deleted(store: StoreWriter) -> None:
    """Delete the run as the server does."""
    mark = partial(mark_runs, run_ids=["r1"], now_ns=1, actor="test")
    finish(on_writer(store), mark_on(store, mark).result(60))


def test_all_ranks_are_there_200_steps_each_way(
    database: Database, store: StoreWriter, broken_run: BrokenRun
) -> None:
    """At full resolution, with the environment and the events that rules need, however old."""
    broken_run.add_event("attached", None, optimizers=[{"name": "AdamW"}])
    broken_run.train(2000)
    broken_run.add_event("note", 3)
    found = incident_snapshot_of(database, broken_run.fire())
    assert steps_of(found) == {rank: list(range(ONSET - 200, ONSET + 201)) for rank in (0, 1)}
    assert [item.kind for item in found.items if isinstance(item, RunEvent)] == ["attached"]
    assert found.whole
    assert found.run["config"] == {"lr": 1.0}
    assert [alert.rule for alert in found.alerts] == ["nonfinite-loss"]


def test_a_snapshot_is_whole_once_the_newest_attempt_has_passed_the_window(
    database: Database, broken_run: BrokenRun
) -> None:
    """A run that reached 2000 and resumes from 900 is not past it yet."""
    broken_run.train(2000)
    broken_run.again(900)
    broken_run.train(1005)
    alert_id = broken_run.fire()
    assert not incident_snapshot_of(database, alert_id).whole
    broken_run.train(1300)
    alert_id = broken_run.fire()
    found = incident_snapshot_of(database, alert_id)
    again = [item for item in found.items if not isinstance(item, RunEvent) and item.writer.attempt_no == 2]
    assert (found.whole, again[-1].step.tolist()[-1]) == (True, 1200)


def test_the_snapshot_of_a_run_that_ended_is_whole(database: Database, broken_run: BrokenRun) -> None:
    """No more records will arrive, whatever its last step."""
    broken_run.train(1005)
    alert_id = broken_run.fire()
    assert not incident_snapshot_of(database, alert_id).whole
    broken_run.end()
    assert incident_snapshot_of(database, alert_id).whole


def test_a_deleted_run_has_no_snapshot(database: Database, store: StoreWriter, broken_run: BrokenRun) -> None:
    """The alerts of a deleted run are deleted too."""
    broken_run.train(1100)
    alert_id = broken_run.fire()
    assert download(database, alert_id) is not None
    deleted(store)
    assert download(database, alert_id) is None


def test_an_imported_run_has_the_same_snapshot(
    database: Database, store: StoreWriter, broken_run: BrokenRun, tmp_path: Path
) -> None:
    """Byte by byte: its records and alerts are the same."""
    broken_run.train(2000)
    broken_run.end()
    alert_id = broken_run.fire()
    before = download(database, alert_id)
    assert before is not None
    export_run(database, "r1", tmp_path / "r1")
    deleted(store)
    import_run(database, on_writer(store), tmp_path / "r1", actor="test", limits=Limits())
    assert download(database, alert_id) == before


def test_a_run_of_two_attempts_and_odd_numbers_is_gathered(database: Database) -> None:
    """From chunks and tail, in order of arrival, with every kind of number."""
    write_run_to(database, "r1")
    found = incident_snapshot_of(database, "r1.f1.1")
    assert {item.writer.attempt_no for item in found.items if not isinstance(item, RunEvent)} == {1, 2}
    columns = [
        column for item in found.items if not isinstance(item, RunEvent) for column in item.columns.values()
    ]
    values = {repr(value) for column in columns for value in column.v.tolist()}
    assert values >= {repr(value) for value in NASTY}


def test_an_alert_without_a_step_has_the_end_of_its_run(
    database: Database, store: StoreWriter, broken_run: BrokenRun
) -> None:
    """After the loss of a client, the snapshot has the last steps before it."""
    broken_run.train(900)
    found = incident_snapshot_of(database, broken_run.fire(onset=None))
    assert steps_of(found)[0] == list(range(699, 900))


def test_the_server_gives_it_and_diagnose_reads_it(
    server: Any, dial: Callable[..., Any], eventually: Callable[..., Any], tmp_path: Path
) -> None:
    """Alert, onset, cause and timeline are those of the server, and follow from the records alone."""
    client = dial(server.base, run="flight", token=server.client_token)
    losses = [1.0 + (step % 7) / 100 for step in range(300)] + [math.nan] * 5
    client.acked(client.train(range(305), loss=losses, lr=[0.1] * 305))
    (alert,) = eventually(lambda: _loud(server), "the alert")
    answer = httpx.get(f"{server.base}/api/v1/alerts/{alert['id']}/snapshot", headers=server.headers)
    assert "attachment" in answer.headers["content-disposition"]
    result: LogResult = evaluate_incident_snapshot(read(answer.content), "snapshot.json")
    replayed = result.alerts[0]
    assert (replayed.rule, replayed.onset_step, replayed.summary) == (alert["rule"], 300, alert["summary"])
    assert replayed.diagnosis.cause == alert["diagnosis"]["cause"]
    assert [list(row) for row in replayed.diagnosis.timeline] == alert["diagnosis"]["timeline"]
    assert any("fire again" in remark and "nonfinite-loss" in remark for remark in result.remarks)
    missing = httpx.get(f"{server.base}/api/v1/alerts/flight.x.1/snapshot", headers=server.headers)
    assert missing.status_code == 404


def _loud(server: Any) -> list[dict[str, Any]]:
    return [row for row in server.get("/alerts", run="flight")["items"] if row["rule"] == "nonfinite-loss"]


FARTHEST = 2**63 - 1
"""A step that servers took before they had a bound."""


def test_a_step_at_the_end_of_64_bits_has_a_snapshot(database: Database, broken_run: BrokenRun) -> None:
    """An older database may contain such a step: the window ends at 2**63 - 1."""
    who = broken_run.writers[0]
    broken_run.store.submit(
        WriteBatch("r1", batch=batch(who, 0, [0, 1, FARTHEST], 9, loss=[1.0, 2.0, math.nan]))
    )
    alert_id = broken_run.fire(onset=FARTHEST)
    assert steps_of(incident_snapshot_of(database, alert_id)) == {0: [0, 1, FARTHEST]}
