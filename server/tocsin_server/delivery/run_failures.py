"""Convert a failed run for routing and for messages.

Pure. Routes, silences, mute times, groups and limits treat it as an alert with the label ``rule="failed"``;
messages show it as a run.
"""

from __future__ import annotations

from typing import Any

from tocsin_server.core.models import Alert, AlertState, Diagnosis
from tocsin_server.notify.labels import FAILED, RoutedAlert
from tocsin_server.store.run_failures import FINGERPRINT, KnownFailure

LAST_LINES = 12
LONGEST_LINE = 400


def routed_alert_of(known: KnownFailure) -> RoutedAlert:
    """Return the routing data of a failure."""
    reported = known.failure
    alert = Alert(
        run_id=reported.run_id,
        fingerprint=FINGERPRINT,
        episode=reported.attempt_no,
        rule=FAILED,
        subject="",
        severity=reported.severity,
        state=AlertState.RESOLVED if known.over else AlertState.FIRING,
        onset_step=reported.step,
        onset_ns=reported.at_ns,
        pending_ns=None,
        fired_step=reported.step,
        fired_ns=reported.at_ns,
        resolved_step=None,
        resolved_ns=None,
        summary=reported.summary,
        diagnosis=Diagnosis(""),
        late=reported.late,
        updated_ns=reported.at_ns,
    )
    return RoutedAlert(
        alert,
        known.run_name,
        known.project,
        known.host,
        known.tags,
        known.imported,
        failure=known.error,
        ended_ns=known.ended_ns,
    )


def run_row(routed: RoutedAlert, over: bool) -> dict[str, Any]:
    """Return the run as messages show it, with the last lines of its traceback, bounded in size."""
    alert, error = routed.alert, routed.failure or {}
    lines = error.get("lines")
    last = [str(line)[:LONGEST_LINE] for line in lines[-LAST_LINES:]] if isinstance(lines, list) else []
    return {
        "run_id": alert.run_id,
        "run_name": routed.run_name,
        "project": routed.project,
        "attempt": alert.episode,
        "state": FAILED,
        "severity": alert.severity.value,
        "summary": alert.summary,
        "error": {"type": str(error.get("type") or ""), "message": _text(error), "lines": last},
        "last_step": alert.onset_step,
        "ended_ms": None if routed.ended_ns is None else routed.ended_ns // 1_000_000,
        "labels": routed.labels,
        "over": over,
    }


def _text(error: Any) -> str:
    return str(error.get("message") or "")[: 4 * LONGEST_LINE]
