"""Messages, Alertmanagers and the dead man's switch ping of a running server."""

from __future__ import annotations

import io
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tocsin import protocol
from tocsin.protocol import Finish
from tocsin_server.store.outbox import Notification

Start = Callable[..., Any]
QUICK = {"notify_private_addresses": True, "notify_poll_s": 0.05}


def active(receiver: Any) -> list[dict[str, str]]:
    """Return the labels of all alerts that fire according to the newest push."""
    now = time.time()
    pushed = receiver.received[-1].json if receiver.received else []
    return [each["labels"] for each in pushed if np.datetime64(each["endsAt"][:19]).astype(int) > now]


def names(receiver: Any) -> list[str]:
    return sorted(labels["alertname"] for labels in active(receiver))


def test_an_alertmanager_is_kept_as_the_alerts_are(
    run_server: Start,
    dial: Any,
    receive: Any,
    admin_api: Any,
    eventually: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The watchdog always fires. An alert that its run ended with fires until it is acknowledged."""
    monkeypatch.setattr("tocsin_server.notify.channels.alertmanager.PUSH_S", 0.5)
    server, receiver = run_server(**QUICK), receive()
    api = admin_api(server)
    made = api.ask("POST", "/channels", name="am", kind="alertmanager", config={"url": receiver.url})
    assert made.status_code == 201
    client = dial(server.base, "r1", server.token)
    client.acked(client.train([0, 1], loss=[1.0, math.nan]))
    eventually(lambda: names(receiver) == ["Watchdog", "nonfinite-loss"], "the alert to be pushed")
    assert receiver.received[-1].path == "/api/v2/alerts"
    client.send(Finish(0, time.time_ns(), records=2))
    client.acked(1, 0)
    (alert,) = api.get("/alerts?state=ended")["items"]
    pushed = len(receiver.received)
    eventually(lambda: len(receiver.received) > pushed + 1, "a push after the end")
    assert names(receiver) == ["Watchdog", "nonfinite-loss"]
    api.ask("POST", f"/alerts/{alert['id']}/ack", note="known")
    eventually(lambda: names(receiver) == ["Watchdog"], "its end to be pushed")
    assert api.get("/deliveries")["items"] == []


def test_a_silenced_alert_is_over_for_alertmanager(
    run_server: Start, dial: Any, receive: Any, admin_api: Any, eventually: Any
) -> None:
    """Silences of tocsin apply to Alertmanager too."""
    server, receiver = run_server(**QUICK), receive()
    api = admin_api(server)
    ends = (time.time() + 3600) * 1000
    api.ask("POST", "/silences", matchers=['run_id="r1"'], ends_ms=ends, reason="known")
    api.ask("POST", "/channels", name="am", kind="alertmanager", config={"url": receiver.url})
    for run in ("r1", "r2"):
        client = dial(server.base, run, server.token)
        client.acked(client.train([0, 1], loss=[1.0, math.nan]))
    eventually(lambda: any(each.get("run_id") == "r2" for each in active(receiver)), "the other run's alert")
    assert not any(each.get("run_id") == "r1" for each in active(receiver))


def test_the_ping_reports_health(run_server: Start, receive: Any, eventually: Any) -> None:
    """The ping goes to /fail while a channel is failing."""
    well = receive()
    run_server(ping_url=f"{well.url}/abc", ping_s=0.05)
    eventually(lambda: len(well.received) > 1, "two pings")
    assert {each.path for each in well.received} == {"/abc"}


def test_the_ping_reports_failing_deliveries(
    run_server: Start, dial: Any, receive: Any, admin_api: Any, eventually: Any
) -> None:
    """An external service therefore learns that notifications cannot be delivered."""
    ping, broken = receive(), receive(404)
    server = run_server(ping_url=f"{ping.url}/abc", ping_s=0.05, **QUICK)
    admin_api(server).hook(broken.url)
    client = dial(server.base, "r1", server.token)
    client.acked(client.train([0, 1], loss=[1.0, math.nan]))
    eventually(lambda: ping.received and ping.received[-1].path == "/abc/fail", "the ping to report it")
    assert {each.path for each in ping.received} <= {"/abc", "/abc/fail"}


def test_a_message_contains_a_chart_of_its_signal(run_server: Start, dial: Any, admin_api: Any) -> None:
    """The chart is drawn from the stored records around the onset, and left out without records."""
    server = run_server()
    client = dial(server.base, "r1", server.token)
    client.acked(client.train(range(100), loss=[1.0] * 60 + [math.nan] + [1.0] * 39))
    (alert,) = admin_api(server).get("/alerts?run=r1")["items"]
    reported = alert | {"over": False, "new": True, "acked": False}
    body = {"reason": "new", "route": "", "group_labels": {}, "alerts": [reported], "left_out": 0}
    item = Notification("n1", "c", "g", "alerts", "t", body)
    message = server.services.delivery.compose(item, True)
    assert message.picture is not None
    assert Image.open(io.BytesIO(message.picture)).size == (640, 240)
    assert message.text.count("/incidents/r1.") == 1
    absent = Notification("n2", "c", "g", "alerts", "t", body | {"alerts": [reported | {"run_id": "gone"}]})
    assert server.services.delivery.compose(absent, True).picture is None


def test_a_message_about_several_runs_leaves_out_a_deleted_one(
    run_server: Start, dial: Any, admin_api: Any
) -> None:
    """It was enqueued before the deletion, and is still sent for the other run."""
    server = run_server()
    client = dial(server.base, "r1", server.token)
    client.acked(client.train(range(2), loss=[1.0, math.nan]))
    (alert,) = admin_api(server).get("/alerts?run=r1")["items"]
    reported = alert | {"over": False, "new": True, "acked": False}
    both = [reported | {"run_id": "deleted", "run_name": "deleted"}, reported]
    body = {"reason": "new", "route": "", "group_labels": {}, "alerts": both, "left_out": 0}
    message = server.services.delivery.compose(Notification("n1", "c", "g", "alerts", "t", body), False)
    assert [alert["run_id"] for alert in message.body["alerts"]] == ["r1"]
    assert "deleted" not in message.title + message.text


def test_a_message_names_the_last_good_checkpoint_before_the_onset(
    run_server: Start, dial: Any, admin_api: Any
) -> None:
    """Not the newest one, which was written after it."""
    server = run_server()
    client = dial(server.base, "r1", server.token)
    seq = client.train(range(100), loss=[1.0] * 60 + [math.nan] * 40)
    for no, step in enumerate((40, 80)):
        data = {"path": f"/w/ckpt_{step}.pt", "complete": True}
        client.send(protocol.Event(no, "checkpoint", time.time_ns(), step, data))
    client.acked(seq, 1)
    alerts = admin_api(server).get("/alerts?run=r1")["items"]
    reported = [alert | {"over": False, "new": True, "acked": False} for alert in alerts]
    body = {"reason": "new", "route": "", "group_labels": {}, "alerts": reported, "left_out": 0}
    message = server.services.delivery.compose(Notification("n1", "c", "g", "alerts", "t", body), False)
    assert "Last good checkpoint: ckpt_40.pt (step 40, 20 steps before the onset" in message.text
    assert message.body["alerts"][0]["resume"]["path"] == "/w/ckpt_40.pt"
    over = [alert | {"over": True, "new": False, "state": "resolved"} for alert in reported]
    resolved = Notification("n2", "c", "g", "alerts", "t", body | {"reason": "resolved", "alerts": over})
    assert "resume" not in server.services.delivery.compose(resolved, False).body["alerts"][0]


def test_the_pages_find_what_the_browser_channel_holds(
    run_server: Start, dial: Any, admin_api: Any, eventually: Any
) -> None:
    """In order, with a cursor, and also after all pages were closed."""
    server = run_server(**QUICK)
    api = admin_api(server)
    assert api.ask("POST", "/channels", name="pages", kind="browser").status_code == 201
    api.ask("PUT", "/routes", routes=[{"name": "all", "group_wait_s": 0}])
    for run in ("r1", "r2"):
        client = dial(server.base, run, server.token)
        client.acked(client.train([0, 1], loss=[1.0, math.nan]))
        eventually(lambda run=run: run in str(api.get("/notifications")), "its notification")
    notes = api.get("/notifications")
    assert [note["alerts"][0]["run_id"] for note in notes["items"]] == ["r1", "r2"]
    behind = api.get(f"/notifications?after={notes['items'][0]['id']}")["items"]
    assert [note["alerts"][0]["run_id"] for note in behind] == ["r2"]
    assert api.get(f"/notifications?after={notes['next']}") == {"items": [], "next": notes["next"]}
