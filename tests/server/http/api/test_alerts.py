"""Alerts over the API."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import httpx
import pytest

import tocsin
from tests.server.http.api.conftest import Trainer
from tests.server.http.api.test_mcp import token
from tocsin.read import operations


def test_a_nan_loss_is_an_alert_with_its_diagnosis(server: Any, trainer: Callable[..., Any]) -> None:
    """Listed by run, state and severity; alone with its history."""
    run = trainer(project="alerts", name="nan")
    run.records({"loss": [1.0] * 50 + [math.nan] * 10})
    listed = server.get("/alerts", run=run.run, state="firing,pending", severity="critical")["items"]
    alert = next(item for item in listed if item["rule"] == "nonfinite-loss")
    assert (alert["run_name"], alert["project"], alert["onset_step"]) == ("nan", "alerts", 50)
    assert alert["diagnosis"]["cause"]
    assert alert["diagnosis"]["remedies"]
    one = server.get(f"/alerts/{alert['id']}")
    assert one["history"][-1]["state"] == "firing"
    assert {key: one[key] for key in ("id", "rule", "run_id")} == {
        key: alert[key] for key in ("id", "rule", "run_id")
    }


def test_alerts_that_do_not_fit_are_not_listed(server: Any, trainer: Callable[..., Any]) -> None:
    """A healthy run has none; a wrong filter is named, an unknown alert is 404."""
    run = trainer()
    run.records({"loss": [1.0] * 20})
    assert server.get("/alerts", run=run.run)["items"] == []
    for path, status in (
        ("/alerts?state=on", 422),
        ("/alerts?severity=bad", 422),
        ("/alerts/x.y.1", 404),
        ("/alerts/x", 404),
    ):
        assert httpx.get(f"{server.base}/api/v1{path}", headers=server.headers).status_code == status


@pytest.fixture
def troubled(trainer: Callable[..., Trainer]) -> Trainer:
    """A run with a NaN that recovered and one that did not."""
    run = trainer(project="alerts", name="troubled")
    loss = [1.0] * 30 + [math.nan] + [1.0] * 250 + [math.nan] * 10
    run.records({"loss": loss, "grad_norm": [1.0] * len(loss)})
    return run


def pages(server: Any, path: str, limit: int, **query: str) -> list[list[str]]:
    """Return the ids on each page."""
    found: list[list[str]] = []
    after: str | None = ""
    while after is not None:
        page = server.get(path, limit=limit, after=after, **query)
        found.append([item["id"] for item in page["items"]])
        after = page["next"]
    return found


def test_pages_have_every_alert_once_in_order_of_change(server: Any, troubled: Trainer) -> None:
    (whole,) = pages(server, "/alerts", 1000, run=troubled.run)
    assert len(whole) == 3
    assert pages(server, "/alerts", 1, run=troubled.run) == [[one] for one in whole]
    assert set(whole) == {item["id"] for item in server.get("/alerts", run=troubled.run)["items"]}


def test_pages_have_every_incident_once_in_order_of_change(
    server: Any, troubled: Trainer, trainer: Callable[..., Trainer]
) -> None:
    """Two runs of different projects have an incident each. Those of other tests may change meanwhile."""
    other = trainer(project="others", name="other")
    other.records({"loss": [1.0] * 20 + [math.nan] * 10})
    mine = {
        item["id"] for run in (troubled, other) for item in server.get("/incidents", run=run.run)["items"]
    }
    whole, single = (
        [one for page in pages(server, "/incidents", limit) for one in page if one in mine]
        for limit in (1000, 1)
    )
    assert (len(mine), set(whole), single) == (2, mine, whole)


@pytest.mark.parametrize("path", ["/alerts?after=x", "/alerts?after=1.x", "/incidents?after=x"])
def test_a_wrong_cursor_is_named(server: Any, path: str) -> None:
    answer = httpx.get(f"{server.base}/api/v1{path}", headers=server.headers)
    assert (answer.status_code, answer.json()["subject"]) == (422, "after")


def test_the_read_api_reads_all_pages_unresolved_first(
    server: Any, troubled: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    (alerts,) = pages(server, "/alerts", 1000, run=troubled.run)
    monkeypatch.setattr(operations, "ALERTS_AT_ONCE", 1)
    monkeypatch.setattr(operations, "INCIDENTS_AT_ONCE", 2)
    with tocsin.Api(server.base, token(server, "read")) as api:
        found = api.alerts(troubled.run).all()
        assert sorted(one.id for one in found) == sorted(alerts)
        assert [one.state for one in found] == ["firing", "firing", "resolved"]
        ids = [one.id for one in api.incidents()]
        assert [one.id in ids for one in api.incidents(troubled.run)] == [True]
        assert len(ids) == len(set(ids))


def test_what_changes_between_two_pages_is_read_once(
    server: Any, troubled: Trainer, trainer: Callable[..., Trainer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An alert that was on a later page moves to the first one, which has been read."""
    other = trainer(project="alerts", name="other")
    other.records({"loss": [1.0] * 30 + [math.nan] * 10})
    runs = {troubled.run, other.run}
    monkeypatch.setattr(operations, "ALERTS_AT_ONCE", 1)
    with tocsin.Api(server.base, token(server, "read")) as api:
        stream = iter(api.alerts(state="firing,resolved"))
        found = [next(stream)]
        troubled.records({"loss": [1.0] * 150, "grad_norm": [1.0] * 150}, first_step=291)
        found += stream
        ids = [one.id for one in found]
        expected = {one["id"] for run in runs for one in server.get("/alerts", run=run)["items"]}
    assert expected <= set(ids)
    assert len(ids) == len(set(ids))
