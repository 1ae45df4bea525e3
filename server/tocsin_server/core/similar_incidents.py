"""Find the earlier incidents that resemble one, and say in what. Pure functions.

Two incidents are compared by what was found, not by when: the likely cause without its numbers, the rules,
the layer in which the problem began, the series, and the settings of their runs. Each thing in common adds
points, so that the same input always gives the same order and every place in it has reasons.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tocsin_server.core.incidents import Incident, cause_of
from tocsin_server.core.models import Severity

LAYER = "layer"
"""Evidence that names the layer in which a problem began."""
SAME_CAUSE, SAME_RULE, SAME_LAYER, SAME_SERIES = 4.0, 3.0, 2.0, 1.0
RULES, SETTINGS = 2.0, 1.0
"""Points for all rules, and for all settings, in common; a part of them for a part."""
LEAST = 4.0
"""Points from which incidents are similar: the same cause, or the same rule and something besides."""
EQUAL_SETTINGS = 0.9
"""Share of equal settings from which they are named as a reason."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What an incident is recognized by.

    Attributes:
        incident_id: The incident.
        onset_ns: When it began.
        severe: Whether it is more severe than information.
        cause: The likely cause without its numbers, or "" if it is unknown.
        rule: The rule of its lead.
        rules: The rules of all its alerts.
        layers: Layers in which the problem began.
        series: The series of its lead, or "" for the run as a whole.
        settings: Configuration of its run: value by path.
    """

    incident_id: str
    onset_ns: int
    severe: bool
    cause: str
    rule: str
    rules: frozenset[str]
    layers: frozenset[str]
    series: str
    settings: Mapping[str, str]


def fingerprint_of(incident: Incident, settings: Mapping[str, str]) -> Fingerprint:
    """Return the fingerprint of an incident, given the configuration of its run: value by path."""
    layers = (
        str(item.value)
        for alert in incident.alerts
        for item in alert.diagnosis.evidence
        if item.name == LAYER
    )
    return Fingerprint(
        incident_id=incident.id,
        onset_ns=incident.onset_ns,
        severe=incident.severity is not Severity.INFO,
        cause=cause_of(incident.lead),
        rule=incident.lead.rule,
        rules=frozenset(alert.rule for alert in incident.alerts),
        layers=frozenset(layers),
        series=incident.lead.subject,
        settings=settings,
    )


@dataclass(frozen=True, slots=True)
class SimilarIncident:
    """An incident that resembles another one: its id, its points, and what they have in common."""

    incident_id: str
    points: float
    reasons: tuple[str, ...]


def similar_incidents(own: Fingerprint, others: Iterable[Fingerprint]) -> list[SimilarIncident]:
    """Return the incidents that resemble one: the most similar first, of equally similar ones the newest.

    Args:
        own: The incident.
        others: Those to compare it with; itself is left out, and so is information beside a problem.
    """
    found = [
        (compared, other)
        for other in others
        if other.incident_id != own.incident_id and other.severe == own.severe
        if (compared := _compared(own, other)).points >= LEAST
    ]
    found.sort(key=lambda pair: (-pair[0].points, -pair[1].onset_ns, pair[1].incident_id))
    return [compared for compared, _ in found]


def _compared(own: Fingerprint, other: Fingerprint) -> SimilarIncident:
    points: list[float] = []
    reasons: list[str] = []

    def add(worth: float, reason: str) -> None:
        points.append(worth)
        if reason:
            reasons.append(reason)

    if own.cause and own.cause == other.cause:
        add(SAME_CAUSE, "same likely cause")
    if own.rule == other.rule:
        add(SAME_RULE, f"same alert ({own.rule})")
        if own.series == other.series:
            add(SAME_SERIES, "")
    if shared := sorted(own.layers & other.layers):
        add(SAME_LAYER, f"same layer ({shared[0]})")
    common, union = own.rules & other.rules, own.rules | other.rules
    if len(union) > 1 and common:
        add(RULES * len(common) / len(union), f"{len(common)} of {len(union)} alerts in common")
    share = _equal_share(own.settings, other.settings)
    add(SETTINGS * share, "nearly the same configuration" if share >= EQUAL_SETTINGS else "")
    return SimilarIncident(other.incident_id, round(sum(points), 3), tuple(reasons))


def _equal_share(one: Mapping[str, str], other: Mapping[str, str]) -> float:
    """Return the share of the settings of both that are equal; 0 if neither has any."""
    names = one.keys() | other.keys()
    equal = sum(1 for name in names if name in one and name in other and one[name] == other[name])
    return equal / len(names) if names else 0.0
