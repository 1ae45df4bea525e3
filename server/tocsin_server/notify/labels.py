"""Define the labels of an alert, which routes and silences match. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tocsin_server.core.models import Alert, AlertState

NAMES = ("rule", "severity", "project", "run", "run_id", "incident", "subject", "host", "tags")
"""Labels of every alert, besides those from its rule."""


@dataclass(frozen=True, slots=True)
class RoutedAlert:
    """An alert with the data of its run. ``acked``: it is acknowledged."""

    alert: Alert
    run_name: str
    project: str
    host: str = ""
    tags: tuple[str, ...] = ()
    imported: bool = False
    acked: bool = False

    @property
    def labels(self) -> dict[str, str]:
        """Return the labels for matching; a label of the rule never overrides one of :data:`NAMES`."""
        return dict(self.alert.labels) | {
            "rule": self.alert.rule,
            "severity": self.alert.severity.value,
            "project": self.project,
            "run": self.run_name,
            "run_id": self.alert.run_id,
            "incident": self.alert.incident_id,
            "subject": self.alert.subject,
            "host": self.host,
            "tags": ",".join(self.tags),
        }

    @property
    def over(self) -> bool:
        """Whether the alert resolved, or its run ended."""
        return self.alert.is_over

    @property
    def ended(self) -> bool:
        """Whether the run ended while the alert was firing."""
        return self.alert.state is AlertState.ENDED


@dataclass(frozen=True, slots=True)
class Marks:
    """Why a firing alert is not notified: computed on demand, never stored."""

    silenced_by: tuple[str, ...] = ()
    """Ids of the silences that match it now."""
    inhibited_by: tuple[str, ...] = ()
    """Ids of the open alerts that inhibit it."""

    @property
    def suppressed(self) -> bool:
        return bool(self.silenced_by or self.inhibited_by)


NO_MARKS = Marks()
Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class NotifiedState:
    """What was last sent in a group about one of its alerts; level -1 means nothing yet."""

    level: int = -1
    """Level of the severity: 0, 1, 2."""

    @property
    def ever(self) -> bool:
        return self.level >= 0


NEVER_NOTIFIED = NotifiedState()
