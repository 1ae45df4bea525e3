"""Join the incidents of runs that fail together into one. Pure; the clock is an argument.

Runs of a project fail together if their alerts have the same rule or likely cause at about the same step, if
they meet the same bad shard, if their processes stop on the same node for the same reason, or if they raise
the same exception at the same line, as after a bad push. The second one joins the incident of the first if it
was running when the first one failed, and fails within :data:`WINDOW_NS` after it. A run that was started
later, or fails later, opens a separate incident.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from tocsin_server.core.causal_order import chain_of
from tocsin_server.core.incidents import cause_of, without_numbers
from tocsin_server.core.models import RUN_FAILED, TRACEBACK, Alert, Severity

WINDOW_NS = 600 * 10**9
"""Time after which no alert of another run joins an incident."""
NODE_NS = 120 * 10**9
"""Time within which processes on one node stop together."""
NEAR, LEAST = 0.01, 3
"""Two steps count as the same if they differ by at most this share, or by at most this number of steps."""
EARLY = 10
"""First step that is compared: many unrelated runs fail in their first steps."""
MOST = 1000
"""Maximum number of incidents that are remembered; the oldest are dropped."""
BAD_SHARD, SHARD = "bad-shard", "data"
"""The rule that names bad data, and its evidence."""


class SharingRun(NamedTuple):
    """What is compared about a run: its project, its host, and when it was created."""

    project: str
    host: str
    started_ns: int


@dataclass(frozen=True, slots=True)
class Opening:
    """The alert of a run that opened or joined an incident, as other runs are compared with it.

    Attributes:
        incident_id: The incident.
        project: The project of the run.
        run_id: The run.
        host: The host of the run, or "".
        started_ns: When the run was created, by the server's clock.
        rule: The rule of the alert.
        cause: Its likely cause without numbers, or "".
        shard: The data that it names, or "".
        raised: Line and message of the exception of a run that failed, or "".
        onset_step: Its onset, or None.
        onset_ns: Time of the onset.
        at_ns: The server's time.
    """

    incident_id: str
    project: str
    run_id: str
    host: str
    started_ns: int
    rule: str
    cause: str
    shard: str
    raised: str
    onset_step: int | None
    onset_ns: int
    at_ns: int

    @classmethod
    def of(cls, alert: Alert, run: SharingRun, at_ns: int) -> Opening:
        """Return what other runs are compared with."""
        shards = (str(item.value) for item in alert.diagnosis.evidence if item.name == SHARD)
        return cls(
            incident_id=alert.incident_id or alert.id,
            project=run.project,
            run_id=alert.run_id,
            host=run.host,
            started_ns=run.started_ns,
            rule=alert.rule,
            cause=cause_of(alert),
            shard=next(shards, ""),
            raised=_raised(alert),
            onset_step=alert.onset_step,
            onset_ns=alert.onset_ns,
            at_ns=at_ns,
        )


def _raised(alert: Alert) -> str:
    """Return file, line and function of the exception of a failed run, and its message without numbers."""
    if alert.rule != RUN_FAILED:
        return ""
    traceback = next((str(each.value) for each in alert.diagnosis.evidence if each.name == TRACEBACK), "")
    frames = [line for line in traceback.splitlines() if line.lstrip().startswith('File "')]
    if not frames:
        return ""
    path = frames[-1].partition('"')[2].replace("\\", "/")
    place = path.rpartition("/")[2]  # nodes may have it in different folders
    return f"{place}: {without_numbers(alert.summary)}"


def can_be_shared(alert: Alert) -> bool:
    """Return whether an alert may join another run's incident: it is neither late nor of severity info."""
    return alert.severity is not Severity.INFO and not alert.late


def fail_together(one: Opening, other: Opening) -> bool:
    """Return whether two runs failed together."""
    if one.run_id == other.run_id or one.project != other.project:
        return False
    apart = abs(one.at_ns - other.at_ns) > WINDOW_NS
    if apart or max(one.started_ns, other.started_ns) > min(one.at_ns, other.at_ns):
        return False
    chains = chain_of(one.rule), chain_of(other.rule)
    if chains == ("process", "process"):
        stopped = one.host == other.host != "" and abs(one.onset_ns - other.onset_ns) <= NODE_NS
        return (stopped and one.cause == other.cause != "") or one.raised == other.raised != ""
    if one.rule == other.rule == BAD_SHARD:
        return one.shard != "" and one.shard == other.shard
    if chains != ("training", "training"):
        return False
    return _same_step(one.onset_step, other.onset_step) and (
        one.rule == other.rule or one.cause == other.cause != ""
    )


def _same_step(one: int | None, other: int | None) -> bool:
    if one is None or other is None or min(one, other) < EARLY:
        return False
    return abs(one - other) <= max(LEAST, NEAR * min(one, other))


class SharedIncidents:
    """The incidents that opened lately, of all runs in memory."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Opening] = {}
        """By incident and run, oldest first."""

    def joining(self, run: SharingRun) -> Callable[[Alert, int], str]:
        """Return a function that returns the incident of an alert of one run that would open its own.

        It takes the alert and the server's time, and returns how the alert refers to the incident.
        """

        def join(alert: Alert, now_ns: int) -> str:
            if not can_be_shared(alert):
                return alert.key
            joined = self.join(Opening.of(alert, run, now_ns))
            return alert.key if joined == alert.id else joined

        return join

    def restore(self, alerts: Iterable[Alert], run: SharingRun) -> None:
        """Remember the incidents of a stored run, by the first alert of each."""
        fired = [alert for alert in alerts if alert.incident and alert.fired_ns and can_be_shared(alert)]
        first: dict[str, Alert] = {}
        for alert in sorted(fired, key=lambda alert: (alert.fired_ns or 0, alert.id)):
            first.setdefault(alert.incident_id, alert)
        for alert in first.values():
            self.remember(Opening.of(alert, run, alert.fired_ns or 0))

    def join(self, opening: Opening) -> str:
        """Return the incident that an alert joins: its own, or that of a run that failed together with it.

        Of several, it is the one whose onset step is nearest, then the one that was known first.
        """
        found = list(self._matches(opening))
        if not found:
            self.remember(opening)
            return opening.incident_id
        nearest = min(found, key=lambda known: _distance(known, opening))
        self.remember(replace(opening, incident_id=nearest.incident_id))
        return nearest.incident_id

    def remember(self, opening: Opening) -> None:
        """Let other runs join the incident of an alert, after a restart too."""
        key = (opening.incident_id, opening.run_id)
        self._known.pop(key, None)
        self._known[key] = opening
        while len(self._known) > MOST:
            self._known.pop(next(iter(self._known)))

    def forget(self, run_id: str) -> None:
        """Forget a run that was deleted."""
        self._known = {key: each for key, each in self._known.items() if each.run_id != run_id}

    def _matches(self, opening: Opening) -> Iterator[Opening]:
        return (known for known in self._known.values() if fail_together(known, opening))


def _distance(one: Opening, other: Opening) -> float:
    if one.onset_step is None or other.onset_step is None:
        return float("inf")
    return abs(one.onset_step - other.onset_step)
