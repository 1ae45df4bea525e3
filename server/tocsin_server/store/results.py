"""What the reader answers: plain data with numpy arrays, no database behind it but ``Recovery.replay``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tocsin_server.core.models import (
    F64,
    I64,
    Alert,
    Column,
    RecordBatch,
    RunEvent,
    RunState,
    SavedRuleState,
    Severity,
    Writer,
)


@dataclass(frozen=True, slots=True)
class StoredAttempt:
    """One launch of a run; steps are None before its first record."""

    attempt: int
    started_ns: int
    first_step: int | None
    last_step: int | None


@dataclass(frozen=True, slots=True)
class StoredWriter:
    """One process of an attempt and how much of it is durable."""

    writer: Writer
    host: str
    pid: int
    handshake_ns: int
    records: int
    events: int
    first_step: int | None
    last_step: int | None


@dataclass(frozen=True, slots=True)
class StoredSeries:
    """One series of a run over all its writers; ``last`` is its newest value in the newest attempt."""

    name: str
    n: int
    first_step: int
    last_step: int
    last: float


@dataclass(frozen=True, slots=True)
class StoredRun:
    """The run row. ``attempts`` counts them; the three lists are filled by ``StoreReader.run`` only.

    ``environment``: ``{"versions", "optimizers", "scalers", "schedulers", "world_size", "hosts"}``.
    ``board`` is whatever the pipeline last put into the run's ``board`` column, or None.
    """

    id: str
    project: str
    name: str
    state: RunState
    created_ns: int
    last_seen_ns: int
    ended_ns: int | None
    last_step: int | None
    planned_steps: int | None
    world_size: int
    host: str
    notes: str
    tags: list[str]
    config: Any
    environment: dict[str, Any]
    error: Any
    summary: Any
    archived: bool
    attempts: int
    attempts_list: tuple[StoredAttempt, ...] = ()
    writers: tuple[StoredWriter, ...] = ()
    series: tuple[StoredSeries, ...] = ()
    deletion_ns: int | None = None
    """When the run goes for good, where somebody deleted it with time to think again; None: it stays."""


@dataclass(frozen=True, slots=True)
class SeriesLayer:
    """One series of one writer in a window: m exact records in order of x, or m buckets.

    ``x``, ``x1`` f64[m]: first and last step (or Unix ms where x is time) of each item, equal where
    exact. ``t`` f64[m]: Unix ms of its first record. ``first`` f64[m]: the value where exact, bit for
    bit, else the first value of the bucket. ``min``, ``max``, ``mean`` f64[m] are over finite values
    and NaN where a bucket has none; with ``last`` they are None where exact. ``n``, ``nan``, ``pinf``,
    ``ninf`` f64[m] count values.
    """

    attempt: int
    rank: int
    writer_no: int
    exact: bool
    x: F64
    x1: F64
    t: F64
    first: F64
    n: F64
    nan: F64
    pinf: F64
    ninf: F64
    min: F64 | None = None
    max: F64 | None = None
    mean: F64 | None = None
    last: F64 | None = None


@dataclass(frozen=True, slots=True)
class SeriesAnswer:
    """Layers of each asked series, newest attempt first, then by rank.

    ``level``: 0 where all layers are exact, else the largest bucket size in records that was read.
    ``cursor``: the arrival number that the answer covers, -1 where nothing has arrived.
    ``first_step``, ``last_step`` are those of the whole run, None before its first record.
    """

    run_id: str
    x: str
    level: int
    cursor: int
    first_step: int | None
    last_step: int | None
    series: Mapping[str, list[SeriesLayer]]


@dataclass(frozen=True, slots=True)
class RecordPage:
    """``n`` records in order of (writer, seq), never sampled.

    ``attempt``, ``rank``, ``writer``, ``seq``, ``step``, ``time_ns`` i64[n]; ``columns`` by name as in
    a batch (rows ``at`` where some records have no such value). ``next``: the cursor to go on from,
    None at the end.
    """

    n: int
    attempt: I64
    rank: I64
    writer: I64
    seq: I64
    step: I64
    time_ns: I64
    columns: Mapping[str, Column]
    next: str | None
    arrival: I64
    """Number of the batch that brought each record, within the run."""


@dataclass(frozen=True, slots=True)
class EventPage:
    """Events in order of arrival. ``next``: the cursor to go on from, None at the end."""

    items: list[RunEvent]
    next: str | None


@dataclass(frozen=True, slots=True)
class StoredAlert:
    """An alert in its latest state, and the run that it belongs to."""

    alert: Alert
    run_name: str
    project: str


@dataclass(frozen=True, slots=True)
class AlertStep:
    """One line of an alert's history."""

    state: str
    severity: Severity
    previous: str | None
    at_ns: int
    step: int | None
    summary: str


@dataclass(frozen=True, slots=True)
class Recovery:
    """What the pipeline needs to go on with a run.

    ``replay``: every batch and event that arrived after the snapshot (all where there is none), in
    order of arrival, read page by page while it is gone through, once. ``alerts``: the newest
    episode of each fingerprint, resolved ones too. ``last_arrival``: -1 where nothing has arrived.
    """

    rule_state: SavedRuleState | None
    replay: Iterable[RecordBatch | RunEvent] = ()
    alerts: list[Alert] = field(default_factory=list)
    last_arrival: int = -1
