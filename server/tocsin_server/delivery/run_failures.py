"""A run that failed, on its way through routing: as facts for routes and groups, and as a row for messages.

Pure. Routes, silences, mute times, groups and limits see it as an alert with the label ``rule="failed"``;
in a message it is a run and no alert.
"""

from __future__ import annotations

from typing import Any

from tocsin_server.core.models import Alert, AlertState, Diagnosis
from tocsin_server.notify.labels import FAILED, AlertFacts
from tocsin_server.store.run_failures import FINGERPRINT, KnownFailure

LAST_LINES = 12
LONGEST_LINE = 400


def fact_of(known: KnownFailure) -> AlertFacts:
    """What routing knows of a failure."""
    told = known.failure
    alert = Alert(
        run_id=told.run_id,
        fingerprint=FINGERPRINT,
        episode=told.attempt_no,
        rule=FAILED,
        subject="",
        severity=told.severity,
        state=AlertState.RESOLVED if known.over else AlertState.FIRING,
        onset_step=told.step,
        onset_ns=told.at_ns,
        pending_ns=None,
        fired_step=told.step,
        fired_ns=told.at_ns,
        resolved_step=None,
        resolved_ns=None,
        summary=told.summary,
        diagnosis=Diagnosis(""),
        late=told.late,
        updated_ns=told.at_ns,
    )
    return AlertFacts(
        alert,
        known.run_name,
        known.project,
        known.host,
        known.tags,
        known.imported,
        failure=known.error,
        ended_ns=known.ended_ns,
    )


def run_row(fact: AlertFacts, over: bool) -> dict[str, Any]:
    """The run as messages tell of it; the last lines of its traceback, bounded."""
    alert, error = fact.alert, fact.failure or {}
    lines = error.get("lines")
    last = [str(line)[:LONGEST_LINE] for line in lines[-LAST_LINES:]] if isinstance(lines, list) else []
    return {
        "run_id": alert.run_id,
        "run_name": fact.run_name,
        "project": fact.project,
        "attempt": alert.episode,
        "state": FAILED,
        "severity": alert.severity.value,
        "summary": alert.summary,
        "error": {"type": str(error.get("type") or ""), "message": _text(error), "lines": last},
        "last_step": alert.onset_step,
        "ended_ms": None if fact.ended_ns is None else fact.ended_ns // 1_000_000,
        "labels": fact.labels,
        "over": over,
    }


def _text(error: Any) -> str:
    return str(error.get("message") or "")[: 4 * LONGEST_LINE]
