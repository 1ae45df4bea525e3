"""Data model of the server: batches, events, findings, alerts. Plain data without I/O.

docs/internals/architecture.md defines the terms run, attempt, writer, record, series, finding and alert.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
U32 = NDArray[np.uint32]


class Severity(enum.StrEnum):
    """critical: act now; warning: look soon; info: no action needed."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def level(self) -> int:
        """The severity as 0 to 2, for comparisons."""
        return ("info", "warning", "critical").index(self.value)


class RunState(enum.StrEnum):
    """State of a run.

    running: steps arrive; stalled: alive without steps; lost: no contact; finished, failed: ended.
    """

    RUNNING = "running"
    STALLED = "stalled"
    LOST = "lost"
    FINISHED = "finished"
    FAILED = "failed"

    @property
    def ended(self) -> bool:
        return self in (RunState.FINISHED, RunState.FAILED)


RUN_FAILED = "run-failed"
SCRIPT_ALERT = "script-alert"
"""Rule of the alert that the server itself raises when a run fails."""
TRACEBACK = "traceback"
"""Name of the evidence of such an alert that holds the last lines of the traceback."""


WITHDRAWN = "Withdrawn: "
"""Start of the summary of a resolved alert that should never have fired, followed by the reason."""
RULE_CHANGED = "Closed: "
"""Start of the summary of an alert whose rule was changed or switched off while it fired. Nothing has
recovered."""


class AlertState(enum.StrEnum):
    """State of an alert, as in docs/explanation/alerts.md."""

    PENDING = "pending"
    FIRING = "firing"
    RECOVERING = "recovering"
    RESOLVED = "resolved"
    ENDED = "ended"
    """The run ended while the alert was firing. The condition never recovered."""


@dataclass(frozen=True, slots=True)
class Writer:
    """One process of an attempt. ``writer_no`` numbers the writers of a run."""

    run_id: str
    writer_no: int
    attempt_no: int
    rank: int


@dataclass(frozen=True, slots=True)
class Column:
    """One series of a batch: values ``v`` f64[k] at rows ``at`` u32[k], or at every row if ``at`` is None."""

    v: F64
    at: U32 | None = None

    def dense(self, n: int) -> list[float | None]:
        """Return the column as ``n`` values, None where a record has no value. Missing is not NaN."""
        if self.at is None:
            return [float(value) for value in self.v.tolist()]
        out: list[float | None] = [None] * n
        for row, value in zip(self.at.tolist(), self.v.tolist(), strict=True):
            out[row] = value
        return out

    def where(self, keep: NDArray[np.bool_], place: NDArray[np.int64]) -> Column:
        """Return the values of the records that ``keep`` selects; ``place`` has their rows afterwards."""
        if self.at is None:
            return Column(self.v[keep])
        chosen = keep[self.at]
        return Column(self.v[chosen], place[self.at[chosen]].astype(np.uint32))


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """``n`` records of one writer, in the order in which it created them.

    ``seq`` numbers the first record within its writer. ``arrival`` numbers this batch within its run, in the
    order in which batches are accepted and committed. ``step`` is i64[n]; ``time_ns`` is i64[n], Unix ns on
    the server's clock.
    """

    writer: Writer
    arrival: int
    seq: int
    n: int
    step: I64
    time_ns: I64
    columns: Mapping[str, Column]

    @property
    def run_id(self) -> str:
        return self.writer.run_id


@dataclass(frozen=True, slots=True)
class RunEvent:
    """An event of a run, such as a message; values per step are records.

    ``no`` numbers it within its writer, ``arrival`` within its run.
    """

    writer: Writer
    arrival: int
    no: int
    kind: str
    time_ns: int
    step: int | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    size: int = field(default=0, compare=False)
    """Bytes of memory that ``data`` occupies; 0 means not measured."""

    @property
    def run_id(self) -> str:
        return self.writer.run_id


@dataclass(frozen=True, slots=True)
class Evidence:
    """One value that supports a finding."""

    name: str
    value: float | str
    unit: str = ""
    step: int | None = None


@dataclass(frozen=True, slots=True)
class Remedy:
    """A recommended action: a sentence, and optionally code or configuration to paste."""

    text: str
    code: str = ""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The likely cause of a finding with evidence, alternatives, remedies and how to confirm it."""

    cause: str
    evidence: tuple[Evidence, ...] = ()
    alternatives: tuple[str, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    how_to_confirm: str = ""
    timeline: tuple[tuple[int, str, str], ...] = ()
    """Related events in order: (step, sentence, rule identifier)."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule reports about a range of steps; reported again whenever it changes.

    ``state`` is pending (the condition began, but the rule is not sure yet), firing, recovering or
    resolved.
    ``onset_step`` is where the change began; ``step`` is where the rule reported it.
    ``subject`` is the series (``loss``, ``scale/D``) or ``""`` for the run as a whole.
    """

    rule: str
    severity: Severity
    state: AlertState
    subject: str
    onset_step: int | None
    step: int | None
    time_ns: int
    summary: str
    diagnosis: Diagnosis
    labels: Mapping[str, str] = field(default_factory=dict)
    onset_ns: int | None = None
    """Time of the onset; None means the time of the first report."""


def incident_id(run_id: str, incident: str) -> str:
    """Return the id of an incident as an alert of ``run_id`` refers to it.

    Within its own run, an alert refers to it by fingerprint and episode; in another run's incident, by id.
    """
    if not incident or incident.count(".") > 1:
        return incident
    return f"{run_id}.{incident}"


@dataclass(frozen=True, slots=True)
class Alert:
    """One episode of a finding: from onset to resolution, for one fingerprint of one run."""

    run_id: str
    fingerprint: str
    episode: int
    rule: str
    subject: str
    severity: Severity
    state: AlertState
    onset_step: int | None
    onset_ns: int
    pending_ns: int | None
    fired_step: int | None
    fired_ns: int | None
    resolved_step: int | None
    resolved_ns: int | None
    summary: str
    diagnosis: Diagnosis
    labels: Mapping[str, str] = field(default_factory=dict)
    late: bool = False
    updated_ns: int = 0
    incident: str = ""
    """Its incident: fingerprint and episode of the alert that opened it; "" until the alert fires."""

    @property
    def id(self) -> str:
        return f"{self.run_id}.{self.key}"

    @property
    def key(self) -> str:
        """Fingerprint and episode, which identify the alert within its run."""
        return f"{self.fingerprint}.{self.episode}"

    @property
    def incident_id(self) -> str:
        """The id of its incident, which is that of the alert that opened it; "" until the alert fires."""
        return incident_id(self.run_id, self.incident)

    @property
    def is_open(self) -> bool:
        """Whether the alert is firing or recovering."""
        return self.state in (AlertState.FIRING, AlertState.RECOVERING)

    @property
    def is_inherited(self) -> bool:
        """Whether its run ended while it fired, and the next attempt has not shown yet that it is healthy.

        ``resolved_step`` and ``resolved_ns`` are those of that end, also once it is resolved or ends again.
        """
        return self.state is AlertState.RECOVERING and self.resolved_ns is not None

    @property
    def is_withdrawn(self) -> bool:
        """Whether the alert rested on something that turned out to be wrong. Nothing has recovered."""
        return self.state is AlertState.RESOLVED and self.summary.startswith(WITHDRAWN)

    @property
    def is_over(self) -> bool:
        """Whether the alert has resolved, or its run has ended."""
        return self.state in (AlertState.RESOLVED, AlertState.ENDED)


@dataclass(frozen=True, slots=True)
class Transition:
    """One state change of an alert, unique on (run, fingerprint, episode, state, severity) if ``first``.

    If ``first`` is False, this episode has been in the same state and severity before: there is new evidence,
    or it fires again after recovering. Such a transition only updates the alert's row; it adds no line to the
    history and sends no notification.
    """

    alert: Alert
    previous: AlertState | None
    at_ns: int
    first: bool = True
    reason: str = ""
    """Why the state changed, if a rule did not cause it; shown in the history instead of the summary."""


@dataclass(frozen=True, slots=True)
class SavedRuleState:
    """The state of a run's rules after everything up to ``arrival`` was evaluated."""

    run_id: str
    arrival: int
    body: bytes


@dataclass(frozen=True, slots=True)
class WriteBatch:
    """Data that is committed together: a batch or event, the alerts it caused, and sometimes a rule state.

    ``changes`` are column updates of the run row (state, ended_ns, error).
    """

    run_id: str
    batch: RecordBatch | None = None
    event: RunEvent | None = None
    rejected_to_seq: tuple[Writer, int] | None = None
    """Records of this writer up to this number were rejected and are acknowledged without being stored."""
    transitions: tuple[Transition, ...] = ()
    rule_state: SavedRuleState | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    done: Callable[[], None] | None = None
    """Called on the writer thread after the commit that contains this write batch."""
