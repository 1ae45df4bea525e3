"""What the notifier knows of an alert: its labels, by which routes and silences match it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tocsin_server.core.models import Alert, AlertState

NAMES = ("rule", "severity", "project", "run", "run_id", "subject", "host", "tags")
"""Labels that every alert has, besides those that its rule gives it."""
FAILED = "failed"
"""The label ``rule`` of a run that failed: a state of the run, no identifier of a rule."""


@dataclass(frozen=True, slots=True)
class RoutedAlert:
    """One alert with what its run says of itself. ``acked``: somebody has taken it on.

    With ``failure`` (type, message, lines) it stands for a run that failed, which no rule found: it goes
    the way of alerts, under the rule :data:`FAILED`, is told once, and is over when the run goes on.
    """

    alert: Alert
    run_name: str
    project: str
    host: str = ""
    tags: tuple[str, ...] = ()
    imported: bool = False
    acked: bool = False
    failure: Mapping[str, Any] | None = None
    ended_ns: int | None = None

    @property
    def labels(self) -> dict[str, str]:
        """The labels for matching; a rule's own label never hides one of :data:`NAMES`."""
        return dict(self.alert.labels) | {
            "rule": self.alert.rule,
            "severity": self.alert.severity.value,
            "project": self.project,
            "run": self.run_name,
            "run_id": self.alert.run_id,
            "subject": self.alert.subject,
            "host": self.host,
            "tags": ",".join(self.tags),
        }

    @property
    def over(self) -> bool:
        return self.alert.state is AlertState.RESOLVED


@dataclass(frozen=True, slots=True)
class Marks:
    """Why an alert that fires is not told: derived anew whenever it is asked, never stored."""

    silenced_by: tuple[str, ...] = ()
    """Ids of the silences that match it now."""
    inhibited_by: tuple[str, ...] = ()
    """Ids of the open alerts that mute it."""

    @property
    def suppressed(self) -> bool:
        return bool(self.silenced_by or self.inhibited_by)


NO_MARKS = Marks()
Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class NotifiedState:
    """What a group was last told of one of its alerts; level -1: nothing yet."""

    level: int = -1
    """Of the severity: 0, 1, 2."""

    @property
    def ever(self) -> bool:
        return self.level >= 0


NEVER_NOTIFIED = NotifiedState()
Members = Mapping[str, NotifiedState]
