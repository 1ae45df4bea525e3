"""Incidents: the alerts of one run that belong together. Pure functions.

An alert joins an open incident when it fires, or opens another one, and stays in it. The id of an incident
is the id of the alert that opened it. Which alert is shown first may change: an earlier cause may be found
later.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tocsin_server.core.causal_order import NEAR_STEPS, by_cause, chain_of, place
from tocsin_server.core.models import RUN_FAILED, Alert, AlertState, Severity

_NUMBERS = re.compile(r"[\d.]+(?:e−?-?\d+)?")


class IncidentState(enum.StrEnum):
    """open: an alert fires or recovers; ended: the run ended before; resolved: every alert recovered."""

    OPEN = "open"
    ENDED = "ended"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class Incident:
    """Alerts of one run that belong together, most severe first, then nearest to the cause."""

    id: str
    alerts: tuple[Alert, ...]

    @property
    def lead(self) -> Alert:
        """The alert that names the incident: the most severe one, or the nearest to the cause of those."""
        return self.alerts[0]

    @property
    def root(self) -> Alert:
        """The alert nearest to the cause among those that began when the lead did."""
        return min(self._near, key=lambda alert: (place(alert.rule), alert.onset_ns, alert.id))

    @property
    def severity(self) -> Severity:
        """The highest severity that any of its alerts has had."""
        return self.lead.severity

    @property
    def state(self) -> IncidentState:
        if any(alert.is_open for alert in self.alerts):
            return IncidentState.OPEN
        ended = any(alert.state is AlertState.ENDED for alert in self.alerts)
        return IncidentState.ENDED if ended else IncidentState.RESOLVED

    @property
    def onset_step(self) -> int | None:
        """The step at which the lead began, or an alert that began at about the same time."""
        return min((alert.onset_step for alert in self._near if alert.onset_step is not None), default=None)

    @property
    def onset_ns(self) -> int:
        """The time of that step."""
        return min(alert.onset_ns for alert in self._near)

    @property
    def _near(self) -> list[Alert]:
        """The lead, and the alerts that began at about the same step."""
        return [
            alert for alert in self.alerts if alert is self.lead or _distance(alert, self.lead) <= NEAR_STEPS
        ]

    @property
    def updated_ns(self) -> int:
        """When one of its alerts changed last."""
        return max(alert.updated_ns for alert in self.alerts)


def incidents_of(alerts: Iterable[Alert]) -> list[Incident]:
    """Return the incidents of alerts that fired, the newest change first."""
    found: dict[str, list[Alert]] = {}
    for alert in alerts:
        if alert.incident:
            found.setdefault(alert.incident_id, []).append(alert)
    made = [Incident(name, tuple(by_cause(each))) for name, each in found.items()]
    return sorted(made, key=lambda incident: (-incident.updated_ns, incident.id))


def incident_for(alert: Alert, others: Sequence[Alert]) -> str:
    """Return the incident of an alert that fires for the first time.

    Args:
        alert: The alert.
        others: The newest episodes of the other alerts of its run.

    Returns:
        The incident of the alert that it is linked to; its own, which it opens, without one. Of several, the
        one that has an alert with the nearest onset.
    """
    going = {other.incident for other in others if _keeps_open(other)} - {""}
    linked = [other for other in others if other.incident in going and _linked(alert, other)]
    if not linked:
        return alert.key
    return min(linked, key=lambda other: (_distance(alert, other), other.onset_ns, other.key)).incident


def _keeps_open(alert: Alert) -> bool:
    """Return whether an alert keeps its incident open for others: also if it fired when the run ended."""
    return alert.is_open or alert.state is AlertState.ENDED


def _linked(alert: Alert, other: Alert) -> bool:
    """Return whether two alerts of a run belong to one causal chain."""
    chains = chain_of(alert.rule), chain_of(other.rule)
    mild = other.severity is Severity.INFO
    goes_on = _keeps_open(other) and not mild
    near = _distance(alert, other) <= NEAR_STEPS and not (mild and alert.severity is not Severity.INFO)
    if RUN_FAILED in (alert.rule, other.rule):
        return goes_on and (chains[0] == chains[1] or Severity.CRITICAL in _severity_beside(alert, other))
    if chains[0] == chains[1] != "" and goes_on:
        return True
    if {"process", "throughput"} & set(chains):
        return chains[0] == chains[1] and near
    return near or (goes_on and _cause(alert) == _cause(other))


def _severity_beside(alert: Alert, other: Alert) -> tuple[Severity, ...]:
    """Return the severities of those of two alerts that are not the failure of the run."""
    return tuple(
        each.severity
        for each in (alert, other)
        if each.rule != RUN_FAILED and chain_of(each.rule) == "training"
    )


def _distance(alert: Alert, other: Alert) -> float:
    """Return the steps between two onsets; infinite if one is unknown."""
    if alert.onset_step is None or other.onset_step is None:
        return float("inf")
    return abs(alert.onset_step - other.onset_step)


def _cause(alert: Alert) -> str:
    """Return the cause without its numbers."""
    return _NUMBERS.sub("#", alert.diagnosis.cause)
