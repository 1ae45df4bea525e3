"""Incidents: the alerts that belong together. Pure functions.

Most are of one run; see :mod:`shared_incidents` for those of several.

An alert joins an open incident when it fires, or opens another one, and stays in it. The id of an incident
is the id of the alert that opened it. Which alert is shown first may change: an earlier cause may be found
later.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from tocsin_server.core.causal_order import NEAR_STEPS, by_cause, chain_of, place
from tocsin_server.core.models import RUN_FAILED, SCRIPT_ALERT, Alert, AlertState, Severity

_NUMBERS = re.compile(r"[\d.]+(?:e−?-?\d+)?")


class IncidentState(enum.StrEnum):
    """open: an alert fires; mitigated: none fires any more, but one is still recovering; ended: the run ended
    before that; resolved: every alert recovered.
    """

    OPEN = "open"
    MITIGATED = "mitigated"
    ENDED = "ended"
    RESOLVED = "resolved"


_STATES = {
    AlertState.FIRING: IncidentState.OPEN,
    AlertState.RECOVERING: IncidentState.MITIGATED,
    AlertState.ENDED: IncidentState.ENDED,
}
"""State of an incident by the states of its alerts; the first that any of them has decides."""


def state_of(states: Iterable[AlertState]) -> IncidentState:
    """Return the state of an incident whose alerts have these states."""
    present = set(states)
    return next((state for each, state in _STATES.items() if each in present), IncidentState.RESOLVED)


@dataclass(frozen=True, slots=True)
class Incident:
    """Alerts that belong together, most severe first, then nearest to the cause."""

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
        return state_of(alert.state for alert in self.alerts)

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
        """The lead, and the alerts of its run that began at about the same step.

        One at an earlier step that began later is of an attempt that trains steps again.
        """
        lead = self.lead
        mine = [alert for alert in self.alerts if alert.run_id == lead.run_id]
        near = [alert for alert in mine if alert is lead or _distance(alert, lead) <= NEAR_STEPS]
        return [alert for alert in near if not _is_repeated(alert, lead)]

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


@dataclass(frozen=True, slots=True)
class Member:
    """What decides whether another alert joins the incident of this one. Many alerts share them."""

    incident: str
    rule: str
    severity: Severity
    onset_step: int | None
    lasts: bool
    """Whether others can join its incident: it is open, or was firing when the run ended."""
    cause: str
    """The likely cause without its numbers."""

    @classmethod
    def of(cls, alert: Alert) -> Member:
        """Return the member that an alert is."""
        return cls(
            alert.incident,
            alert.rule,
            alert.severity,
            alert.onset_step,
            alert.is_open or alert.state is AlertState.ENDED,
            cause_of(alert),
        )


def cause_of(alert: Alert) -> str:
    """Return the likely cause without its numbers: alerts with the same one belong together."""
    return without_numbers(alert.diagnosis.cause)


def without_numbers(text: str) -> str:
    """Return a sentence with ``#`` for each number."""
    return _NUMBERS.sub("#", text)


def incident_for(alert: Alert, members: Collection[Member]) -> str:
    """Return the incident of an alert that fires for the first time.

    Args:
        alert: The alert.
        members: The newest episodes of the other alerts of its run that belong to an incident.

    Returns:
        The incident of the alert to which it is linked; of several, of the one with the nearest onset. The
        alert's own key if it opens a new incident.
    """
    own = Member.of(alert)
    open_ones = {member.incident for member in members if member.lasts}
    linked = [member for member in members if member.incident in open_ones and _linked(own, member)]
    if not linked:
        return alert.key
    return min(linked, key=lambda member: (_distance(own, member), member.incident)).incident


def _linked(own: Member, other: Member) -> bool:
    """Return whether an alert that fires belongs together with another one.

    An alert of the script is always a separate incident, because its author expects a notification.
    """
    if SCRIPT_ALERT in (own.rule, other.rule):
        return False
    chains = chain_of(own.rule), chain_of(other.rule)
    mild = other.severity is Severity.INFO
    goes_on = other.lasts and not mild
    near = _distance(own, other) <= NEAR_STEPS and not (mild and own.severity is not Severity.INFO)
    if RUN_FAILED in (own.rule, other.rule):
        return goes_on and (chains[0] == chains[1] or _explains(own, other))
    if chains[0] == chains[1] != "" and goes_on:
        return True
    if {"process", "throughput"} & set(chains):
        return chains[0] == chains[1] and near
    return near or (goes_on and own.cause == other.cause)


def _explains(own: Member, other: Member) -> bool:
    """Return whether one of the two is a crash and the other a critical alert about the training."""
    return any(
        member.severity is Severity.CRITICAL and chain_of(member.rule) == "training"
        for member in (own, other)
        if member.rule != RUN_FAILED
    )


def _is_repeated(alert: Alert, lead: Alert) -> bool:
    """Return whether an alert began at an earlier step than the lead, but later."""
    if alert.onset_step is None or lead.onset_step is None:
        return False
    return alert.onset_step < lead.onset_step and alert.onset_ns > lead.onset_ns


def _distance(one: Alert | Member, other: Alert | Member) -> float:
    """Return the steps between two onsets; infinite if one is unknown."""
    if one.onset_step is None or other.onset_step is None:
        return float("inf")
    return abs(one.onset_step - other.onset_step)
