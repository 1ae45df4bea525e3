"""Acknowledging over the API, and the history of an alert."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from tests.server.http.api.test_channels import ask


def firing(server: Any, client: Callable[..., Any]) -> str:
    """Return the id of an alert that fires."""
    run = client()
    run.records({"loss": [1.0, math.nan]})
    return str(server.get("/alerts", run=run.run)["items"][0]["id"])


def test_an_alert_is_acknowledged_and_unacknowledged(server: Any, trainer: Callable[..., Any]) -> None:
    """User, time and note; each action is in the alert's history and in the audit log."""
    alert = firing(server, trainer)
    marks = ask(server, "POST", f"/alerts/{alert}/ack", {"note": "mine"}).json()
    assert (marks["ack"]["by"], marks["ack"]["note"]) == ("admin login link", "mine")
    assert abs(marks["ack"]["at_ms"] / 1000 - time.time()) < 60
    assert server.get(f"/alerts/{alert}")["ack"] == marks["ack"]
    assert ask(server, "DELETE", f"/alerts/{alert}/ack").json()["ack"] is None
    assert server.get(f"/alerts/{alert}")["ack"] is None
    life = server.get(f"/alerts/{alert}/history")
    assert [line["kind"] for line in life["items"]] == ["transition", "ack", "unack"]
    assert life["marks"]["ack"] is None


def test_a_silence_marks_matching_alerts(server: Any, trainer: Callable[..., Any]) -> None:
    """The mark is derived, so it disappears with the silence."""
    alert = firing(server, trainer)
    run = alert.rsplit(".", 2)[0]
    body = {"matchers": [f'run_id="{run}"'], "ends_ms": (time.time() + 60) * 1000, "reason": "r"}
    silence = ask(server, "POST", "/silences", body).json()["id"]
    assert server.get(f"/alerts/{alert}/history")["marks"]["silenced_by"] == [silence]
    ask(server, "DELETE", f"/silences/{silence}")
    assert server.get(f"/alerts/{alert}/history")["marks"]["silenced_by"] == []


def test_readers_acknowledge_nothing(server: Any, trainer: Callable[..., Any]) -> None:
    """Scope write is required; an unknown alert is a 404."""
    alert = firing(server, trainer)
    for scope, status in (("read", 403), ("write", 200)):
        token = ask(server, "POST", "/tokens", {"name": scope, "scope": scope}).json()["token"]
        assert ask(server, "POST", f"/alerts/{alert}/ack", {}, token=token).status_code == status
    assert ask(server, "POST", "/alerts/r_0.f.1/ack", {}).status_code == 404
    assert ask(server, "POST", f"/alerts/{alert}/ack", {"note": "x" * 1001}).status_code == 422


def test_a_withdrawn_acknowledgement_leaves_the_other_one(server: Any, trainer: Callable[..., Any]) -> None:
    """The run ended with two alerts, and both were acknowledged."""
    run = trainer()
    values = [1.0] * 10 + [math.nan] * 10
    run.records({"loss": values, "grad_norm": values})
    run.finish()
    ended = [each["id"] for each in server.get("/alerts", run=run.run, state="ended")["items"]][:2]
    for alert in ended:
        ask(server, "POST", f"/alerts/{alert}/ack", {})
    ask(server, "DELETE", f"/alerts/{ended[0]}/ack")
    assert server.get(f"/runs/{run.run}")["outcome"]["acknowledged"]
    ask(server, "DELETE", f"/alerts/{ended[1]}/ack")
    assert not server.get(f"/runs/{run.run}")["outcome"]["acknowledged"]
