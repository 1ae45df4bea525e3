"""What the API returns, as typed objects. Fields that a newer server adds are ignored.

Fields ending in ``_ms`` are Unix milliseconds. Non-finite numbers are floats.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple, Union

import msgspec

_NAMES = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


class Reason(msgspec.Struct, frozen=True):
    """The most severe open alert of a run."""

    rule: str
    severity: str
    summary: str
    onset_step: Optional[int]
    alert: str


class Outcome(msgspec.Struct, frozen=True):
    """How a run ended: ``kind`` is finished, stopped, crashed or lost."""

    kind: str
    text: str
    severity: Optional[str] = None
    alert: Optional[str] = None
    acknowledged: bool = False


class MetricSummary(msgspec.Struct, frozen=True):
    """A series of a run: its newest value and step; the extremes are None without a finite value."""

    last: float
    step: int
    min: Optional[float] = None
    max: Optional[float] = None
    n: int = 0
    """Number of values; ``nonfinite`` of them are NaN, Inf or -Inf."""
    nonfinite: int = 0
    means: Dict[str, float] = {}
    """Means of the newest values, by the number of values, such as ``"10"``."""


class Run(msgspec.Struct, frozen=True):
    """One run of the list of runs. Unknown values are None."""

    id: str
    project: str
    name: str
    state: str
    """running, stalled, lost, finished or failed."""
    health: str
    """critical, warning, ok or ended."""
    created_ms: float
    last_seen_ms: float
    attempt: int = 1
    attempts: int = 1
    tags: List[str] = []
    host: str = ""
    archived: bool = False
    ended_ms: Optional[float] = None
    error: Optional[Dict[str, Any]] = None
    last_step: Optional[int] = None
    planned_steps: Optional[int] = None
    steps_per_s: Optional[float] = None
    last: Dict[str, Optional[float]] = {}
    """The newest value of each vital sign."""
    metrics: Dict[str, MetricSummary] = {}
    """The metrics in the filter by which the run was found."""
    skipped: int = 0
    nonfinite: int = 0
    lost_records: int = 0
    """Records that the run could not deliver, such as those of a deleted offline buffer."""
    gpu_util: Optional[float] = None
    alerts: int = 0
    """Number of open alerts."""
    severities: Dict[str, int] = {}
    """Number of open incidents by their most severe open alert."""
    reason: Optional[Reason] = None
    outcome: Optional[Outcome] = None


class Series(msgspec.Struct, frozen=True):
    """One series of a run: its name, number of values, range of steps and newest value."""

    name: str
    n: int
    first_step: Optional[int] = None
    last_step: Optional[int] = None
    last: Optional[float] = None


class Attempt(msgspec.Struct, frozen=True):
    """One start of a run."""

    attempt: int
    started_ms: float
    first_step: Optional[int] = None
    last_step: Optional[int] = None


class RunDetail(Run, frozen=True):
    """A run with its configuration, notes, environment, series and attempts."""

    config: Any = None
    notes: str = ""
    environment: Dict[str, Any] = {}
    series: List[Series] = []
    attempts_list: List[Attempt] = []


class Evidence(msgspec.Struct):
    """One number that supports a diagnosis; ``value`` is text for what is not a number."""

    name: str
    value: Union[float, str]
    unit: str = ""
    step: Optional[int] = None

    def __post_init__(self) -> None:
        if isinstance(self.value, str):
            self.value = _NAMES.get(self.value, self.value)


class Remedy(msgspec.Struct, frozen=True):
    """What to do, and code or configuration to paste."""

    text: str
    code: str = ""


class Diagnosis(msgspec.Struct, frozen=True):
    """The likely cause, its evidence, alternatives, remedies, and how to confirm it."""

    cause: str
    evidence: List[Evidence] = []
    alternatives: List[str] = []
    remedies: List[Remedy] = []
    how_to_confirm: str = ""
    timeline: List[List[Union[int, str]]] = []


class Acknowledgement(msgspec.Struct, frozen=True):
    """Who acknowledged, when and with which note."""

    by: str
    at_ms: float
    note: str = ""


class Alert(msgspec.Struct, frozen=True):
    """One episode of one rule in one run."""

    id: str
    run_id: str
    run_name: str
    project: str
    rule: str
    severity: str
    state: str
    """pending, firing, recovering, resolved or ended."""
    summary: str
    onset_ms: float
    diagnosis: Diagnosis
    incident: str = ""
    subject: str = ""
    """The series."""
    onset_step: Optional[int] = None
    fired_step: Optional[int] = None
    fired_ms: Optional[float] = None
    resolved_step: Optional[int] = None
    resolved_ms: Optional[float] = None
    late: bool = False
    causal_order: int = 0
    labels: Dict[str, str] = {}
    ack: Optional[Acknowledgement] = None
    """None if it is not acknowledged, and from a server older than this field."""


class Resume(msgspec.Struct, frozen=True):
    """Where to resume: the last good checkpoint before an incident, and a sentence."""

    text: str
    path: Optional[str] = None
    step: Optional[int] = None


class Incident(msgspec.Struct, frozen=True):
    """Alerts that belong together. ``alerts`` has up to 50 of its ``count`` alerts."""

    id: str
    run_id: str
    run_name: str
    project: str
    state: str
    """open, mitigated, ended or resolved."""
    severity: str
    summary: str
    onset_ms: float
    updated_ms: float
    root: str
    """Id of the alert nearest to the cause."""
    count: int
    alerts: List[Alert]
    onset_step: Optional[int] = None
    ack: Optional[Acknowledgement] = None
    resume: Optional[Resume] = None
    """Only from ``Api.incident``."""

    @property
    def diagnosis(self) -> Optional[Diagnosis]:
        """The diagnosis of the alert nearest to the cause."""
        found = [alert for alert in self.alerts if alert.id == self.root] or self.alerts
        return found[0].diagnosis if found else None


class Event(msgspec.Struct, frozen=True):
    """What is not a number per step; ``data`` is as the training process sent it."""

    id: str
    kind: str
    time_ms: float
    step: Optional[int] = None
    attempt: int = 0
    rank: int = 0
    data: Dict[str, Any] = {}


class ConsoleLine(msgspec.Struct, frozen=True):
    """One line that the script wrote to its terminal.

    ``open`` is True for a line that has not ended, such as a progress bar: a later line of the same attempt,
    rank and stream replaces it. ``step`` is the newest one when it was written.
    """

    id: str
    time_ms: float
    text: str
    stream: str
    """``out`` or ``err``: which stream it was written to."""
    step: Optional[int] = None
    open: bool = False
    attempt: int = 1
    rank: int = 0
    dropped: int = 0
    """Lines before this one that were not recorded, because the script wrote too much."""

    @property
    def writer(self) -> Tuple[int, int, str]:
        """What wrote it: attempt, rank and stream."""
        return self.attempt, self.rank, self.stream


class Checkpoint(msgspec.Struct, frozen=True):
    """A checkpoint that still exists, as far as the training process knew.

    ``problem`` says why it is not good to resume from, "" if it is good.
    """

    path: str
    step: int
    problem: str
    time_ms: float
    size: Optional[int] = None
    complete: Optional[bool] = None
    holds: List[str] = []
    by: str = ""
    attempt: int = 0
    rank: int = 0
    host: str = ""
    escaped: bool = False
    cut: bool = False


class Checkpoints(msgspec.Struct, frozen=True):
    """Checkpoints, newest first, and the last good one; ``text`` describes it in one sentence."""

    items: List[Checkpoint]
    text: str
    last_good: Optional[Checkpoint] = None
