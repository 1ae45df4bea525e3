"""Group the alerts of one file by cause, for the report. Pure functions.

An alert belongs to the group of a more severe alert whose timeline contains it; alerts with the same cause
form one group. The head of a group is its most severe alert; of those that began at about the same step, the
one nearest the cause. The JSON contains the diagnosis of each alert.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tocsin_server.core.causal_order import by_cause
from tocsin_server.core.incidents import cause_of
from tocsin_server.core.models import Alert


@dataclass
class CauseGroup:
    """Alerts that are reported together: the head, whose diagnosis is shown, and the others."""

    head: Alert
    others: list[Alert] = field(default_factory=list)

    @property
    def alerts(self) -> list[Alert]:
        """All alerts of the group, the head first."""
        return [self.head, *self.others]

    @property
    def timeline(self) -> tuple[tuple[int, str, str], ...]:
        """The longest timeline of an alert with the same cause as the head."""
        reported = [
            alert.diagnosis.timeline for alert in self.alerts if cause_of(alert) == cause_of(self.head)
        ]
        return max(reported, key=len)

    def explains(self, alert: Alert) -> bool:
        """Return whether ``alert`` is in the head's timeline (same launch) or has the same cause."""
        if cause_of(alert) == cause_of(self.head):
            return True
        rows = {(step, rule) for step, _, rule in self.head.diagnosis.timeline}
        return alert.run_id == self.head.run_id and (alert.onset_step, alert.rule) in rows

    @property
    def other_causes(self) -> list[Alert]:
        """One alert for each cause among the others that differs from the head's."""
        seen = {(self.head.rule, ""), ("", cause_of(self.head))}
        found: list[Alert] = []
        for alert in self.others:
            keys = {(alert.rule, ""), ("", cause_of(alert))}
            if not keys & seen:
                found.append(alert)
            seen |= keys
        return found


def cause_groups(alerts: Sequence[Alert]) -> list[CauseGroup]:
    """Return the groups of ``alerts``, most severe first, then longest timeline first."""
    found: list[CauseGroup] = []
    for alert in sorted(alerts, key=lambda item: (-item.severity.level, -len(item.diagnosis.timeline))):
        mine = next((group for group in found if group.explains(alert)), None)
        if mine is None:
            found.append(CauseGroup(alert))
        else:
            mine.others.append(alert)
    for group in found:
        group.head, *group.others = by_cause(group.alerts)
    return found


def launch_of(alert: Alert) -> int:
    """Return the launch of an alert within the file, from 1."""
    _, mark, number = alert.run_id.rpartition("#")
    return int(number) if mark and number.isdecimal() else 1
