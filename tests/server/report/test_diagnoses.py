"""Alerts as HTML."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tocsin_server.core.models import Alert, AlertState, Diagnosis, Remedy, Severity
from tocsin_server.report.diagnoses import alerts_section
from tocsin_server.report.material import ReportedAlert
from tocsin_server.store.results import StoredAlert

DIAGNOSIS = Diagnosis(
    cause="The loss grows.",
    timeline=((10, "loss 10 times its median", "loss-divergence"),),
    evidence=(),
    remedies=(Remedy("Divide the learning rate by 5.", ""), Remedy("Clip gradients.", "clip()")),
    how_to_confirm="Repeat the steps.",
    alternatives=("A corrupt batch.",),
)


def section(state: AlertState, diagnosis: Diagnosis = DIAGNOSIS) -> str:
    """Return the section of one alert in ``state``."""
    alert = Alert(
        run_id="r", fingerprint="f", episode=1, rule="loss-divergence", subject="loss",
        severity=Severity.CRITICAL, state=state, onset_step=10, onset_ns=10**18, pending_ns=None,
        fired_step=20, fired_ns=10**18 + 3 * 10**9, resolved_step=30, resolved_ns=10**18 + 9 * 10**9,
        summary="loss 18x", diagnosis=diagnosis,
    )  # fmt: skip
    return alerts_section((ReportedAlert(StoredAlert(alert, "run", "project"), ()),), 0)


def test_an_alert_that_its_run_ended_with_does_not_look_resolved() -> None:
    """It is described as firing when the run ended, and is not dimmed."""
    ended, resolved = section(AlertState.ENDED), section(AlertState.RESOLVED)
    assert "firing when the run ended" in ended
    assert "resolved" not in ended
    assert " past" not in ended
    assert "resolved at step" in resolved
    assert " past" in resolved


def test_a_long_timeline_folds() -> None:
    """Ten entries are shown, and the others are counted."""
    timeline = tuple((step, "Loss spiked", "loss-spike") for step in range(0, 4900, 100))
    html = section(AlertState.FIRING, replace(DIAGNOSIS, timeline=timeline))
    before, after = html.split("<summary>And 39 more since step 1\u202f000</summary>")
    assert (before.count("Loss spiked"), after.count("Loss spiked")) == (10, 39)


@pytest.mark.parametrize("state", [AlertState.FIRING, AlertState.ENDED])
def test_a_diagnosis_begins_with_what_to_do(state: AlertState) -> None:
    """First action, timeline, then what helps to confirm the cause."""
    html = section(state)
    assert re.findall(r"<h4>(.*?)</h4>", html) == [
        "First action", "Timeline", "Other explanations", "How to confirm", "If it persists",
    ]  # fmt: skip
    assert html.index(DIAGNOSIS.cause) < html.index("First action") < html.index("Divide the learning rate")
