"""The order of severities and of incidents, the most urgent first. Pure."""

from __future__ import annotations

SEVERITIES = ("critical", "warning", "info")
STATES = ("open", "mitigated")
"""States of an incident that come before the others."""


def level_of(severity: str) -> int:
    """Return the place of a severity in SEVERITIES; one of a newer server is after all."""
    return SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES)


def urgency(state: str, severity: str, onset_ms: float) -> tuple[int, int, float]:
    """Order incidents: open, then mitigated ones, then the others; more severe, then newer ones first.

    Args:
        state: State of the incident.
        severity: Its severity.
        onset_ms: Unix time of its onset.
    """
    place = STATES.index(state) if state in STATES else len(STATES)
    return place, level_of(severity), -onset_ms
