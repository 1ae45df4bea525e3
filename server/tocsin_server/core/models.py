"""The nouns of the server: batches, events, findings, alerts. Plain data, no I/O, imported by all.

Words are those of docs/internals/architecture.md: run, attempt, writer, record, series, finding, alert.
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
    """critical: act now; warning: look soon; info: good to know."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def level(self) -> int:
        """0, 1, 2: for comparing."""
        return ("info", "warning", "critical").index(self.value)


class RunState(enum.StrEnum):
    """Five things never mixed up: steps come; alive without steps; no word; ended well; ended badly."""

    RUNNING = "running"
    STALLED = "stalled"
    LOST = "lost"
    FINISHED = "finished"
    FAILED = "failed"

    @property
    def ended(self) -> bool:
        return self in (RunState.FINISHED, RunState.FAILED)


class AlertState(enum.StrEnum):
    PENDING = "pending"
    FIRING = "firing"
    RECOVERING = "recovering"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class Writer:
    """One process of an attempt, as the store numbers it within its run."""

    run_id: str
    writer_no: int
    attempt_no: int
    rank: int


@dataclass(frozen=True, slots=True)
class Column:
    """One series of a batch: values ``v`` f64[k] at rows ``at`` u32[k], or at every row (None)."""

    v: F64
    at: U32 | None = None

    def dense(self, n: int) -> list[float | None]:
        """The column as ``n`` Python values, None where the record has none. Missing is not NaN."""
        if self.at is None:
            return [float(value) for value in self.v.tolist()]
        out: list[float | None] = [None] * n
        for row, value in zip(self.at.tolist(), self.v.tolist(), strict=True):
            out[row] = value
        return out


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """``n`` records of one writer in the order it made them.

    ``seq`` numbers the first record within its writer; ``arrival`` numbers this batch within
    its run, in the order in which it was accepted and will be committed. ``step`` i64[n];
    ``time_ns`` i64[n], Unix ns on the server's clock.
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
    """What is not a number per step. ``no`` numbers it within its writer, ``arrival`` within its run."""

    writer: Writer
    arrival: int
    no: int
    kind: str
    time_ns: int
    step: int | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    size: int = field(default=0, compare=False)
    """Bytes of memory that ``data`` holds; 0: not measured."""

    @property
    def run_id(self) -> str:
        return self.writer.run_id


@dataclass(frozen=True, slots=True)
class Evidence:
    """One number that speaks for a finding."""

    name: str
    value: float | str
    unit: str = ""
    step: int | None = None


@dataclass(frozen=True, slots=True)
class Remedy:
    """What to do: a sentence, and code or configuration to paste where there is any."""

    text: str
    code: str = ""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why, on which evidence, what else it could be, what to do, and what would disprove it."""

    cause: str
    evidence: tuple[Evidence, ...] = ()
    alternatives: tuple[str, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    how_to_confirm: str = ""
    timeline: tuple[tuple[int, str, str], ...] = ()
    """The chain of events in order: (step, sentence, rule identifier)."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule says about a stretch of steps, said again whenever it changes.

    ``state``: pending (the condition began, the rule is not sure), firing, recovering, resolved.
    ``onset_step`` is where the change began; ``step`` is where the rule said so.
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
    """Time of the onset; None: that of the first word about it."""


@dataclass(frozen=True, slots=True)
class Alert:
    """The life of one finding: one episode of one fingerprint of one run."""

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

    @property
    def id(self) -> str:
        return f"{self.run_id}.{self.fingerprint}.{self.episode}"

    @property
    def is_open(self) -> bool:
        """Pending ones are not open yet, resolved ones no more."""
        return self.state in (AlertState.FIRING, AlertState.RECOVERING)


@dataclass(frozen=True, slots=True)
class Transition:
    """One step in an alert's life, unique on (run, fingerprint, episode, state, severity) where ``first``.

    With ``first`` False the same state and severity were told of this episode before: new evidence,
    or firing once more after recovering. It updates the alert's row and is neither a line of its
    history nor a notification.
    """

    alert: Alert
    previous: AlertState | None
    at_ns: int
    first: bool = True
    reason: str = ""
    """Why, where it is not the rule that says so: a line of the history instead of the summary."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A run ended badly. ``late``: it did so long before the word of it came (a spool brought in)."""

    run_id: str
    attempt_no: int
    severity: Severity
    at_ns: int
    step: int | None
    summary: str
    late: bool = False


@dataclass(frozen=True, slots=True)
class SavedRuleState:
    """The state of a run's rules after everything up to ``arrival`` was judged."""

    run_id: str
    arrival: int
    body: bytes


@dataclass(frozen=True, slots=True)
class WriteBatch:
    """What must become durable together: a batch or event, the alerts it caused, and sometimes a snapshot.

    ``changes`` are column updates of the run row (state, ended_ns, error).
    """

    run_id: str
    batch: RecordBatch | None = None
    event: RunEvent | None = None
    rejected_to_seq: tuple[Writer, int] | None = None
    """Records up to this number of this writer were refused and count as dealt with."""
    transitions: tuple[Transition, ...] = ()
    failure: Failure | None = None
    rule_state: SavedRuleState | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    done: Callable[[], None] | None = None
    """Called on the writer thread after the commit that holds this intake."""
