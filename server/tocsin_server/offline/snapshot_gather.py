"""Gather the incident snapshot of an alert from the stored records of its run. Only reads."""

from __future__ import annotations

from collections.abc import Iterator

from tocsin_server.core.models import Alert, RecordBatch, RunEvent
from tocsin_server.detect.engine.plan import KIND as RULES
from tocsin_server.detect.interface.similar_runs import KIND as SIMILAR_RUNS
from tocsin_server.offline.snapshot import Window, document, overlaps, window_of
from tocsin_server.store.database import Database
from tocsin_server.store.reader import StoreReader
from tocsin_server.store.results import RecordPage, StoredRun, batches

MOST_VALUES = 500_000
"""Maximum values in a snapshot: about 10 MB of text. The lowest ranks come first; the rest is left out."""
MOST_EVENTS = 1000
MOST_ALERTS = 100
PAGE = 4096
CONTEXT = {
    "accumulation",
    "attached",
    "grad-norm-source",
    "schedule",
    "expect",
    "loss-components",
    "metric",
    "precision",
    "checkpoint",
    SIMILAR_RUNS,
    RULES,
}
"""Kinds of events that rules need, however long before the onset they arrived."""


def download(database: Database, alert_id: str) -> bytes | None:
    """Return the incident snapshot of an alert as a file, or None if there is no such alert."""
    reader = StoreReader(database)
    stored = reader.alert(alert_id)
    stored_run = None if stored is None else reader.run(stored.alert.run_id)
    if stored is None or stored_run is None:
        return None
    window = window_for(stored_run, stored.alert)
    others = [other.alert for other in reader.alerts(stored_run.id, limit=MOST_ALERTS)]
    near = [other for other in others if other.id != alert_id and overlaps(other, window)]
    near.sort(key=lambda other: (other.onset_ns, other.id))
    found = list(_batches(reader, stored_run, window))
    first = min((batch.arrival for batch in found), default=0)
    stop = max((batch.arrival for batch in found), default=-1) + 1
    events = _events(reader, stored_run.id, window, range(first, stop))
    whole = stored_run.state.ended or _newest(stored_run) > window.last_step
    return document(stored_run, [stored.alert, *near[:MOST_ALERTS]], window, whole, found, events)


def window_for(stored: StoredRun, alert: Alert) -> Window:
    """Return the window around an alert's onset, or around the run's end if the alert has no step."""
    ends = [(who.first_step, who.last_step) for who in stored.writers]
    first = min((first for first, _ in ends if first is not None), default=0)
    last = max((last for _, last in ends if last is not None), default=0)
    records = max((who.records for who in stored.writers), default=0)
    known = (alert.onset_step, alert.fired_step, last)
    return window_of(next(step for step in known if step is not None), last - first, records)


def _newest(stored: StoredRun) -> int:
    """Return the newest step of the newest attempt; an earlier attempt may have gone further."""
    ends = [(who.writer.attempt_no, who.last_step) for who in stored.writers if who.last_step is not None]
    return max(ends, default=(0, -1))[1]


def _batches(reader: StoreReader, stored: StoredRun, window: Window) -> Iterator[RecordBatch]:
    """Return batches in order of arrival; if there are too many, those of the lowest ranks."""
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
    """Return the newest events that rules need, those in the window, and the end of the run."""
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
