"""One incident of several runs over the API."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.server.http.api.test_channels import ask

NAN = {"loss": [1.0] * 20 + [math.nan] * 10, "grad_norm": [1.0] * 20 + [math.nan] * 10}


@pytest.fixture
def shared(
    server: Any, trainer: Callable[..., Any], kind: str, request: Any
) -> tuple[Any, Any, dict[str, Any]]:
    """Two runs that were running when the first one failed at step 20, and their incident."""
    project = f"{request.node.name} {kind}"[:60]
    first, second = (trainer(project=project, name=name) for name in ("one", "two"))
    first.records(NAN)
    second.records(NAN)
    (incident,) = server.get("/incidents", run=second.run, state="open")["items"]
    return first, second, incident


def test_runs_that_fail_at_the_same_step_are_one_incident(server: Any, shared: Any) -> None:
    """Its id is that of the first run; each run lists it, with the alerts of both."""
    first, second, incident = shared
    assert incident["id"].startswith(f"{first.run}.")
    runs = sorted((run["name"], run["id"]) for run in incident["runs"])
    assert runs == [("one", first.run), ("two", second.run)]
    assert {(alert["run_id"], alert["run_name"]) for alert in incident["alerts"]} == {
        (first.run, "one"), (second.run, "two"),
    }  # fmt: skip
    assert {alert["incident"] for alert in incident["alerts"]} == {incident["id"]}
    assert server.get("/incidents", run=first.run, state="open")["items"] == [incident]


def test_a_run_that_began_after_the_failure_opens_its_own(server: Any, trainer: Callable[..., Any]) -> None:
    first = trainer(project="retry")
    first.records(NAN)
    second = trainer(project="retry")
    second.records(NAN)
    (incident,) = server.get("/incidents", run=second.run, state="open")["items"]
    assert [run["id"] for run in incident["runs"]] == [second.run]


def test_an_acknowledgement_is_for_all_its_runs(server: Any, shared: Any) -> None:
    _, _, incident = shared
    found = ask(server, "POST", f"/incidents/{incident['id']}/ack", {"note": "both"}).json()
    marks = [server.get(f"/alerts/{alert['id']}/history")["marks"]["ack"] for alert in found["alerts"]]
    assert [mark["note"] for mark in marks] == ["both"] * len(incident["alerts"])


def test_the_rest_of_an_incident_stays_when_its_first_run_is_deleted(server: Any, shared: Any) -> None:
    first, second, incident = shared
    ask(server, "DELETE", f"/runs/{first.run}?now=true")
    found = server.get(f"/incidents/{incident['id']}")
    assert [run["id"] for run in found["runs"]] == [second.run]
    assert {alert["run_id"] for alert in found["alerts"]} == {second.run}


def test_the_files_of_an_incident_name_all_its_runs(server: Any, shared: Any) -> None:
    _, _, incident = shared
    address = f"{server.base}/api/v1/incidents/{incident['id']}/postmortem"
    text = httpx.get(address, params={"format": "markdown"}, headers=server.headers, timeout=30).text
    assert re.search(r"\| Runs \| (one, two|two, one) \(project ", text)
