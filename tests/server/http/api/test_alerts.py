"""Alerts over the API."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import httpx


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
