"""Export a run into a folder, in its state when the export starts. Memory is bounded.

Data that arrives during the export is left out: it contains records up to the last number of each writer,
events up to the last arrival, and alerts and environment as they were at the start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from tocsin_server.core import exact_json
from tocsin_server.core.models import RunEvent
from tocsin_server.store.arrays import Points
from tocsin_server.store.database import Database
from tocsin_server.store.dump import Dump, read_dump
from tocsin_server.store.reader import StoreReader
from tocsin_server.store.results import RecordPage
from tocsin_server.transfer.acks import ack_items
from tocsin_server.transfer.digest import Digest
from tocsin_server.transfer.formats import Format
from tocsin_server.transfer.record_export import bodies_of, every_page
from tocsin_server.transfer.run_folder import (
    ACKS,
    ALERTS,
    EVENTS,
    RECORDS,
    RUN,
    BundleError,
    Item,
    Manifest,
    write_manifest,
)

EVENTS_AT_ONCE = 1000


def export_run(
    database: Database, run_id: str, folder: Path, advance: Callable[[int], object] = lambda _: None
) -> Manifest:
    """Export everything of a run into ``folder``, which must not contain an export.

    ``advance`` is called with the number of records of each page.

    Raises:
        BundleError: The folder contains an export, or there is no such run.
    """
    if (folder / RUN).exists():
        raise BundleError(str(folder), "a new folder", "one that holds an exported run")
    with database.reader.begin() as connection:
        dump = read_dump(connection, run_id)
        acks = list(ack_items(connection, run_id))
    if dump is None:
        raise BundleError("run", "the id of a run", repr(run_id))
    folder.mkdir(parents=True, exist_ok=True)
    digest, reader = Digest(), StoreReader(database)

    def pages() -> Iterator[RecordPage]:
        for page in pages_of(reader, dump):
            yield digest.take_page(page)
            advance(page.n)

    with (folder / RECORDS).open("wb") as file:
        for body in bodies_of(pages(), Format.JSONL, dump.series):
            file.write(body)
    _write_lines(folder / EVENTS, map(digest.take_event, events_of(reader, dump)))
    _write_lines(folder / ALERTS, map(digest.take_alert, dump.alerts))
    _write_lines(folder / ACKS, acks)
    manifest = Manifest(
        dump.run,
        dump.attempts,
        dump.writers,
        dump.series,
        dump.rule_state,
        digest.counts,
        digest.hexdigest(),
    )
    write_manifest(folder, manifest)
    return manifest


def digest_of(database: Database, dump: Dump) -> Digest:
    """Return the digest of a stored run."""
    digest, reader = Digest(), StoreReader(database)
    for page in pages_of(reader, dump):
        digest.take_page(page)
    for item in events_of(reader, dump):
        digest.take_event(item)
    for item in dump.alerts:
        digest.take_alert(item)
    return digest


def pages_of(reader: StoreReader, dump: Dump) -> Iterator[RecordPage]:
    """Yield the records of a run up to the state of ``dump``."""
    for page in every_page(reader, str(dump.run["id"])):
        last = np.array([dump.last_seq.get(writer, -1) for writer in page.writer.tolist()], dtype=np.int64)
        part = kept(page, page.seq <= last)
        if part.n:
            yield part


def kept(page: RecordPage, keep: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> RecordPage:
    """Return the records of a page that ``keep`` bool[n] selects."""
    if keep.all():
        return page
    names = list(page.columns)
    columns = {place: page.columns[name] for place, name in enumerate(names)}
    points = Points(page.seq, page.arrival, page.step, page.time_ns, columns).where(keep)
    return RecordPage(
        points.n,
        page.attempt[keep],
        page.rank[keep],
        page.writer[keep],
        points.seq,
        points.step,
        points.time_ns,
        {names[place]: column for place, column in points.columns.items()},
        page.next,
        points.arrival,
    )


def events_of(reader: StoreReader, dump: Dump) -> Iterator[Item]:
    """Yield the events of a run up to the state of ``dump``."""
    after: str | None = None
    while True:
        page = reader.events(str(dump.run["id"]), after=after, limit=EVENTS_AT_ONCE)
        for event in page.items:
            if event.arrival > dump.last_arrival:
                return
            yield event_item(event)
        after = page.next
        if after is None:
            return


def event_item(event: RunEvent) -> Item:
    """Return an event as a line of ``events.jsonl``."""
    own: Mapping[str, object] = {
        "writer": event.writer.writer_no,
        "no": event.no,
        "arrival": event.arrival,
        "kind": event.kind,
        "step": event.step,
        "time_ns": event.time_ns,
        "data": event.data,
    }
    return dict(own)


def _write_lines(path: Path, items: Iterable[Item]) -> None:
    with path.open("w", encoding="utf-8", errors="replace", newline="\n") as file:
        for item in items:
            file.write(exact_json.dumps(item) + "\n")
