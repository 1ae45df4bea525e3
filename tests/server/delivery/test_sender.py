"""Deliveries are retried in order, independently for each channel, and never lost."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from sqlalchemy import update
from sqlalchemy.engine import URL

from tests.matrix import ALL, SQLITE
from tocsin_server.store import outbox
from tocsin_server.store.database import open_database
from tocsin_server.store.outbox import Attempt, Notification
from tocsin_server.store.tables import notification

Start = Callable[..., Any]
QUICK = {"notify_private_addresses": True, "notify_poll_s": 0.05}
QUICK_ENV = {
    "TOCSIN_NOTIFY_PRIVATE_ADDRESSES": "true",
    "TOCSIN_NOTIFY_POLL_S": "0.05",
    "TOCSIN_NOTIFY_TIMEOUT_S": "10",
}
ANSWERS: dict[str, list[Any]] = {"waiting": [503, 200], "claimed": [503, 200], "sending": ["hang", 200]}
AT_ONCE = {"routes": [{"name": "all", "group_wait_s": 0, "group_interval_s": 1}]}
ROUTINGS: dict[str, Any] = {"not routed": {"routes": [{"name": "all", "group_wait_s": 3}]}}


def fire(client: Any) -> None:
    """Send a step with a NaN loss, and wait until it is durable."""
    client.acked(client.train([0, 1], loss=[1.0, math.nan]))


def test_an_alert_reaches_a_webhook(
    run_server: Start, dial: Any, receive: Any, admin_api: Any, eventually: Any
) -> None:
    """From a step to a POST, with its log line, its mark, and its entry in the alert's history."""
    server, receiver = run_server(**QUICK), receive()
    api = admin_api(server)
    api.hook(receiver.url)
    fire(dial(server.base, "r1", server.token))
    eventually(lambda: receiver.received, "the webhook to be called")
    (alert,) = receiver.received[0].json["alerts"]
    assert (alert["rule"], alert["run_id"], alert["onset_step"]) == ("nonfinite-loss", "r1", 1)
    eventually(lambda: api.states() == ["sent"], "the delivery to be marked")
    (item,) = api.get("/deliveries")["items"]
    assert [(line["no"], line["outcome"]) for line in item["attempts"]] == [(1, "sent")]
    text = api.get(f"/deliveries/{item['id']}/message")["text"]
    assert "Likely cause" in text
    assert "Acknowledge:" not in text
    kinds = [line["kind"] for line in api.get(f"/alerts/{alert['id']}/history")["items"]]
    assert kinds == ["transition", "notification"]


def test_a_channel_that_hangs_delays_no_other_and_no_step(
    run_server: Start, dial: Any, receive: Any, admin_api: Any, eventually: Any
) -> None:
    """While one receiver hangs, the other is called and records become durable."""
    server, stuck, well = run_server(**QUICK), receive("hang"), receive()
    api = admin_api(server)
    api.hook(stuck.url, "stuck")
    api.hook(well.url, "well")
    client = dial(server.base, "r1", server.token)
    fire(client)
    eventually(lambda: stuck.received and well.received, "both to be called")
    client.acked(client.train(range(2, 500), loss=[1.0] * 498))
    fire(dial(server.base, "r2", server.token))
    eventually(
        lambda: {each.json["alerts"][0]["run_id"] for each in well.received} == {"r1", "r2"},
        "the second run's alert",
    )
    assert len(stuck.received) == 1
    assert not stuck.release.is_set()


def test_a_busy_receiver_is_retried_after_its_delay(
    run_server: Start, dial: Any, receive: Any, admin_api: Any, eventually: Any
) -> None:
    """After 429 with Retry-After, the next attempt is due at that time; health names the channel until
    then."""
    server, receiver = run_server(**QUICK), receive((429, {"Retry-After": "120"}), 200)
    api = admin_api(server)
    api.hook(receiver.url)
    fire(dial(server.base, "r1", server.token))
    (item,) = eventually(lambda: [i for i in api.get("/deliveries")["items"] if i["error"]], "the failure")
    assert (item["state"], item["attempts"][0]["outcome"], item["error"]) == (
        "waiting",
        "retry",
        "429 Too Many Requests",
    )
    assert item["due_ms"] >= item["attempts"][0]["at_ms"] + 120_000
    eventually(lambda: api.get("/health")["notifications"]["failing"] == ["hook"], "health to name it")


def test_a_permanent_error_is_not_retried_automatically(
    run_server: Start, dial: Any, receive: Any, admin_api: Any, eventually: Any
) -> None:
    """A 404 is permanent. A manual retry sends the notification again, and health recovers."""
    server, receiver = run_server(**QUICK), receive(404, 200)
    api = admin_api(server)
    api.hook(receiver.url)
    fire(dial(server.base, "r1", server.token))
    eventually(lambda: api.states() == ["failed"], "the delivery to be given up")
    (item,) = api.get("/deliveries")["items"]
    assert api.ask("POST", f"/deliveries/{item['id']}/retry").json()["state"] == "waiting"
    eventually(lambda: api.states() == ["sent"], "the second attempt")
    assert api.ask("POST", f"/deliveries/{item['id']}/retry").status_code == 404
    well = {"waiting": 0, "failed": 0, "failing": [], "trouble": ""}
    eventually(lambda: api.get("/health")["notifications"] == well, "health to be well")


STAGES = ("not committed", "not routed", "waiting", "claimed", "sending", "sent and not marked")
KILLED = [
    *((SQLITE, stage) for stage in STAGES),
    *(
        pytest.param("postgresql", stage, marks=pytest.mark.postgres)
        for stage in (STAGES if ALL else ("claimed",))
    ),
]
"""On Postgres other servers may hold claims, so a claim has to expire first, which takes up to 20 s."""


@pytest.mark.parametrize(("url", "stage"), KILLED, indirect=["url"])
def test_killed_at_any_stage_each_notification_arrives(
    start_server: Start, dial: Any, receive: Any, admin_api: Any, eventually: Any, url: URL, stage: str
) -> None:
    """SIGKILL before the commit, before routing, in the outbox, between claim and sending, during the
    request, and before the result is stored. The notification arrives each time, and the alert is
    unchanged."""
    receiver = receive(*ANSWERS.get(stage, [200]))
    slow = {"TOCSIN_COMMIT_MS": "60000"} if stage == "not committed" else {}
    server = start_server(**QUICK_ENV, **slow)
    admin_api(server).hook(receiver.url, routing=ROUTINGS.get(stage, AT_ONCE))
    if stage == "sent and not marked":
        receiver.answer = partial(_kill_then_answer, receiver.answer, server)
    client = dial(server.base, "r1", server.token)
    client.acked(client.train([0], loss=[1.0]))
    client.train([1], loss=[math.nan])
    if stage != "not committed":
        client.acked(1)
    _reach(stage, admin_api(server), receiver, eventually)
    if server.process.poll() is None:
        server.stop(signal.SIGKILL)
    server.process.wait(60)
    received = len(receiver.received)
    if stage == "claimed":
        _claim(url)
    again = start_server(**QUICK_ENV)
    if stage == "not committed":
        assert admin_api(again).get("/alerts")["items"] == []
        back = dial(again.base, "r1", again.token)
        back.acked(back.train([1], loss=[math.nan]))
    eventually(lambda: admin_api(again).states() == ["sent"], "the notification to be delivered")
    assert len(receiver.received) == received + 1
    assert {each.json["alerts"][0]["rule"] for each in receiver.received} == {"nonfinite-loss"}
    assert len({each.headers["Tocsin-Delivery"] for each in receiver.received}) == 1
    assert [alert["state"] for alert in admin_api(again).get("/alerts")["items"]] == ["firing"]


def _reach(stage: str, api: Any, receiver: Any, eventually: Any) -> None:
    """Wait until the pipeline is at the stage where it will be killed."""
    if stage in ("waiting", "claimed"):
        eventually(
            lambda: any(item["error"] for item in api.get("/deliveries")["items"]),
            "the first attempt to fail",
        )
    elif stage.startswith("sen"):
        eventually(lambda: receiver.received, "the request")


def _claim(url: URL) -> None:
    """Leave what a server leaves that was killed between claim and request."""
    database = open_database(url)
    with database.engine.begin() as connection:
        now_ns = time.time_ns()
        (item,) = outbox.listed(connection)
        connection.execute(update(notification).values(due_ns=now_ns))
        taken = outbox.claim(connection, item.channel_id, "a server that disconnected", now_ns, 3 * 10**9)
        assert taken is not None
    database.close()


def _kill_then_answer(answer: Callable[[Any], None], server: Any, request: Any) -> None:
    if server.process.poll() is None:
        server.process.send_signal(signal.SIGKILL)
        server.process.wait(60)
    answer(request)


@pytest.fixture
def database(url: URL) -> Any:
    """An outbox on SQLite and on Postgres."""
    opened = open_database(url)
    yield opened
    opened.close()


def put(connection: Any, name: str, group: str = "g", now_ns: int = 0) -> None:
    outbox.enqueue(
        connection, Notification(name, "c", group, "alerts", "t", due_ns=now_ns, created_ns=now_ns)
    )


@pytest.mark.both_databases
def test_one_claim_at_a_time(database: Any) -> None:
    """If two servers claim the same notification, one gets it until its claim expires."""
    with database.engine.begin() as connection:
        put(connection, "n1")
        first = outbox.claim(connection, "c", "a", 10, 100)
        assert first is not None
        assert first.attempts == 1
        assert outbox.claim(connection, "c", "b", 20, 100) is None
        second = outbox.claim(connection, "c", "b", 110, 100)
        assert second is not None
        assert (second.owner, second.attempts) == ("b", 2)
        late = Attempt(1, 10, 5, "sent", "")
        assert not outbox.settle(connection, first, late, state="sent", due_ns=0), "its claim had run out"
        assert outbox.settle(connection, second, Attempt(2, 110, 5, "sent", ""), state="sent", due_ns=0)
        assert [line.no for line in outbox.attempts_of(connection, ["n1"])["n1"]] == [1, 2]


@pytest.mark.both_databases
def test_within_a_group_the_older_is_sent_first(database: Any) -> None:
    """The newer notification waits while the older one waits for its next attempt; other groups do not
    wait."""
    with database.engine.begin() as connection:
        for name, group in (("n1", "g"), ("n2", "g"), ("n3", "h")):
            put(connection, name, group)
        first = outbox.claim(connection, "c", "a", 10, 100)
        assert first is not None
        outbox.settle(connection, first, Attempt(1, 10, 5, "retry", "503"), state="waiting", due_ns=10**6)
        order = [outbox.claim(connection, "c", "a", 20, 10**9), outbox.claim(connection, "c", "a", 20, 10**9)]
        assert [item and item.id for item in order] == ["n3", None]
        again = outbox.claim(connection, "c", "a", 2 * 10**6, 10**9)
        assert again is not None
        outbox.settle(connection, again, Attempt(2, 20, 5, "sent", ""), state="sent", due_ns=0)
        younger = outbox.claim(connection, "c", "a", 2 * 10**6, 10**9)
        assert younger is not None
        assert younger.id == "n2"


@pytest.mark.both_databases
def test_old_notifications_are_forgotten(database: Any) -> None:
    """Sent notifications are deleted after 90 days, with their log; waiting ones stay."""
    with database.engine.begin() as connection:
        put(connection, "n1")
        put(connection, "n2", "h")
        item = outbox.claim(connection, "c", "a", 10, 100)
        assert item is not None
        outbox.settle(connection, item, Attempt(1, 10, 5, "sent", ""), state="sent", due_ns=0)
        assert outbox.prune(connection, time.time_ns()) == 1
        assert [left.id for left in outbox.listed(connection)] == ["n2"]
        assert outbox.attempts_of(connection, ["n1"]) == {}
