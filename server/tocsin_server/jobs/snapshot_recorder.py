"""Incident snapshots of alerts: gathered from stored records, frozen by the writer thread.

Nothing here lies on the record path. An alert's record is frozen as soon as it fired, and once more when
its run has passed the window or ended. A kill in between costs nothing: what is missing is found again in
the tables, and a download that comes earlier is gathered on the spot.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from tocsin_server.core.models import Alert, RecordBatch, RunEvent
from tocsin_server.detect.engine.plan import KIND as RULES
from tocsin_server.detect.interface.similar_runs import KIND as SIMILAR_RUNS
from tocsin_server.offline.snapshot import (
    IncidentSnapshotError,
    Window,
    document,
    frozen,
    overlaps,
    window_of,
)
from tocsin_server.store.alert_rows import alert_key
from tocsin_server.store.connection import Connection
from tocsin_server.store.damage import warn
from tocsin_server.store.database import Database
from tocsin_server.store.periodic_jobs import PeriodicJob
from tocsin_server.store.reader import StoreReader
from tocsin_server.store.results import RecordPage, StoredRun
from tocsin_server.store.snapshots import (
    IncidentSnapshotRow,
    Lacking,
    count_incident_snapshots,
    keep_incident_snapshot,
    lacking,
    read_incident_snapshot,
)
from tocsin_server.store.writer import StoreWriter
from tocsin_server.transfer.run_import import batches

MOST_VALUES = 500_000
"""Numbers of one incident snapshot: about 10 MB of text. The lowest ranks come first; then it is cut."""
MOST_EVENTS = 1000
MOST_ALERTS = 100
MOST_OF_RUN = 200
"""So many alerts of a run are frozen, the first ones; those of later ones are gathered when asked for."""
AT_ONCE = 8
"""Records that one look makes: a run with a hundred alerts must not keep a core busy."""
CANDIDATES = 10_000
LOOKED_BACK_NS = 60_000_000_000
"""Every look goes over the alerts that changed within this time: a commit may come that late."""
FULL_LOOK_NS = 600_000_000_000
"""After so long, and at the start, every alert is looked at."""
PAGE = 4096
CONTEXT = {
    "accumulation",
    "attached",
    "grad-norm-source",
    "schedule",
    "expect",
    "loss-components",
    "metric",
    "checkpoint",
    SIMILAR_RUNS,
    RULES,
}
"""Kinds of events that rules need however long before the onset they came."""


@dataclass(frozen=True, slots=True)
class BuiltSnapshot:
    """An incident snapshot as things stand: its body, and whether nothing more will come."""

    window: Window
    whole: bool
    body: bytes


def download(database: Database, alert_id: str) -> bytes | None:
    """The incident snapshot of an alert as a file, gathered now where none is frozen; None: no such alert."""
    reader = StoreReader(database)
    stored = reader.alert(alert_id)
    stored_run = None if stored is None else reader.run(stored.alert.run_id)
    if stored is None or stored_run is None:
        return None
    with database.reader.begin() as connection:
        row = read_incident_snapshot(connection, alert_id)
    window = window_for(stored_run, stored.alert)
    others = [other.alert for other in reader.alerts(stored_run.id, limit=MOST_ALERTS)]
    near = [other for other in others if other.id != alert_id and overlaps(other, window)]
    near.sort(key=lambda other: (other.onset_ns, other.id))
    alerts = [stored.alert, *near[:MOST_ALERTS]]
    if row is not None and row.whole:
        try:
            return document(stored_run, alerts, row.body)
        except IncidentSnapshotError as error:  # gather it again: only retention deletes records
            warn("incident_snapshot", alert_id, "body", str(error))
    return document(stored_run, alerts, gather(reader, stored_run, window).body)


def window_for(stored: StoredRun, alert: Alert) -> Window:
    """The window around an alert's onset; around the run's end where the alert names no step."""
    ends = [(who.first_step, who.last_step) for who in stored.writers]
    first = min((first for first, _ in ends if first is not None), default=0)
    last = max((last for _, last in ends if last is not None), default=0)
    records = max((who.records for who in stored.writers), default=0)
    known = (alert.onset_step, alert.fired_step, last)
    return window_of(next(step for step in known if step is not None), last - first, records)


def gather(reader: StoreReader, stored: StoredRun, window: Window) -> BuiltSnapshot:
    """Reads all series of all writers in the window, and the events that belong to it."""
    found = list(_batches(reader, stored, window))
    first = min((batch.arrival for batch in found), default=0)
    stop = max((batch.arrival for batch in found), default=-1) + 1
    whole = stored.state.ended or _newest(stored) > window.last_step
    events = _events(reader, stored.id, window, range(first, stop))
    return BuiltSnapshot(window, whole, frozen(window, whole, found, events))


def _newest(stored: StoredRun) -> int:
    """Up to where the newest attempt has come: an earlier one may have gone further."""
    ends = [(who.writer.attempt_no, who.last_step) for who in stored.writers if who.last_step is not None]
    return max(ends, default=(0, -1))[1]


def _batches(reader: StoreReader, stored: StoredRun, window: Window) -> Iterator[RecordBatch]:
    """In order of arrival, the lowest ranks first where there are too many."""
    writers = {who.writer.writer_no: who.writer for who in stored.writers}
    found = [batch for page in _pages(reader, stored.id, window) for batch in batches(page, writers)]
    room, taken = MOST_VALUES, []
    for batch in sorted(found, key=lambda item: (item.writer.rank, item.arrival)):
        room -= sum(len(column.v) for column in batch.columns.values())
        if room < 0:
            break
        taken.append(batch)
    return iter(sorted(taken, key=lambda item: (item.arrival, item.writer.writer_no, item.seq)))


def _pages(reader: StoreReader, run_id: str, window: Window) -> Iterator[RecordPage]:
    after: str | None = None
    values = 0
    while values < 2 * MOST_VALUES:
        page = reader.records(run_id, start=window.first_step, stop=window.last_step, after=after, limit=PAGE)
        values += sum(len(column.v) for column in page.columns.values())
        if page.n:
            yield page
        if page.next is None:
            return
        after = page.next


def _events(reader: StoreReader, run_id: str, window: Window, arrivals: range) -> list[RunEvent]:
    """The newest of those that rules need, and of those said in the window; the run's end too."""
    kept: list[RunEvent] = []
    for event in _every_event(reader, run_id):
        if event.step is not None:
            inside = window.first_step <= event.step <= window.last_step
        else:
            inside = event.arrival in arrivals
        if inside or event.kind == "finish" or (event.kind in CONTEXT and event.arrival < arrivals.stop):
            kept.append(event)
            del kept[:-MOST_EVENTS]
    return kept


def _every_event(reader: StoreReader, run_id: str) -> Iterator[RunEvent]:
    after: str | None = None
    while True:
        page = reader.events(run_id, after=after, limit=1000)
        yield from page.items
        if page.next is None:
            return
        after = page.next


class SnapshotRecorder:
    """Freezes incident snapshots beside the record path: reads in a thread, writes by the writer thread."""

    def __init__(
        self,
        database: Database,
        writer: StoreWriter,
        *,
        work: PeriodicJob | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.work = work or PeriodicJob("snapshots")
        self._database = database
        self._reader = StoreReader(database)
        self._writer = writer
        self._clock = clock
        self._looked_ns: int | None = None
        self._until: dict[str, int] = {}
        """By alert that waits: the step behind which its window is whole."""
        self._full: set[str] = set()
        """Runs that have as many as they may."""

    async def look(self) -> int:
        """Freeze what is due, a few at a time; return how many. An alert that fails rests."""
        due = await asyncio.to_thread(self._due)
        for item in due:
            with self.work.isolated(subject_of(item)):
                await self._freeze(item)
        return len(due)

    async def _freeze(self, item: Lacking) -> None:
        made = await asyncio.to_thread(self._made, item)
        if made is not None:
            keep = partial(keep_incident_snapshot, run_id=item.run_id, row=made)
            await asyncio.wrap_future(self._writer.call(keep))

    def _due(self) -> list[Lacking]:
        now_ns = self._clock()
        whole_look = self._looked_ns is None or now_ns - self._looked_ns > FULL_LOOK_NS
        with self._database.reader.begin() as connection:
            found = lacking(connection, 0 if whole_look else now_ns - LOOKED_BACK_NS, CANDIDATES)
            due = [item for item in found if self._is_due(connection, item)]
        if whole_look and len(due) <= AT_ONCE:
            self._looked_ns = now_ns
        waiting = {item.alert_id for item in found}
        self._until = {name: step for name, step in self._until.items() if name in waiting}
        return due[:AT_ONCE]

    def _is_due(self, connection: Connection, item: Lacking) -> bool:
        if self.work.rests(subject_of(item)):
            return False
        if not item.is_begun:
            return item.run_id not in self._full and not self._fill(connection, item.run_id)
        until = self._until.get(item.alert_id)
        return until is None or item.run_over or (item.newest_step or 0) > until

    def _fill(self, connection: Connection, run_id: str) -> bool:
        if count_incident_snapshots(connection, run_id) >= MOST_OF_RUN:
            self._full.add(run_id)
        return run_id in self._full

    def _made(self, item: Lacking) -> IncidentSnapshotRow | None:
        """What is to be frozen of one alert; None where its run is gone."""
        key = alert_key(item.alert_id)
        stored, stored_run = self._reader.alert(item.alert_id), self._reader.run(item.run_id)
        if key is None or stored is None or stored_run is None:
            return None
        made = gather(self._reader, stored_run, window_for(stored_run, stored.alert))
        if not made.whole:
            self._until[item.alert_id] = made.window.last_step
        return IncidentSnapshotRow(key[1], key[2], self._clock(), made.whole, made.body)


def subject_of(item: Lacking) -> str:
    """What a failure to make this incident snapshot is filed under."""
    return f"run {item.run_id}, alert {item.alert_id.rsplit('.', 2)[1]}"


async def record_incident_snapshots(recorder: SnapshotRecorder, *, interval_s: float = 1.0) -> None:
    """Looks every ``interval_s`` until it is cancelled."""
    await recorder.work.keep(recorder.look, interval_s)
