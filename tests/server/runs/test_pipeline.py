"""The record path keeps every record despite crashes, failures and kills."""

from __future__ import annotations

import base64
import math
import time
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import pytest
from sqlalchemy.engine import URL

from tests.server.conftest import hello_of
from tocsin.protocol import Ack, Event, Finish, Refused, Welcome
from tocsin_server.runs.watchdog import look

Start = Callable[..., Any]
Dial = Callable[..., Any]
pytestmark = pytest.mark.usefixtures("url")


def losses(server: Any, run: str) -> list[float]:
    page = server.services.reader.records(run, names=["loss"], limit=1_000_000)
    return list(page.columns["loss"].v.tolist()) if page.n else []


def alerts(server: Any, run: str) -> list[tuple[str, str]]:
    return [(found.alert.rule, found.alert.state.value) for found in server.services.reader.alerts(run)]


def test_a_crashing_rule_loses_no_record(run_server: Start, dial: Dial) -> None:
    """The exception of a rule is caught and shown in health; the batch is stored and acked."""
    server = run_server()
    client = dial(server.base, "r1", server.token)
    run = server.pipeline.registry.active["r1"]

    def crash(_: Any) -> Any:
        raise ZeroDivisionError

    run.evaluator.engine = type("Crashing", (), {"observe": crash, "observe_event": crash, "save": crash})()
    client.train([0, 1], loss=[1.0, math.nan])
    client.send(Event(0, "note", time.time_ns()))
    client.acked(1, 0)
    assert repr(losses(server, "r1")) == "[1.0, nan]"
    assert server.health()["rule_crashes"] >= 2


@pytest.fixture
def full_disk(url: URL) -> Callable[[Any, bool], None]:
    """``full_disk(server, True)``: the database has no more space; False: it has space again."""
    if url.get_backend_name() != "sqlite":
        pytest.skip("the limit on pages is SQLite's; test_durability.py takes Postgres away")

    def turn(server: Any, full: bool) -> None:
        pages = 1 if full else 1 << 30  # a limit below the present size allows no new page
        server.services.writer.call(
            lambda connection: connection.exec_driver_sql(f"PRAGMA max_page_count={pages}").close()
        ).result(30)

    return turn


def test_a_failing_database_withholds_acks_and_loses_nothing(
    run_server: Start, dial: Dial, watch: Any, full_disk: Any, eventually: Any
) -> None:
    """On a full disk nothing is acked, and health and heartbeat have the reason; with room all is stored."""
    server = run_server(heartbeat_s=0.05)
    client = dial(server.base, "r1", server.token)
    client.acked(client.train([0], loss=[0.0]))
    full_disk(server, True)
    last = client.train(range(1, 20_001), loss=[float(step) for step in range(1, 20_001)])
    eventually(lambda: server.health()["failing"], "the database to fail")
    page = watch(server.base, server.token)
    assert "full" in page.receive("heartbeat")["failing"]
    assert server.health()["flush_ms"] == 5000
    assert not any(isinstance(received, Ack) and received.seq > 0 for received in client.received)
    full_disk(server, False)
    client.acked(last)
    assert losses(server, "r1") == [float(step) for step in range(20_001)]
    assert page.receive("heartbeat", lambda beat: beat["failing"] is None)


def test_a_trainer_that_comes_while_the_database_fails_is_asked_to_come_again(
    run_server: Start, dial: Dial, make_hello: Any, full_disk: Any, eventually: Any
) -> None:
    """During a failure a hello is rejected with 4503 and retry, and accepted afterwards."""
    server = run_server()
    client = dial(server.base, "r1", server.token)
    full_disk(server, True)
    client.train(range(20_000), loss=[0.5] * 20_000)
    eventually(lambda: server.health()["failing"], "the database to fail")
    late = dial(server.base)
    late.send(make_hello("r2", server.token))
    assert late.ended() == 4503
    assert isinstance(late.received[-1], Refused)
    assert late.received[-1].retry
    full_disk(server, False)
    client.acked(19_999)
    assert dial(server.base, "r2", server.token).welcome.seq == -1


def test_back_pressure_stops_reading_and_widens_the_flush(
    run_server: Start, dial: Dial, full_disk: Any, eventually: Any
) -> None:
    """Above the backlog limit, sockets are not read: memory is bounded, and every record arrives later.

    Five clients wait for room at the same time; not all of them add a message once there is some.
    """
    server = run_server(backlog_bytes=500_000, limit_records_per_s=10**9)
    client, *others = (dial(server.base, f"r{no}", server.token) for no in range(1, 6))
    full_disk(server, True)
    for start in range(0, 50_000, 10_000):
        client.train(range(start, start + 10_000), loss=[0.5] * 10_000)
        for other in others if start == 0 else ():
            other.train(range(10_000), loss=[0.5] * 10_000)
    health = eventually(lambda: (found := server.health())["pressed"] and found, "back-pressure")
    one_message = 10_000 * 24 + 2000
    assert health["backlog_bytes"] < 500_000 + one_message
    full_disk(server, False)
    client.acked(49_999)
    for other in others:
        other.acked(9_999)
    assert len(losses(server, "r1")) == 50_000


@pytest.mark.both_databases
def test_alerts_commit_with_their_records_once(run_server: Start, dial: Dial) -> None:
    """When its records are acked, an alert is in the database; a resend adds none."""
    server = run_server()
    for _ in range(3):
        client = dial(server.base, "r1", server.token)
        client.next_seq = 0
        client.train([0, 1], loss=[1.0, math.nan])
        client.acked(1)
        assert alerts(server, "r1") == [("nonfinite-loss", "firing")]


@pytest.mark.both_databases
def test_a_restart_continues_unchanged(run_server: Start, dial: Dial, tmp_path: Any) -> None:
    """After a restart, the row, the rules and the open alerts are unchanged."""
    server = run_server(rule_state_records=10, rule_state_pause_s=1e-9)
    client = dial(server.base, "r1", server.token)
    for step in range(25):
        client.train(
            [step], loss=[math.nan if step == 17 else 1.0], scale=[1024.0], skipped=[float(step % 2)]
        )
    client.acked(24)
    before = server.rows()[0]
    server.stop()
    again = run_server(tmp_path)
    after = again.rows()[0]
    for row in (before, after):
        row.pop("steps_per_s")
        row.pop("last_seen_ms")
        row.pop("client")
    assert repr(after) == repr(before)
    client = dial(again.base, "r1", again.token)
    assert client.welcome.seq == 24
    client.acked(client.train([25], loss=[math.nan]))
    assert [rule for rule, _ in alerts(again, "r1")] == ["nonfinite-loss"]


@pytest.mark.both_databases
def test_runs_that_fail_around_a_restart_share_an_incident(
    run_server: Start, dial: Dial, tmp_path: Any
) -> None:
    """The first one ended before it; the second one had begun, and meets its problem after it."""
    server = run_server(restart_grace_s=0.0)
    first, second = (dial(server.base, run, server.token) for run in ("r1", "r2"))
    second.acked(second.train(range(20), loss=[1.0] * 20))
    first.acked(first.train(range(22), loss=[1.0] * 20 + [math.nan] * 2))
    first.send(Finish(0, time.time_ns(), records=22))
    first.acked(21, 0)
    server.stop()
    again = run_server(tmp_path)
    second = dial(again.base, "r2", again.token)
    second.acked(second.train([20, 21], loss=[math.nan] * 2))
    (incident,) = again.services.reader.incidents()
    assert set(incident.runs) == {"r1", "r2"}
    assert incident.incident.id.startswith("r1.")


@pytest.mark.parametrize("state", ["finished", "failed"])
def test_a_run_that_ends_with_alerts_stays_critical(
    run_server: Start, dial: Dial, tmp_path: Any, state: str
) -> None:
    """The alert ends in the same commit, and the row stays critical, also after a restart."""
    server = run_server(restart_grace_s=0.0)
    client = dial(server.base, "r1", server.token)
    client.acked(client.train([0, 1], loss=[1.0, math.nan]))
    error = {"type": "RuntimeError", "message": "loss is NaN"} if state == "failed" else {}
    client.send(Finish(0, time.time_ns(), state=state, error=error, records=2))
    client.acked(1, 0)
    (stored,) = [one for one in server.services.reader.alerts("r1") if one.alert.rule != "run-failed"]
    assert (stored.alert.state, stored.alert.resolved_step) == ("ended", 1)
    last = server.services.reader.alert_history(stored.alert.id)[-1]
    assert last.summary.startswith(f"Run ended: {state}")
    server.stop()
    again = run_server(tmp_path)
    (row,) = again.rows()
    assert (row["state"], row["alerts"], row["reason"]["rule"]) == (state, 0, "nonfinite-loss")
    assert (row["health"], row["outcome"]["severity"]) == ("critical", "critical")


def test_a_resumed_attempt_is_evaluated_from_scratch(run_server: Start, dial: Dial) -> None:
    """Without a grace time, new findings are the next episode of the same fingerprint; healthy records give
    none."""
    server = run_server(restart_grace_s=0.0)
    for attempt, loss in (("a1", math.nan), ("a2", 1.0), ("a3", math.nan)):
        client = dial(server.base, "r1", server.token, attempt=attempt)
        client.train([0, 1], loss=[1.0, loss])
        client.send(Finish(0, time.time_ns(), state="failed", records=2))
        client.acked(1, 0)
    found = [
        stored.alert
        for stored in server.services.reader.alerts("r1")
        if stored.alert.rule == "nonfinite-loss"
    ]
    assert sorted((alert.episode, alert.state.value) for alert in found) == [(1, "resolved"), (2, "ended")]
    assert len({alert.fingerprint for alert in found}) == 1


def fail(server: Any, dial: Dial, attempt: str = "a1", state: str = "failed") -> Any:
    """Return the alert of a run whose loss became NaN and that ended like this."""
    client = dial(server.base, "r1", server.token, attempt=attempt)
    client.train([0, 1], loss=[1.0, math.nan])
    error = {"type": "RuntimeError", "message": "loss is NaN"}
    client.send(Finish(0, time.time_ns(), state=state, error=error, records=2))
    client.acked(1, 0)
    client.socket.close()
    return nan_alert(server)


def nan_alert(server: Any) -> Any:
    """Return the newest episode of the alert about the loss."""
    found = [one.alert for one in server.services.reader.alerts("r1") if one.alert.rule == "nonfinite-loss"]
    return max(found, key=lambda alert: alert.episode)


def after_grace(server: Any) -> Any:
    """Return the alert eleven minutes after the run failed."""
    server.call(lambda: look(server.pipeline, time.time_ns() + 660 * 10**9))
    server.services.writer.call(lambda _: None).result(30)
    return nan_alert(server)


def test_another_attempt_continues_the_same_alert(run_server: Start, dial: Dial) -> None:
    """A failed run keeps its alerts for ten minutes: a new finding continues the same episode.

    Its history has neither a resolve nor a second firing.
    """
    server = run_server()
    first = fail(server, dial)
    assert (first.state, first.resolved_ns) == ("firing", None)
    assert server.rows()[0]["state"] == "failed"
    again = dial(server.base, "r1", server.token, attempt="a2")
    again.acked(again.train([1, 2], loss=[math.nan, math.nan]))
    present = nan_alert(server)
    assert (present.id, present.state) == (first.id, "firing")
    assert [step.state for step in server.services.reader.alert_history(first.id)] == ["firing"]
    assert after_grace(server).state == "firing", "the run goes on, so its alerts do not end by time"


def test_alerts_of_a_failed_run_end_when_no_attempt_comes(run_server: Start, dial: Dial) -> None:
    """After the grace time, with a line that says how the run ended; its row keeps the reason.

    A later attempt is evaluated from scratch.
    """
    server = run_server()
    fail(server, dial)
    over = after_grace(server)
    assert over.state == "ended"
    last = server.services.reader.alert_history(over.id)[-1]
    assert last.summary == "Run ended: failed, RuntimeError: loss is NaN"
    (row,) = server.rows()
    assert (row["alerts"], row["reason"]["rule"]) == (0, "nonfinite-loss")
    again = dial(server.base, "r1", server.token, attempt="a2")
    again.acked(again.train([2, 3], loss=[math.nan, math.nan]))
    found = [one.alert for one in server.services.reader.alerts("r1") if one.alert.rule == "nonfinite-loss"]
    assert {(alert.episode, alert.state.value) for alert in found} == {(1, "resolved"), (2, "firing")}


def test_the_grace_time_outlives_a_restart(run_server: Start, dial: Dial, tmp_path: Any) -> None:
    """If the server restarts within the grace time, alerts wait, and then end or continue."""
    server = run_server()
    first = fail(server, dial)
    server.stop()
    second = run_server(tmp_path)
    second.call(lambda: look(second.pipeline, time.time_ns()))
    assert nan_alert(second).state == "firing"
    client = dial(second.base, "r1", second.token, attempt="a2")
    client.acked(client.train([1, 2], loss=[math.nan, math.nan]))
    assert nan_alert(second).state == "firing"
    client.send(Finish(0, time.time_ns(), state="failed", records=2))
    client.acked(1, 0)
    second.stop()
    third = run_server(tmp_path)
    over = after_grace(third)
    assert (over.id, over.state) == (first.id, "ended")


def test_a_run_that_finished_has_no_grace(run_server: Start, dial: Dial) -> None:
    """A finished run is not expected to resume, so its alerts end with it."""
    assert fail(run_server(), dial, state="finished").state == "ended"


def test_a_lost_run_continues_with_its_alerts(run_server: Start, dial: Dial, eventually: Any) -> None:
    """Killed and started again: the same alert; only trainer-lost fires and resolves."""
    server = run_server()
    client = dial(server.base, "r1", server.token, attempt="a1")
    client.acked(client.train([0, 1], loss=[1.0, math.nan]))
    client.socket.close()
    eventually(lambda: not server.pipeline.registry.active["r1"].connected, "the trainer to go")
    server.call(lambda: look(server.pipeline, time.time_ns() + 40 * 10**9))
    again = dial(server.base, "r1", server.token, attempt="a2")
    again.acked(again.train([1], loss=[math.nan]))
    server.call(lambda: look(server.pipeline, time.time_ns()))
    server.services.writer.call(lambda _: None).result(30)
    assert sorted(alerts(server, "r1")) == [("nonfinite-loss", "firing"), ("trainer-lost", "resolved")]


def test_an_alert_of_the_attempt_before_ends_when_the_run_is_well(run_server: Start, dial: Dial) -> None:
    """If the new attempt is healthy, the rule resolves the alert of the failed one."""
    server = run_server()
    fail(server, dial)
    again = dial(server.base, "r1", server.token, attempt="a2")
    again.acked(again.train(range(2, 3002), loss=[1.0] * 3000))
    found = [one.alert for one in server.services.reader.alerts("r1") if one.alert.rule == "nonfinite-loss"]
    assert [(alert.state, dict(alert.labels)) for alert in found] == [("resolved", {})]


def health(server: Any) -> str:
    return str(server.rows()[0]["health"])


def wavy(steps: range) -> list[float]:
    return [1.0 + 0.01 * (step % 7) for step in steps]


def test_a_resumed_run_is_healthy_only_after_a_hundred_records(
    run_server: Start, dial: Dial, tmp_path: Any
) -> None:
    """Not once it has connected, not after 99 records, and a restart of the server proves nothing."""
    server = run_server()
    fail(server, dial, state="finished")
    seen = []
    client = dial(server.base, "r1", server.token, attempt="a2")
    seen.append(health(server))
    client.acked(client.train(range(2, 101), loss=wavy(range(2, 101))))
    seen.append(health(server))
    (incident,) = server.services.reader.incidents("r1", ["mitigated"])
    assert nan_alert(server).is_inherited
    server.stop()
    again = run_server(tmp_path)
    seen.append(health(again))
    client = dial(again.base, "r1", again.token, attempt="a2")
    client.acked(client.train(range(101, 201), loss=wavy(range(101, 201))))
    assert seen == ["critical"] * 3
    assert health(again) == "ok"
    assert [each.state for each in again.services.reader.incidents("r1")] == ["resolved"]
    assert (
        again.services.reader.alert_history(incident.incident.lead.id)[-1].summary == "Attempt 2 is healthy"
    )


@pytest.mark.parametrize("batches", [[99], [60, 39]])
def test_a_resumed_run_that_breaks_again_continues_its_incident(
    run_server: Start, dial: Dial, batches: list[int]
) -> None:
    """Wherever the records are cut, and with many records after it in the same batch."""
    server = run_server()
    first = fail(server, dial, state="finished")
    client = dial(server.base, "r1", server.token, attempt="a2")
    loss, at = [1.0 + 0.01 * (step % 7) for step in range(99)] + [math.nan] * 200, 0
    for size in [*batches[:-1], 299 - sum(batches[:-1])]:
        client.acked(client.train(range(2 + at, 2 + at + size), loss=loss[at : at + size]))
        at += size
    again = nan_alert(server)
    assert (again.state, again.episode, again.incident) == ("firing", 2, first.incident)
    assert health(server) == "critical"
    assert [each.state for each in server.services.reader.incidents("r1")] == ["open"]


def test_the_other_ranks_of_a_failed_run_raise_no_alert(run_server: Start, dial: Dial) -> None:
    """Ranks that continue briefly after one has failed leave nothing open."""
    server = run_server(restart_grace_s=0.0)
    first, second = (dial(server.base, "r1", server.token, rank=rank, world_size=2) for rank in (0, 1))
    first.acked(first.train([0], loss=[1.0]))
    first.send(Finish(0, time.time_ns(), state="failed", records=1))
    first.acked(0, 0)
    second.acked(second.train([0, 1], loss=[1.0, math.nan]))
    assert {state for _, state in alerts(server, "r1")} <= {"ended", "resolved"}


def test_ended_runs_leave_memory_and_keep_their_row(run_server: Start, dial: Dial, eventually: Any) -> None:
    """A run that ended some time ago is unloaded; its row stays, and its client may reconnect."""
    server = run_server()
    client = dial(server.base, "r1", server.token)
    client.train([0], loss=[1.0])
    client.send(Finish(0, time.time_ns(), records=1))
    client.acked(0, 0)
    client.socket.close()
    eventually(lambda: not server.pipeline.registry.active["r1"].connected, "the trainer to go")
    run = server.pipeline.registry.active["r1"]
    server.call(lambda: server.pipeline.changes.tidy(run, time.time_ns() + 10**12))
    assert server.pipeline.registry.active == {}
    assert server.rows()[0]["state"] == "finished"
    assert dial(server.base, "r1", server.token).welcome.seq == 0


def test_a_deleted_run_starts_again(run_server: Start, dial: Dial) -> None:
    """The client of a deleted run is asked to reconnect."""
    server = run_server()
    client = dial(server.base, "r1", server.token)
    client.acked(client.train([0], loss=[1.0]))
    server.call(lambda: server.pipeline.changes.forget("r1"))
    client.train([1], loss=[1.0])
    assert client.ended() == 4503


@pytest.mark.both_databases
def test_a_process_of_a_deleted_run_never_writes_as_another(run_server: Start, dial: Dial) -> None:
    """A run that is created again numbers its processes from scratch: clients of the old run are rejected."""
    server = run_server()
    first = dial(server.base, "r1", server.token, rank=0)
    first.acked(first.train(range(100), loss=[1.0] * 100))
    assert httpx.delete(f"{server.base}/api/v1/runs/r1", headers=bearer(server)).status_code == 204
    second = again(dial, server, rank=1)
    first.train([100], loss=[2.0])
    assert first.ended() == 4503
    second.acked(second.train([0, 1], loss=[3.0, 4.0]))
    assert losses(server, "r1") == [3.0, 4.0]
    assert server.pipeline.registry.active["r1"].connected


def bearer(server: Any) -> dict[str, str]:
    return {"authorization": f"Bearer {server.token}"}


def again(dial: Dial, server: Any, **hello: Any) -> Any:
    """Connect a client repeatedly until the rows of the deleted run are gone."""
    ends = time.monotonic() + 30.0
    while time.monotonic() < ends:
        client = dial(server.base)
        client.send(hello_of("r1", server.token, **hello))
        if isinstance(client.receive(object), Welcome):
            return client
    raise AssertionError("the rows of the deleted run did not go")


def test_a_chart_over_http_has_every_bit(run_server: Start, dial: Dial) -> None:
    """A page gets exactly what was sent: NaN payloads, infinities, -0.0, the smallest number."""
    words = [0x7FF8000000000000, 0x7FF8DEADBEEF0001, 0xFFF8000000000001, 0x7FF0000000000000,
             0xFFF0000000000000, 0x8000000000000000, 0x1]  # fmt: skip
    sent = np.array(words, dtype="<u8")
    server = run_server()
    client = dial(server.base, "r1", server.token)
    client.acked(client.train(range(len(sent)), loss=sent.view("<f8").tolist()))
    answer = httpx.get(
        f"{server.base}/api/v1/runs/r1/series",
        params={"names": "loss"},
        headers={"authorization": f"Bearer {server.token}"},
    ).json()
    reported = base64.b64decode(answer["series"]["loss"][0]["first"]["bdata"])
    assert np.frombuffer(reported, "<u8").tolist() == words


def alerts_of(server: Any, run: str) -> set[tuple[Any, ...]]:
    """Return every alert of a run, without what depends on the clock."""
    items = server.get("/alerts", run=run)["items"]
    names = ("rule", "subject", "severity", "state", "onset_step", "fired_step", "resolved_step")
    found = [(item["id"].removeprefix(run), *(item[name] for name in names)) for item in items]
    assert len(found) == len(set(found))
    return set(found)


@pytest.mark.parametrize("pause_s", [0.0, 0.15])
def test_kill_minus_nine_changes_nothing(start_server: Start, dial: Dial, pause_s: float) -> None:
    """Killed at any moment, the server has every record once, and the alerts of an undisturbed run."""
    server = start_server()
    sent = [math.nan if step % 60 == 7 else 1.0 + step % 3 for step in range(300)]
    client = dial(server.base, "killed", server.token)
    for step in range(200):
        client.train([step], loss=[sent[step]])
    acked = client.receive(Ack).seq
    time.sleep(pause_s)  # not a wait: the moment of the kill
    server.process.kill()
    server.process.wait(30)
    again = start_server()
    client, unharmed = dial(again.base, "killed", again.token), dial(again.base, "unharmed", again.token)
    assert client.welcome.seq >= acked
    for one in (client, unharmed):
        for step in range(one.welcome.seq + 1, 300):
            one.train([step], loss=[sent[step]])
        one.acked(299)
    items = again.get("/runs/killed/records", limit=1000)["items"]
    assert [item["step"] for item in items] == list(range(300))
    assert alerts_of(again, "killed") == alerts_of(again, "unharmed") != set()
