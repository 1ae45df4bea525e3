"""Alerts of one judged file by the story that they belong to, for the report. Pure.

An alert belongs to the story of a graver one that tells of it; of several alerts for one cause, one story
stands for all. Its head is the most severe alert; of those that began at about the same step, the one
nearest the cause. The JSON has the diagnosis of each alert for itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from tocsin_server.core.causal_order import by_cause
from tocsin_server.core.models import Alert

_NUMBERS = re.compile(r"[\d.]+(?:e−?-?\d+)?")


@dataclass
class CauseGroup:
    """What is told once: the alert whose diagnosis it is, and the others that are part of it."""

    head: Alert
    others: list[Alert] = field(default_factory=list)

    @property
    def alerts(self) -> list[Alert]:
        """All of them, the head first."""
        return [self.head, *self.others]

    @property
    def timeline(self) -> tuple[tuple[int, str, str], ...]:
        """The longest chain of events with the likely cause of the head."""
        reported = [alert.diagnosis.timeline for alert in self.alerts if _cause(alert) == _cause(self.head)]
        return max(reported, key=len)

    def explains(self, alert: Alert) -> bool:
        """Whether ``alert`` of the same launch is in the chain of events, or has the same cause."""
        if _cause(alert) == _cause(self.head):
            return True
        rows = {(step, rule) for step, _, rule in self.head.diagnosis.timeline}
        return alert.run_id == self.head.run_id and (alert.onset_step, alert.rule) in rows

    @property
    def other_causes(self) -> list[Alert]:
        """One alert for each cause that was said of the others and is not the head's."""
        seen = {(self.head.rule, ""), ("", _cause(self.head))}
        found: list[Alert] = []
        for alert in self.others:
            keys = {(alert.rule, ""), ("", _cause(alert))}
            if not keys & seen:
                found.append(alert)
            seen |= keys
        return found


def cause_groups(alerts: Sequence[Alert]) -> list[CauseGroup]:
    """The stories of ``alerts``: the gravest and longest in front."""
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
    """Which launch of the file an alert is of, from 1 on."""
    _, mark, number = alert.run_id.rpartition("#")
    return int(number) if mark and number.isdecimal() else 1


def _cause(alert: Alert) -> str:
    """The cause without its numbers."""
    return _NUMBERS.sub("#", alert.diagnosis.cause)
