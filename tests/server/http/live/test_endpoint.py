"""The browsers' socket: real WebSockets and the real application."""

from __future__ import annotations

import base64
import json
import math
import time
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import pytest
from websockets.exceptions import InvalidStatus

from tocsin.protocol import Event
from tocsin_server.http.live.delta import Delta

Start = Callable[..., Any]
Dial = Callable[..., Any]
BatchEvaluator = Callable[..., Any]


def floats(packed: dict[str, str]) -> list[float]:
    return list(np.frombuffer(base64.b64decode(packed["bdata"]), "<f8").tolist())


def test_the_fleet_is_sent_and_updated(run_server: Start, dial: Dial, watch: BatchEvaluator) -> None:
    """A page gets every row first, and then the rows that change, without sparklines."""
    server = run_server()
    client = dial(server.base, "r1", server.token)
    client.acked(client.train([0, 1], loss=[1.0, math.nan]))
    page = watch(server.base, server.token)
    page.send({"type": "subscribe", "id": 7, "view": "fleet"})
    row = page.receive("fleet")["items"][0]
    assert (row["id"], row["last_step"], row["last"]["loss"]) == ("r1", 1, "NaN")
    assert "sparks" not in row
    client.train([2], loss=[3.0])
    fresh = page.receive("fleet", lambda frame: any(row["last_step"] == 2 for row in frame["items"]))
    assert fresh["id"] == 7


def test_the_fleet_begins_with_what_changed_since_its_cursor(
    run_server: Start, dial: Dial, watch: BatchEvaluator
) -> None:
    """A page that has all rows does not get them again."""
    server = run_server()
    clients = [dial(server.base, run, server.token) for run in ("r1", "r2")]
    for client in clients:
        client.acked(client.train([0], loss=[1.0]))
    page = watch(server.base, server.token)
    page.send({"type": "subscribe", "id": 1, "view": "fleet"})
    page.receive("fleet", lambda frame: len(frame["items"]) == 2)
    changes = server.services.live.changes
    cursor = changes.cursor()
    clients[1].train([1], loss=[3.0])
    page.receive("fleet", lambda frame: any(row["last_step"] == 1 for row in frame["items"]))
    changed = changes.since(cursor)
    page.send({"type": "subscribe", "id": 2, "view": "fleet", "cursor": cursor})
    rows = {row["id"] for row in page.receive("fleet", lambda frame: frame["id"] == 2)["items"]}
    assert rows == changed == {"r2"}


def test_a_run_view_gets_every_record_since_its_cursor(
    run_server: Start, dial: Dial, watch: BatchEvaluator
) -> None:
    """From the query's cursor on, deltas have each record and event once, exactly."""
    server = run_server()
    client = dial(server.base, "r1", server.token)
    client.acked(client.train([0], loss=[1.0]))
    cursor = server.services.reader.series("r1", ["loss"]).cursor
    page = watch(server.base, server.token)
    page.send({"type": "subscribe", "id": 1, "view": "run", "run": "r1", "names": ["loss"], "cursor": cursor})
    for step in range(1, 30):
        client.train([step], loss=[math.nan if step == 9 else float(step)], lr=[0.1])
    client.send(Event(0, "checkpoint", time.time_ns(), step=29))
    values: list[float] = []
    events: list[str] = []
    while len(values) < 29 or not events:
        frame = page.receive("run")
        assert set(frame["series"]) <= {"loss"}
        values += [value for layer in frame["series"].get("loss", ()) for value in floats(layer["first"])]
        events += [event["kind"] for event in frame["events"]]
    assert repr(values) == repr([math.nan if step == 9 else float(step) for step in range(1, 30)])
    assert (frame["row"]["last_step"], frame["reported"]) == (29, 2)


def test_deltas_continue_from_the_last_one(run_server: Start, dial: Dial, watch: BatchEvaluator) -> None:
    """Each delta's cursor covers it, and a query from there returns nothing more."""
    server = run_server()
    client = dial(server.base, "r1", server.token)
    page = watch(server.base, server.token)
    page.send({"type": "subscribe", "id": 1, "view": "run", "run": "r1", "cursor": -1})
    client.acked(client.train([0, 1], loss=[1.0, 2.0]))
    cursor = page.receive("run", lambda frame: frame["series"])["cursor"]
    assert cursor == server.services.reader.series("r1", ["loss"]).cursor


def test_a_run_on_screen_is_asked_to_send_more_often(
    run_server: Start, dial: Dial, watch: BatchEvaluator
) -> None:
    """Each ack carries the interval; when the page is closed, it is the usual one again."""
    server = run_server(flush_ms=200, flush_ms_watched=70)
    client = dial(server.base, "r1", server.token)
    page = watch(server.base, server.token)
    page.send({"type": "subscribe", "id": 1, "view": "run", "run": "r1"})
    page.receive("run")
    assert client.acked(client.train([0], loss=[1.0])).flush_ms == 70
    page.send({"type": "unsubscribe", "id": 1})
    page.send({"type": "subscribe", "id": 2, "view": "fleet"})
    page.receive("fleet")
    assert client.acked(client.train([1], loss=[1.0])).flush_ms == 200


def test_a_cursor_that_is_too_old_gets_resync(run_server: Start, dial: Dial, watch: BatchEvaluator) -> None:
    """If the records since a cursor are not in memory, the page gets resync."""
    server = run_server(live_kept_bytes=1)
    client = dial(server.base, "r1", server.token)
    for step in range(3):
        client.acked(client.train([step], loss=[1.0]))
    page = watch(server.base, server.token)
    page.send({"type": "subscribe", "id": 4, "view": "run", "run": "r1", "cursor": 0})
    assert page.receive("resync")["id"] == 4


def test_alerts_come_at_once_and_whole(run_server: Start, dial: Dial, watch: BatchEvaluator) -> None:
    """Every page gets every alert with its diagnosis, subscribed or not."""
    server = run_server(tick_ms=60_000)
    client = dial(server.base, "r1", server.token, name="<b>")
    page = watch(server.base, server.token)
    page.receive("heartbeat")
    client.train([0, 1], loss=[1.0, math.inf])
    alert = page.receive("alert")["alert"]
    assert (alert["rule"], alert["state"], alert["run_name"]) == ("nonfinite-loss", "firing", "<b>")
    assert alert["diagnosis"]["cause"]


def test_user_changes_are_pushed_to_every_page(run_server: Start, watch: BatchEvaluator) -> None:
    """After a silence, an acknowledgement or a change of a channel, other pages query again."""
    server = run_server()
    page = watch(server.base, server.token)
    page.receive("heartbeat")
    headers = {"authorization": f"Bearer {server.token}"}
    ends = (time.time() + 60) * 1000
    for path, what, body in (
        ("/silences", "silences", {"matchers": ['rule="x"'], "ends_ms": ends, "reason": "r"}),
        ("/channels", "channels", {"name": "page", "kind": "browser"}),
    ):
        answer = httpx.post(f"{server.base}/api/v1{path}", headers=headers, json=body)
        assert answer.status_code == 201, answer.text
        assert page.receive("changed")["what"] == what


def test_the_server_beats(run_server: Start, watch: BatchEvaluator) -> None:
    """A page gets a heartbeat with the backlog at the documented interval, so that it can detect silence."""
    server = run_server(heartbeat_s=0.05)
    page = watch(server.base, server.token)
    first, second = page.receive("heartbeat"), page.receive("heartbeat")
    assert second["now_ms"] >= first["now_ms"]
    assert (first["backlog_bytes"], first["lag_ms"], first["failing"]) == (0, 0, None)


def test_a_browser_that_does_not_read_does_not_affect_others(
    run_server: Start, dial: Dial, watch: BatchEvaluator, eventually: Any
) -> None:
    """A page that never reads is dropped at its limit; another one receives everything."""
    server = run_server(subscriber_bytes=20_000, tick_ms=10, shutdown_s=1.0)
    client = dial(server.base, "r1", server.token)
    slow = watch(server.base, server.token, max_queue=1, close_timeout=0.1)
    slow.send({"type": "subscribe", "id": 1, "view": "run", "run": "r1", "cursor": -1})
    quick = watch(server.base, server.token)
    quick.send({"type": "subscribe", "id": 1, "view": "run", "run": "r1", "names": ["lr"], "cursor": -1})
    room = server.services.live

    def dropped() -> bool:
        client.train(range(500), **{f"s{i}": [0.5] * 500 for i in range(20)}, lr=[0.1] * 500)
        quick.receive("run", lambda frame: "lr" in frame["series"])
        return bool(server.call(lambda: max(one.dropped for one in room.subscribers)))

    eventually(dropped, "the slow page to be dropped")
    assert server.call(lambda: max(one.waiting_bytes for one in room.subscribers)) <= 20_000


def test_the_socket_requires_a_login(run_server: Start, watch: BatchEvaluator) -> None:
    """Without a token that may read, the socket closes with 4401 or 4403."""
    server = run_server()
    page = watch(server.base, "wrong")
    assert page.ended() == 4401


def test_a_page_of_another_site_is_rejected(run_server: Start, watch: BatchEvaluator) -> None:
    """A browser with another Origin is rejected before the handshake completes."""
    server = run_server()
    with pytest.raises(InvalidStatus, match="403"):
        watch(server.base, server.token, origin="http://evil.example")
    watch(server.base, server.token, origin=server.base).receive("heartbeat")


def test_a_revoked_login_is_ended(run_server: Start, watch: BatchEvaluator) -> None:
    """When the token of a page is revoked, its socket closes."""
    server = run_server(heartbeat_s=0.05)
    page = watch(server.base, server.token)
    page.receive("heartbeat")
    server.services.gate.still_valid = lambda _identity: False
    assert page.ended() == 4401


def test_nonsense_is_answered_and_nothing_else(run_server: Start, watch: BatchEvaluator) -> None:
    """Any other message gets an error; socket and server stay."""
    server = run_server()
    page = watch(server.base, server.token)
    for text in ("{", "[1]", json.dumps({"type": "subscribe", "id": 1, "view": "run"})):
        page.send(text)
        assert "expected" in page.receive("refused")["detail"]
    page.send({"type": "subscribe", "id": 1, "view": "fleet"})
    assert page.receive("fleet")["items"] == []


def test_an_unknown_run_is_not_an_error(run_server: Start, watch: BatchEvaluator) -> None:
    """Watching an unknown run is silent, and other views continue."""
    server = run_server()
    page = watch(server.base, server.token)
    page.send({"type": "subscribe", "id": 1, "view": "run", "run": "none", "cursor": 5})
    page.send({"type": "subscribe", "id": 2, "view": "fleet"})
    assert page.receive("fleet")["id"] == 2


def test_many_subscribers_share_one_delta(
    run_server: Start, dial: Dial, watch: BatchEvaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The delta of a run is encoded once per tick, however many pages watch it."""
    made: list[Any] = []

    class Counted(Delta):
        def __init__(self, items: Any) -> None:
            made.append(items)
            super().__init__(items)

    server = run_server()
    client = dial(server.base, "r1", server.token)
    pages = [watch(server.base, server.token) for _ in range(5)]
    for page in pages:
        page.send({"type": "subscribe", "id": 1, "view": "run", "run": "r1", "names": ["loss"], "cursor": -1})
        page.receive("run")
    monkeypatch.setattr("tocsin_server.http.live.endpoint.Delta", Counted)
    client.acked(client.train([0], loss=[1.0]))
    for page in pages:
        page.receive("run", lambda frame: frame["series"])
    assert sum(bool(items) for items in made) == 1


def test_stopping_does_not_wait_for_browsers(run_server: Start, dial: Dial, watch: BatchEvaluator) -> None:
    """With open pages and clients, the server stops cleanly and notifies them."""
    server = run_server()
    page = watch(server.base, server.token)
    client = dial(server.base, "r1", server.token)
    page.receive("heartbeat")
    server.stop()
    assert page.ended() is not None
    assert client.ended() is not None
