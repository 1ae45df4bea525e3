"""The marks of all open alerts."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from tests.server.http.api.test_acks import firing
from tests.server.http.api.test_channels import ask


def marks(server: Any, alert: str) -> Any:
    return next((item for item in server.get("/alerts/marks")["items"] if item["id"] == alert), None)


def test_only_marked_alerts_are_named(server: Any, trainer: Callable[..., Any]) -> None:
    """An acknowledgement appears and disappears, consistent with the alert's history."""
    alert = firing(server, trainer)
    assert marks(server, alert) is None
    ask(server, "POST", f"/alerts/{alert}/ack", {"note": "mine"})
    assert marks(server, alert) == server.get(f"/alerts/{alert}/history")["marks"]
    assert marks(server, alert)["ack"]["note"] == "mine"
    ask(server, "DELETE", f"/alerts/{alert}/ack")
    assert marks(server, alert) is None


def test_a_silence_comes_with_its_author_and_reason(server: Any, trainer: Callable[..., Any]) -> None:
    """A page can therefore show who silenced the alert and until when."""
    alert = firing(server, trainer)
    run = alert.rsplit(".", 2)[0]
    body = {"matchers": [f'run_id="{run}"'], "ends_ms": (time.time() + 60) * 1000, "reason": "night"}
    silence = ask(server, "POST", "/silences", body).json()
    assert marks(server, alert)["silenced_by"] == [silence["id"]]
    assert silence in server.get("/alerts/marks")["silences"]
    ask(server, "DELETE", f"/silences/{silence['id']}")
    assert marks(server, alert) is None


def test_what_inhibits_is_named(server: Any, trainer: Callable[..., Any]) -> None:
    """A rule that is a source mutes another alert of the same run, as in the alert's history."""
    before = ask(server, "GET", "/routes").json()
    run = trainer()
    run.records({"loss": [1.0, math.nan], "grad_norm": [1.0, math.nan]})
    alerts = {alert["rule"]: alert["id"] for alert in server.get("/alerts", run=run.run)["items"]}
    assert len(alerts) > 1
    source, target = sorted(alerts)[:2]
    rule = {"source": [f'rule="{source}"'], "target": [f'rule="{target}"']}
    try:
        assert ask(server, "PUT", "/routes", before | {"inhibitions": [rule]}).status_code == 200
        assert marks(server, alerts[target])["inhibited_by"] == [alerts[source]]
        assert marks(server, alerts[source]) is None
    finally:
        ask(server, "PUT", "/routes", before)
