"""Incidents over the API: listed, read, acknowledged."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tests.server.http.api.test_channels import ask

NAN = {"loss": [1.0] * 10 + [math.nan] * 10, "grad_norm": [1.0] * 10 + [math.nan] * 10}
"""One incident of two alerts: a loss and a gradient norm that become NaN at the same step."""


def opened(server: Any, client: Callable[..., Any]) -> dict[str, Any]:
    """Return the incident of a run whose loss and norm become NaN."""
    run = client()
    run.records(NAN)
    (incident,) = server.get("/incidents", run=run.run, state="open")["items"]
    return dict(incident)


def test_alerts_of_one_problem_are_one_incident(server: Any, trainer: Callable[..., Any]) -> None:
    incident = opened(server, trainer)
    rules = {alert["rule"] for alert in incident["alerts"]}
    assert {"nonfinite-loss", "nonfinite-grad-norm"} <= rules
    assert {alert["incident"] for alert in incident["alerts"]} == {incident["id"]}
    assert (incident["severity"], incident["onset_step"]) == ("critical", 10)
    assert incident["count"] == len(incident["alerts"])
    resume = {"path": None, "step": None, "text": "No good checkpoint is known."}
    assert server.get(f"/incidents/{incident['id']}") == incident | {"resume": resume}


def test_a_resolved_incident_is_not_open(server: Any, trainer: Callable[..., Any]) -> None:
    run = trainer()
    losses = [1.0 + 0.01 * (step % 7) for step in range(800)]
    losses[200] = math.nan
    run.records({"loss": losses})
    assert server.get("/incidents", run=run.run, state="open")["items"] == []
    assert [each["state"] for each in server.get("/incidents", run=run.run)["items"]] == ["resolved"]


def test_an_incident_that_recovers_is_mitigated_until_it_is_resolved(
    server: Any, trainer: Callable[..., Any]
) -> None:
    """Its alerts fire no more, but it does not look resolved."""
    run = trainer()
    losses = [1.0 + 0.01 * (step % 7) for step in range(210)]
    losses[200] = math.nan
    run.records({"loss": losses})
    (incident,) = server.get("/incidents", run=run.run, state="mitigated")["items"]
    assert {alert["state"] for alert in incident["alerts"]} == {"recovering"}
    assert server.get("/incidents", run=run.run, state="open,ended,resolved")["items"] == []


def test_an_incident_is_acknowledged_with_all_its_alerts(server: Any, trainer: Callable[..., Any]) -> None:
    incident = opened(server, trainer)
    found = ask(server, "POST", f"/incidents/{incident['id']}/ack", {"note": "mine"}).json()
    assert (found["ack"]["by"], found["ack"]["note"]) == ("admin login link", "mine")
    marks = [server.get(f"/alerts/{alert['id']}/history")["marks"]["ack"] for alert in found["alerts"]]
    assert {mark["note"] for mark in marks} == {"mine"}
    assert ask(server, "DELETE", f"/incidents/{incident['id']}/ack").json()["ack"] is None


def test_readers_cannot_acknowledge_an_incident(server: Any, trainer: Callable[..., Any]) -> None:
    incident = opened(server, trainer)["id"]
    token = ask(server, "POST", "/tokens", {"name": "reader", "scope": "read"}).json()["token"]
    assert ask(server, "POST", f"/incidents/{incident}/ack", {}, token=token).status_code == 403
    assert ask(server, "POST", "/incidents/r_0.f.1/ack", {}).status_code == 404
    assert ask(server, "GET", "/incidents/nothing").status_code == 404


def test_the_history_of_an_incident_has_the_transitions_of_all_its_alerts_and_one_acknowledgement(
    server: Any, trainer: Callable[..., Any]
) -> None:
    incident = opened(server, trainer)
    ask(server, "POST", f"/incidents/{incident['id']}/ack", {"note": "mine"})
    items = server.get(f"/incidents/{incident['id']}/history")["items"]
    fired = {line["rule"] for line in items if line["state"] == "firing"}
    assert fired == {alert["rule"] for alert in incident["alerts"]}
    assert [(line["by"], line["text"]) for line in items if line["kind"] == "ack"] == [
        ("admin login link", "mine")
    ]
    assert [line["at_ms"] for line in items] == sorted(line["at_ms"] for line in items)


def test_an_unknown_incident_has_no_history(server: Any) -> None:
    assert ask(server, "GET", "/incidents/r_0.f.1/history").status_code == 404


def test_an_incident_is_deleted_with_its_run(server: Any, trainer: Callable[..., Any]) -> None:
    incident = opened(server, trainer)
    path = f"/incidents/{incident['id']}"
    ask(server, "POST", f"{path}/ack", {"note": "mine"})
    assert ask(server, "DELETE", f"/runs/{incident['run_id']}").status_code == 204
    for method, at in (("GET", ""), ("GET", "/history"), ("POST", "/ack"), ("DELETE", "/ack")):
        assert ask(server, method, path + at, {} if method == "POST" else None).status_code == 404
    listed = ask(server, "GET", "/incidents?limit=1000").json()["items"]
    assert incident["id"] not in {each["id"] for each in listed}
