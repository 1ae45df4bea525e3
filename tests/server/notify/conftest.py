"""Alerts for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tocsin_server.core.models import Alert, AlertState, Diagnosis, Evidence, Remedy, Severity
from tocsin_server.notify.labels import RoutedAlert

S = 10**9
NOW = 1_800_000_000 * S


def facts_of(
    rule: str = "loss-spike", severity: str = "warning", state: str = "firing", **about: Any
) -> RoutedAlert:
    """Return an alert of run r1 with the run's fields."""
    run_id = about.pop("run_id", "r1")
    more = {name: about.pop(name) for name in ("host", "tags", "imported", "acked") if name in about}
    given: dict[str, Any] = {
        "run_id": run_id,
        "fingerprint": f"f-{rule}",
        "episode": 1,
        "rule": rule,
        "subject": "loss",
        "severity": Severity(severity),
        "state": AlertState(state),
        "onset_step": 1790,
        "onset_ns": NOW - 20 * S,
        "pending_ns": None,
        "fired_step": 1812,
        "fired_ns": None if state == "pending" else NOW - 10 * S,
        "resolved_step": 1900 if state == "resolved" else None,
        "resolved_ns": NOW if state == "resolved" else None,
        "summary": "Loss rose 40 times its usual spread",
        "diagnosis": Diagnosis(
            cause="A bad batch.",
            evidence=(Evidence("loss", float("nan"), "", 1790), Evidence("before", 0.5, "", 1789)),
            remedies=(Remedy("Skip the batch.", "torch.isfinite(loss)"), Remedy("Clip.")),
        ),
    }
    return RoutedAlert(Alert(**(given | about)), "mdt-fp16", about.pop("project", "deblur"), **more)


@pytest.fixture
def make_routed_alert() -> Callable[..., RoutedAlert]:
    """``make_routed_alert("loss-spike", "critical", "resolved", run_id="r2")``."""
    return facts_of
