"""Incident snapshots: taken outside the record path, complete after a kill, deleted with their run."""

from __future__ import annotations

import asyncio
import math
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from sqlalchemy import delete, select

from tests.server.store.conftest import batch, hello
from tests.server.store.whole_run import tell_all_to
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
from tocsin_server.jobs.snapshot_recorder import SnapshotRecorder, download
from tocsin_server.offline.replay import Judged
from tocsin_server.offline.snapshot import IncidentSnapshot, read
from tocsin_server.offline.snapshot_replay import judge_incident_snapshot
from tocsin_server.runs.validation import Limits
from tocsin_server.store.database import Database, open_database
from tocsin_server.store.deletion_jobs import finish, mark_on, mark_runs, on_writer
from tocsin_server.store.registration import register
from tocsin_server.store.snapshots import incident_snapshot_rows
from tocsin_server.store.tables import chunk, chunk_dir, incident_snapshot, tail
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

    def ring(self, **changes: Any) -> str:
        reported = alert_of(self.run_id, **changes)
        self.store.submit(WriteBatch(self.run_id, transitions=(Transition(reported, None, 7),)))
        self.store.call(lambda _: None).result(60)
        return reported.id

    def tell(self, kind: str, step: int | None, **data: Any) -> None:
        self.arrival += 1
        event = RunEvent(self.writers[0], self.arrival, self.arrival, kind, 1, step, data)
        self.store.submit(WriteBatch(self.run_id, event=event))

    def end(self) -> None:
        self.store.submit(WriteBatch(self.run_id, changes={"state": "failed", "ended_ns": 9}))
        self.store.call(lambda _: None).result(60)


@pytest.fixture
def broken_run(store: StoreWriter) -> BrokenRun:
    return BrokenRun(store)


def looked(database: Database, store: StoreWriter) -> int:
    return asyncio.run(SnapshotRecorder(database, store).look())


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


def frozen_of(database: Database) -> list[tuple[bool, int]]:
    with database.reader.begin() as connection:
        return [(row.whole, row.made_ns) for row in incident_snapshot_rows(connection, "r1")]


@pytest.mark.both_databases
def test_all_ranks_are_there_200_steps_each_way(
    database: Database, store: StoreWriter, broken_run: BrokenRun
) -> None:
    """At full resolution, with the environment and the events that rules need, however old."""
    broken_run.tell("attached", None, optimizers=[{"name": "AdamW"}])
    broken_run.train(2000)
    broken_run.tell("note", 3)
    found = incident_snapshot_of(database, broken_run.ring())
    assert steps_of(found) == {rank: list(range(ONSET - 200, ONSET + 201)) for rank in (0, 1)}
    assert [item.kind for item in found.items if isinstance(item, RunEvent)] == ["attached"]
    assert found.whole
    assert found.run["config"] == {"lr": 1.0}
    assert [alert.rule for alert in found.alerts] == ["nonfinite-loss"]


def test_a_record_is_completed_when_the_run_has_passed(
    database: Database, store: StoreWriter, broken_run: BrokenRun, eventually: Callable[..., Any]
) -> None:
    """Taken immediately but incomplete, completed once the run is past the window, and then never changed."""
    broken_run.train(1010)
    alert_id = broken_run.ring()
    recorder = SnapshotRecorder(database, store, clock=iter(range(10, 10**6)).__next__)
    assert [asyncio.run(recorder.look()) for _ in range(2)] == [1, 0]
    assert [whole for whole, _ in frozen_of(database)] == [False]
    broken_run.train(1300)
    eventually(lambda: asyncio.run(recorder.look()), "the newest step to be told")
    assert [whole for whole, _ in frozen_of(database)] == [True]
    assert looked(database, store) == 0
    assert steps_of(incident_snapshot_of(database, alert_id))[1][-1] == ONSET + 200


def test_an_attempt_that_went_further_completes_no_record_of_a_later_one(
    database: Database, store: StoreWriter, broken_run: BrokenRun
) -> None:
    """A run that reached 2000 and resumes from 900: the window is complete once the new attempt is past
    it."""
    broken_run.train(2000)
    broken_run.again(900)
    broken_run.train(1005)
    alert_id = broken_run.ring()
    assert looked(database, store) == 1
    assert [whole for whole, _ in frozen_of(database)] == [False]
    broken_run.train(1300)
    assert looked(database, store) == 1
    found = incident_snapshot_of(database, alert_id)
    again = [item for item in found.items if not isinstance(item, RunEvent) and item.writer.attempt_no == 2]
    assert (found.whole, again[-1].step.tolist()[-1]) == (True, 1200)


def test_a_record_of_a_run_that_ended_is_whole(
    database: Database, store: StoreWriter, broken_run: BrokenRun
) -> None:
    """No more records will arrive, whatever its last step."""
    broken_run.train(1005)
    broken_run.ring()
    looked(database, store)
    broken_run.end()
    assert looked(database, store) == 1
    assert [whole for whole, _ in frozen_of(database)] == [True]


@pytest.mark.both_databases
def test_what_is_frozen_stays_when_records_go(
    database: Database, store: StoreWriter, broken_run: BrokenRun
) -> None:
    """Later thinning of the run does not change it."""
    broken_run.train(2000)
    alert_id = broken_run.ring()
    before = incident_snapshot_of(database, alert_id)
    looked(database, store)
    with database.engine.begin() as connection:
        for table in (tail, chunk, chunk_dir):
            connection.execute(delete(table).where(table.c.run_id == "r1"))
    assert steps_of(incident_snapshot_of(database, alert_id)) == steps_of(before)


def test_a_damaged_record_is_gathered_again(
    database: Database, store: StoreWriter, broken_run: BrokenRun
) -> None:
    """A download does not fail while the records exist."""
    broken_run.train(2000)
    alert_id = broken_run.ring()
    looked(database, store)
    before = download(database, alert_id)
    with database.engine.begin() as connection:
        connection.execute(incident_snapshot.update().values(body=b"\x1f\x8bdamaged"))
    assert download(database, alert_id) == before


def test_a_missing_record_is_made_again(
    database: Database, store: StoreWriter, broken_run: BrokenRun
) -> None:
    """After a kill between the alert's commit and the snapshot, the next start creates it with the same
    content."""
    broken_run.train(2000)
    alert_id = broken_run.ring()
    looked(database, store)
    frozen = download(database, alert_id)
    with database.engine.begin() as connection:
        connection.execute(delete(incident_snapshot))
    assert download(database, alert_id) == frozen
    assert looked(database, store) == 1
    assert download(database, alert_id) == frozen


def test_a_deleted_run_takes_its_records_along(
    database: Database, store: StoreWriter, broken_run: BrokenRun
) -> None:
    """Also a snapshot that was being taken during the deletion."""
    broken_run.train(1100)
    broken_run.ring()
    looked(database, store)
    deleted(store)
    with database.reader.begin() as connection:
        assert connection.execute(select(incident_snapshot)).all() == []
    assert download(database, alert_of("r1").id) is None
    assert looked(database, store) == 0


def test_an_export_carries_what_is_frozen(
    database: Database, store: StoreWriter, broken_run: BrokenRun, tmp_path: Path
) -> None:
    """Import restores it unchanged, and rejects a damaged one."""
    broken_run.train(2000)
    broken_run.end()
    alert_id = broken_run.ring()
    looked(database, store)
    with database.reader.begin() as connection:
        before = incident_snapshot_rows(connection, "r1")
    export_run(database, "r1", tmp_path / "r1")
    deleted(store)
    import_run(database, on_writer(store), tmp_path / "r1", actor="test", limits=Limits())
    with database.reader.begin() as connection:
        assert incident_snapshot_rows(connection, "r1") == before
    assert incident_snapshot_of(database, alert_id).whole


def test_a_run_of_two_attempts_and_odd_numbers_is_recorded(database: Database, store: StoreWriter) -> None:
    """Every bit of it, from chunks and tail, in order of arrival."""
    tell_all_to(database, "r1")
    assert looked(database, store) == 2
    (one, *_) = [f"r1.{row.fingerprint}.1" for row in _rows(database)]
    found = incident_snapshot_of(database, one)
    assert {item.writer.attempt_no for item in found.items if not isinstance(item, RunEvent)} == {1, 2}
    values = np.concatenate(
        [
            item.columns["value:rank"].v
            for item in found.items
            if not isinstance(item, RunEvent) and "value:rank" in item.columns
        ]
    )
    assert [hex(bits) for bits in values.view(np.uint64).tolist()][1] == "0x7ff800000000beef"


def _rows(database: Database) -> Any:
    with database.reader.begin() as connection:
        return incident_snapshot_rows(connection, "r1")


def test_an_alert_without_a_step_has_the_end_of_its_run(
    database: Database, store: StoreWriter, broken_run: BrokenRun
) -> None:
    """After the loss of a client, the snapshot has the last steps before it."""
    broken_run.train(900)
    found = incident_snapshot_of(database, broken_run.ring(onset=None))
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
    judged: Judged = judge_incident_snapshot(read(answer.content), "snapshot.json")
    said = judged.alerts[0]
    assert (said.rule, said.onset_step, said.summary) == (alert["rule"], 300, alert["summary"])
    assert said.diagnosis.cause == alert["diagnosis"]["cause"]
    assert [list(row) for row in said.diagnosis.timeline] == alert["diagnosis"]["timeline"]
    assert any("Judged again" in remark and "nonfinite-loss" in remark for remark in judged.remarks)
    missing = httpx.get(f"{server.base}/api/v1/alerts/flight.x.1/snapshot", headers=server.headers)
    assert missing.status_code == 404


def _loud(server: Any) -> list[dict[str, Any]]:
    return [row for row in server.get("/alerts", run="flight")["items"] if row["rule"] == "nonfinite-loss"]


def test_a_killed_server_freezes_at_its_next_start(
    start_server: Callable[..., Any], dial: Callable[..., Any], eventually: Callable[..., Any], tmp_path: Path
) -> None:
    """SIGKILL as soon as the alert exists, before or after the snapshot: there is one complete snapshot."""
    server = start_server()
    client = dial(server.base, run="flight", token=server.client_token)
    losses = [1.0 + (step % 7) / 100 for step in range(300)] + [math.nan] * 300
    client.acked(client.train(range(600), loss=losses))
    (alert,) = eventually(lambda: _loud(server), "the alert")
    server.stop(signal.SIGKILL)
    again = start_server()
    path = f"{again.base}/api/v1/alerts/{alert['id']}/snapshot"
    before = read(httpx.get(path, headers=again.headers).content)
    url = f"sqlite:///{tmp_path / 'tocsin.db'}"

    def frozen() -> list[bool]:
        opened = open_database(url)
        with opened.reader.begin() as connection:
            found = [row.whole for row in incident_snapshot_rows(connection, "flight")]
        opened.close()
        return found

    eventually(lambda: True in frozen(), "the record to be frozen")
    after = read(httpx.get(path, headers=again.headers).content)
    assert steps_of(after) == steps_of(before) == {0: list(range(100, 501))}


FARTHEST = 2**63 - 1
"""A step that servers took before they had a bound."""


def test_a_step_at_the_end_of_64_bits_has_a_record(
    database: Database, store: StoreWriter, broken_run: BrokenRun
) -> None:
    """An older database may contain such a step: the window ends at 2**63 - 1."""
    who = broken_run.writers[0]
    broken_run.store.submit(
        WriteBatch("r1", batch=batch(who, 0, [0, 1, FARTHEST], 9, loss=[1.0, 2.0, math.nan]))
    )
    alert_id = broken_run.ring(onset=FARTHEST)
    assert looked(database, store) == 1
    assert steps_of(incident_snapshot_of(database, alert_id)) == {0: [0, 1, FARTHEST]}


def test_a_run_that_cannot_be_read_stops_no_other_runs_record(database: Database, store: StoreWriter) -> None:
    """Its snapshot is skipped, and health names it with the reason."""
    broken_runs = [BrokenRun(store, run_id) for run_id in ("r1", "r2")]
    for one in broken_runs:
        one.train(1010)
        one.ring()
    with database.engine.begin() as connection:
        connection.execute(tail.update().where(tail.c.run_id == "r1").values(body=b"damaged"))
    recorder = SnapshotRecorder(database, store)
    assert [asyncio.run(recorder.look()) for _ in range(2)] == [2, 0]
    with database.reader.begin() as connection:
        assert len(incident_snapshot_rows(connection, "r2")) == 1
    (failure,) = recorder.work.failing()
    assert failure["subject"] == f"run r1, alert {'f' * 16}"
    assert failure["reason"].startswith("DamagedError")
