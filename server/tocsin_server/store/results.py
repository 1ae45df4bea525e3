"""Results of the reader: plain data with numpy arrays. Only ``Recovery.replay`` still reads the database."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tocsin_server.core.incidents import Incident, IncidentState
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
    """One attempt of a run; steps are None before its first record.

    ``last_ns`` is when its newest record or event was made, by the server's clock.
    """

    attempt: int
    started_ns: int
    first_step: int | None
    last_step: int | None
    last_ns: int | None = None


@dataclass(frozen=True, slots=True)
class StoredWriter:
    """One process of an attempt and the amount of its durable data."""

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
    """The run row. ``attempts`` is their number; only ``StoreReader.run`` fills the three lists.

    ``environment`` is ``{"versions", "optimizers", "scalers", "schedulers", "world_size", "hosts"}`` and what
    ``store/environment.py`` adds from events.
    ``summary`` is what the pipeline last stored for the list of runs, or None.
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
    """When the scheduled deletion of the run takes effect, or None."""


@dataclass(frozen=True, slots=True)
class SeriesLayer:
    """One series of one writer in a window: m exact records in order of x, or m buckets.

    ``x``, ``x1`` f64[m]: first and last step (or Unix ms if x is time) of each item, equal if
    exact. ``t`` f64[m]: Unix ms of its first record. ``first`` f64[m]: the bit-exact value if exact,
    else the first value of the bucket. ``min``, ``max``, ``mean`` f64[m] are over finite values
    and NaN in a bucket without any; they and ``last`` are None if exact. ``n``, ``nan``, ``pinf``,
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
    """Layers of each requested series, newest attempt first, then by rank.

    ``level``: 0 if all layers are exact, else the largest bucket size in records that was read.
    ``cursor``: the last arrival number in the answer, -1 if nothing has arrived.
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
    a batch (with rows ``at`` if some records have no value). ``next``: the cursor of the next page,
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
    """Arrival number of the batch that contained each record, i64[n]."""


def batches(page: RecordPage, writers: dict[int, Writer]) -> Iterator[RecordBatch]:
    """Yield the records of a page as the batches in which they arrived."""
    changes = (np.diff(page.writer) != 0) | (np.diff(page.arrival) != 0) | (np.diff(page.seq) != 1)
    ends = [*(np.flatnonzero(changes) + 1).tolist(), page.n]
    begin = 0
    for end in ends:
        columns = {name: _part(column, begin, end) for name, column in page.columns.items()}
        yield RecordBatch(
            writers[int(page.writer[begin])],
            int(page.arrival[begin]),
            int(page.seq[begin]),
            end - begin,
            page.step[begin:end],
            page.time_ns[begin:end],
            {name: column for name, column in columns.items() if len(column.v)},
        )
        begin = end


def _part(column: Column, begin: int, end: int) -> Column:
    """Return rows ``begin`` to ``end`` (exclusive) of a column, dense if all of them have a value."""
    if column.at is None:
        return Column(column.v[begin:end])
    first, last = np.searchsorted(column.at, (begin, end))
    at = column.at[first:last] - np.uint32(begin)
    return Column(column.v[first:last], None if len(at) == end - begin else at)


@dataclass(frozen=True, slots=True)
class EventPage:
    """Events in order of arrival. ``next``: the cursor of the next page, None at the end."""

    items: list[RunEvent]
    next: str | None


@dataclass(frozen=True, slots=True)
class AlertPage:
    """Alerts, newest change first. ``next``: the cursor of the next page, None at the end."""

    items: list[StoredAlert]
    next: str | None


@dataclass(frozen=True, slots=True)
class IncidentPage:
    """Incidents, newest change first. ``next``: the cursor of the next page, None at the end."""

    items: list[StoredIncident]
    next: str | None


@dataclass(frozen=True, slots=True)
class StoredAlert:
    """An alert in its current state, with the name and project of its run."""

    alert: Alert
    run_name: str
    project: str


@dataclass(frozen=True, slots=True)
class StoredIncident:
    """An incident, with the name and project of the run of its lead.

    ``runs`` are the names of its runs by id, that of its lead first.

    ``state`` and ``count`` are about all of its alerts; ``incident`` may hold only the first of many.
    """

    incident: Incident
    state: IncidentState
    count: int
    run_name: str
    project: str
    runs: Mapping[str, str] = field(default_factory=dict)


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
    """What the pipeline needs to resume a run.

    ``replay``: every batch and event that arrived after the rule state (all without one), in
    order of arrival, read lazily in pages, once. ``alerts``: the newest
    episode of each fingerprint, including resolved ones. ``last_arrival``: -1 if nothing has arrived.
    ``series``: the names of all series.
    """

    rule_state: SavedRuleState | None
    replay: Iterable[RecordBatch | RunEvent] = ()
    alerts: list[Alert] = field(default_factory=list)
    last_arrival: int = -1
    series: frozenset[str] = frozenset()
