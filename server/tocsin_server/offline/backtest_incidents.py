"""Compare a backtest with the incidents of a run: real problems that a rule found or did not. Pure code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tocsin_server.core.incidents import Incident
from tocsin_server.core.models import Severity
from tocsin_server.offline.backtest_score import LEAD_RECORDS, Firing


@dataclass(frozen=True, slots=True)
class KnownIncident:
    """An incident of a run with an alert above info.

    Attributes:
        id: Id of the incident.
        rule: The rule of its most severe alert, which names it.
        summary: What that alert says.
        severity: Its severity.
        onset_step: Its first step.
        end_step: Its last step, or None if it did not resolve.
        rules: The rules of its alerts.
    """

    id: str
    rule: str
    summary: str
    severity: Severity
    onset_step: int
    end_step: int | None
    rules: frozenset[str]


def known_incident(incident: Incident, run_id: str) -> KnownIncident | None:
    """Return what an incident says about the steps of a run; None if it has no serious alert there."""
    serious = [
        alert for alert in incident.alerts if alert.run_id == run_id and alert.severity is not Severity.INFO
    ]
    onsets = [alert.onset_step for alert in serious if alert.onset_step is not None]
    if not onsets:
        return None
    ends = [alert.resolved_step for alert in serious]
    return KnownIncident(
        id=incident.id,
        rule=incident.lead.rule,
        summary=incident.lead.summary,
        severity=incident.severity,
        onset_step=min(onsets),
        end_step=None if None in ends else max(end for end in ends if end is not None),
        rules=frozenset(alert.rule for alert in serious),
    )


def incident_of(firing: Firing, known: Sequence[KnownIncident]) -> KnownIncident | None:
    """Return the incident during which a rule fired, or that began within ``LEAD_RECORDS`` steps after."""
    steps = [step for step in (firing.onset_step, firing.step) if step is not None]
    if not steps:
        return None
    first, last = min(steps), max(steps)
    inside = [
        each
        for each in known
        if last >= each.onset_step - LEAD_RECORDS and (each.end_step is None or first <= each.end_step)
    ]
    return min(inside, key=lambda each: abs(each.onset_step - first), default=None)
