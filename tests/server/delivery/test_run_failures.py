"""A failed run raises an alert that is sent within seconds; imported or old failures are not."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import pytest

from tocsin.protocol import Event, Finish

Start = Callable[..., Any]
QUICK = {"notify_private_addresses": True, "notify_poll_s": 0.05}
pytestmark = pytest.mark.usefixtures("url")
ONLY = {"name": "all", "matchers": ['rule=~"run-failed|nonfinite-loss"']}
"""Other rules may also fire for runs that fail in the same way."""
OOM = {
    "type": "OutOfMemoryError",
    "message": "CUDA out of memory",
    "lines": ['  File "train.py", line 7, in step', "    loss.backward()"],
}


def end(client: Any, state: str = "failed", error: Any = OOM, age_s: float = 0.0) -> None:
    """Report the end of the run, and wait until it is durable."""
    reported = {"error": error} if state == "failed" else {}
    client.send(
        Finish(0, time.time_ns() - int(age_s * 1e9), state=state, records=client.next_seq, **reported)
    )
    client.acked(client.next_seq - 1, 0)
    client.socket.close()


def train(server: Any, dial: Any, run: str = "r1", loss: float = 1.0, attempt: str = "a1") -> Any:
    """Send two steps of an attempt; a later attempt continues after the first."""
    client = dial(server.base, run, server.token, attempt=attempt)
    client.acked(client.train([0, 1] if attempt == "a1" else [2, 3], loss=[1.0, loss]))
    return client


def notified(receiver: Any) -> list[Any]:
    """Return the reason of each notification, and run and rule of its alerts."""
    return [
        (received.json["reason"], [(alert["run_id"], alert["rule"]) for alert in received.json["alerts"]])
        for received in receiver.received
    ]


@pytest.mark.both_databases
def test_a_run_that_fails_is_notified_with_its_last_lines(
    run_server: Start, dial: Any, receive: Any, admin_api: Any, eventually: Any
) -> None:
    """No alert is open: the notification has run, type, message, last lines, and a link to the incident."""
    server, receiver = run_server(**QUICK), receive()
    api = admin_api(server)
    api.hook(receiver.url)
    end(train(server, dial))
    eventually(lambda: receiver.received, "the webhook to be called")
    message = receiver.received[0].json
    assert (message["title"], message["severity"], message["status"], message["reason"]) == (
        "Run crashed: OutOfMemoryError: CUDA out of memory · r1 · project",
        "critical",
        "firing",
        "new",
    )
    for part in (
        "r1 crashed at step 1: OutOfMemoryError: CUDA out of memory",
        "loss.backward()",
        "First action: Reduce the batch size",
        "/incidents/r1.",
    ):
        assert part in message["text"]
    eventually(lambda: api.states() == ["sent"], "the delivery to be marked")
    (alert,) = api.get("/alerts")["items"]
    assert (alert["rule"], alert["state"], alert["severity"]) == ("run-failed", "firing", "critical")


def test_runs_that_crash_at_the_same_line_notify_once(
    run_server: Start, dial: Any, receive: Any, admin_api: Any, eventually: Any
) -> None:
    """A bad push: another exception of the project is notified, the second run of the first is not."""
    server, receiver = run_server(**QUICK), receive()
    api = admin_api(server)
    api.hook(receiver.url)
    clients = [dial(server.base, run, server.token, host=f"node of {run}") for run in ("r1", "r2", "r3")]
    for client in clients:
        client.acked(client.train([0, 1], loss=[1.0, 1.0]))
    end(clients[0])
    eventually(lambda: receiver.received, "the first crash")
    end(clients[1])
    end(clients[2], error=OOM | {"lines": ['  File "/x/train.py", line 9, in step']})
    eventually(lambda: len(receiver.received) == 2, "the other exception")
    assert [[run for run, _ in alerts] for _, alerts in notified(receiver)] == [["r1"], ["r3"]]
    runs = [{run["id"] for run in incident["runs"]} for incident in api.get("/incidents")["items"]]
    assert sorted(runs, key=len) == [{"r3"}, {"r1", "r2"}]


def test_a_failure_does_not_wait_for_the_next_notification_of_its_run(
    run_server: Start, dial: Any, receive: Any, admin_api: Any, eventually: Any
) -> None:
    """After a recent critical alert, it is sent at once, with the alert that still fires."""
    server, receiver = run_server(**QUICK), receive()
    routing = {"routes": [ONLY | {"group_wait_s": 0, "group_interval_s": 600}]}
    admin_api(server).hook(receiver.url, routing=routing)
    client = train(server, dial, loss=math.nan)
    eventually(lambda: receiver.received, "the alert to be sent")
    end(client)
    eventually(lambda: len(receiver.received) == 2, "the failure")
    nan, failed = ("r1", "nonfinite-loss"), ("r1", "run-failed")
    assert notified(receiver) == [("new", [nan]), ("new", [failed, nan])]


def test_alert_and_failure_of_one_moment_are_one_notification(
    run_server: Start, dial: Any, receive: Any, admin_api: Any, eventually: Any
) -> None:
    """If the run fails before its alert is sent, both are in one notification."""
    server, receiver = run_server(**QUICK), receive()
    admin_api(server).hook(receiver.url, routing={"routes": [ONLY | {"group_wait_s": 2}]})
    end(train(server, dial, loss=math.nan))
    eventually(lambda: receiver.received, "the webhook to be called")
    assert notified(receiver) == [("new", [("r1", "run-failed"), ("r1", "nonfinite-loss")])]


def test_only_a_failure_of_now_is_notified(
    run_server: Start, dial: Any, receive: Any, admin_api: Any, eventually: Any
) -> None:
    """A finished run, one stopped by Ctrl-C and an import are not reported; one from a spool is in a digest.

    The digest is sent a minute later.
    """
    server, receiver = run_server(**QUICK), receive()
    api = admin_api(server)
    routing = {"routes": [{"name": "a", "matchers": ['severity!="info"'], "group_wait_s": 0}]}
    api.hook(receiver.url, routing=routing)
    end(train(server, dial, "well"), state="finished")
    end(train(server, dial, "stopped"), error={"type": "KeyboardInterrupt"})
    end(train(server, dial, "old"), age_s=700)
    imported = dial(server.base, "imported", server.token)
    imported.send(Event(0, "imported", time.time_ns()))
    imported.train([0], loss=[1.0])
    imported.send(Finish(1, time.time_ns(), state="failed", records=1, error=OOM))
    imported.acked(0, 1)
    end(train(server, dial, "bad"))
    eventually(lambda: receiver.received, "the one that is sent")
    assert notified(receiver) == [("new", [("bad", "run-failed")])]
    with server.services.database.reader.connect() as connection:
        kinds = connection.exec_driver_sql("SELECT kind FROM notify_group ORDER BY kind").scalars().all()
    assert list(kinds) == ["alerts", "late"]


def test_that_a_run_continues_is_sent_where_its_failure_was(
    run_server: Start, dial: Any, receive: Any, admin_api: Any, eventually: Any
) -> None:
    """When a new attempt starts, one more notification says so."""
    server, receiver = run_server(**QUICK), receive()
    api = admin_api(server)
    api.hook(receiver.url, routing={"routes": [ONLY | {"group_wait_s": 0, "group_interval_s": 1}]})
    end(train(server, dial))
    eventually(lambda: receiver.received, "the failure")
    train(server, dial, attempt="a2")
    eventually(lambda: len(receiver.received) == 2, "that it continues")
    assert notified(receiver) == [("new", [("r1", "run-failed")]), ("resolved", [("r1", "run-failed")])]
    assert receiver.received[1].json["title"] == "Run continues in a new attempt · r1 · project"
    assert receiver.received[1].json["status"] == "resolved"


def test_alerts_of_a_run_that_fails_and_comes_back_do_not_flap(
    run_server: Start, dial: Any, receive: Any, admin_api: Any, eventually: Any
) -> None:
    """One notification covers failure and new attempt: the alerts are neither resolved nor new."""
    server, receiver = run_server(**QUICK), receive()
    admin_api(server).hook(
        receiver.url, routing={"routes": [ONLY | {"group_wait_s": 0, "group_interval_s": 1}]}
    )
    end(train(server, dial, loss=math.nan))
    failed = ("r1", "run-failed")
    eventually(lambda: any(failed in alerts for _, alerts in notified(receiver)), "the failure")
    train(server, dial, loss=math.nan, attempt="a2")
    eventually(lambda: any("resolved" in each for each in notified(receiver)), "that the run continues")
    every = [alert for received in receiver.received for alert in received.json["alerts"]]
    alerts = [alert for alert in every if alert["rule"] == "nonfinite-loss"]
    assert {(alert["id"], alert["over"]) for alert in alerts} == {(alerts[0]["id"], False)}
    assert [alert["new"] for alert in alerts] == [True] + [False] * (len(alerts) - 1)
    life = admin_api(server).get(f"/alerts/{alerts[0]['id']}/history")["items"]
    assert [line["text"] for line in life if line["kind"] == "run"] == [
        "The run failed: OutOfMemoryError: CUDA out of memory",
        "Attempt 2 began",
    ]


def test_a_failure_counts_although_another_rank_finished(
    run_server: Start, dial: Any, admin_api: Any, eventually: Any
) -> None:
    """Rank 1 finishes while rank 0 reconnects, which ends the run; then rank 0 reports that it crashed."""
    server = run_server(**QUICK)
    train(server, dial).socket.close()
    other = dial(server.base, "r1", server.token, attempt="a1", rank=1, world_size=2)
    run = server.pipeline.registry.active["r1"]
    state = next(each for each in run.writers.values() if each.writer.rank == 1)
    eventually(lambda: not run.others_continue(state), "rank 0 to be disconnected")
    end(other, state="finished")
    api = admin_api(server)
    assert api.get("/runs/r1")["state"] == "finished"
    end(dial(server.base, "r1", server.token, attempt="a1"))
    row = api.get("/runs/r1")
    assert (row["state"], row["health"], row["outcome"]["kind"]) == ("failed", "critical", "crashed")


def test_an_acknowledgement_before_the_end_counts_after_a_restart_too(
    run_server: Start, dial: Any, admin_api: Any
) -> None:
    """The row of the run is the same in both."""
    server = run_server(**QUICK)
    client, api = train(server, dial, loss=math.nan), admin_api(server)
    (alert,) = api.get("/alerts")["items"]
    assert api.ask("POST", f"/alerts/{alert['id']}/ack", note="mine").status_code == 200
    end(client, state="finished")
    assert api.get("/runs/r1")["outcome"]["acknowledged"]
    server.stop()
    api = admin_api(run_server(**QUICK))
    assert api.get("/runs/r1")["outcome"]["acknowledged"]


def test_silences_and_alertmanagers_know_failures(
    run_server: Start,
    dial: Any,
    receive: Any,
    admin_api: Any,
    eventually: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A failure has the label rule="run-failed": a silence holds it back, and Alertmanager gets it as an
    alert."""
    monkeypatch.setattr("tocsin_server.notify.channels.alertmanager.PUSH_S", 0.5)
    server, receiver, manager = run_server(**QUICK), receive(), receive()
    api = admin_api(server)
    api.hook(receiver.url)
    api.ask("POST", "/channels", name="am", kind="alertmanager", config={"url": manager.url})
    ends = (time.time() + 3600) * 1000
    api.ask("POST", "/silences", matchers=['rule="run-failed"', 'run="r1"'], ends_ms=ends, reason="known")
    end(train(server, dial))
    end(train(server, dial, "r2"))
    eventually(lambda: receiver.received, "the run that is not silenced")
    assert notified(receiver) == [("new", [("r2", "run-failed")])]
    eventually(lambda: manager.received and "r2" in str(manager.received[-1].json), "the push")
    pushed = [each for each in manager.received[-1].json if each["labels"].get("run") == "r2"]
    assert pushed[0]["labels"]["alertname"] == "run-failed"
    assert pushed[0]["annotations"]["summary"] == "OutOfMemoryError: CUDA out of memory"


def test_a_problem_that_begins_again_in_the_next_attempt_is_notified_again(
    run_server: Start, dial: Any, receive: Any, admin_api: Any, eventually: Any
) -> None:
    """As news of the same incident. An attempt that ends before it can be called healthy is no news."""
    server, receiver = run_server(**QUICK), receive()
    admin_api(server).hook(
        receiver.url, routing={"routes": [ONLY | {"group_wait_s": 0, "group_interval_s": 1}]}
    )
    end(train(server, dial, loss=math.nan), "finished")
    eventually(lambda: any(each["over"] for each in alerts_in(receiver)), "the end of the first attempt")
    before = len(receiver.received)
    end(train(server, dial, attempt="a2"), "finished")
    train(server, dial, loss=math.nan, attempt="a3")
    eventually(lambda: len(receiver.received) > before, "the next message")
    assert notified(receiver)[before:] == [("new", [("r1", "nonfinite-loss")])]
    first, *_, last = alerts_in(receiver)
    assert (last["id"], last["incident"]) == (first["id"].removesuffix("1") + "2", first["incident"])


def alerts_in(receiver: Any) -> list[dict[str, Any]]:
    return [alert for received in receiver.received for alert in received.json["alerts"]]
