"""Import an exported run with equal content, once, and without notifications.

The data is written like ordinary records, batch by batch as received, in transactions of one page
each. The run becomes visible with the last transaction, after the stored data was read back and compared
with the export's digest. If an import is interrupted before that, a mark causes its rows to be deleted.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tocsin.protocol import MOST_STEP
from tocsin_server.core.models import RunEvent, RunState, WriteBatch, Writer
from tocsin_server.detect.interface.similar_runs import SERVER
from tocsin_server.runs.validation.handshake import range_problem
from tocsin_server.runs.validation.limits import HIGHEST, Limits
from tocsin_server.runs.validation.names import names_problem, run_id_problem, tags_problem
from tocsin_server.store import audit, chunks, deletion, dump
from tocsin_server.store.acks import AckRow
from tocsin_server.store.compactor import pack_whole_tail, seal
from tocsin_server.store.connection import Connection, DataError, IntegrityError, ProgrammingError
from tocsin_server.store.database import Database
from tocsin_server.store.deletion_jobs import Transact, take_away
from tocsin_server.store.results import RecordPage, batches
from tocsin_server.store.row_builder import RowBuilder
from tocsin_server.store.tables import FIRST_SERIES
from tocsin_server.store.writer_cache import WriterCache, WriterKey
from tocsin_server.transfer import schema
from tocsin_server.transfer.acks import read_acks, write_acks
from tocsin_server.transfer.digest import Digest
from tocsin_server.transfer.record_import import read_pages
from tocsin_server.transfer.run_export import digest_of
from tocsin_server.transfer.run_folder import (
    ALERTS,
    EVENTS,
    RUN,
    BundleError,
    Item,
    Manifest,
    lines,
    read_manifest,
)
from tocsin_server.transfer.schema import checked

PULSE_NS = 120 * 1_000_000_000
"""An import that has written nothing for this long counts as interrupted, and its rows are deleted."""
EVENTS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Imported:
    """Result of an import. ``was_there``: the same run was stored already, and nothing was done."""

    run_id: str
    counts: dict[str, int]
    was_there: bool


def import_run(
    database: Database,
    transact: Transact,
    folder: Path,
    *,
    actor: str,
    limits: Limits,
    advance: Callable[[int], object] = lambda _: None,
) -> Imported:
    """Import the run of ``folder``.

    Args:
        database: The database.
        transact: Runs the writing transactions.
        folder: The folder of an exported run.
        actor: Who imports it, for the audit log.
        limits: The limits for training processes, which also apply to imports.
        advance: Called with the number of records that were stored.

    Raises:
        BundleError: The folder is invalid, or differs from a stored run with the same id. Nothing
            was changed.
    """
    manifest = _checked(folder, read_manifest(folder), limits)
    with database.reader.begin() as connection:
        stored = dump.read_dump(connection, manifest.run_id)
    if stored is not None:
        return _compared(database, stored, manifest)
    try:
        transact(partial(_begin, manifest=manifest))
    except (DataError, IntegrityError, ProgrammingError) as error:
        raise BundleError(str(folder / RUN), "consistent rows", str(error.orig)) from error
    try:
        _Import(database, transact, folder, manifest).bring_in(actor, advance)
    except (DataError, IntegrityError, ProgrammingError) as error:
        take_away(transact, manifest.run_id)
        raise BundleError(str(folder), "consistent rows", str(error.orig)) from error
    except BaseException:
        take_away(transact, manifest.run_id)
        raise
    return Imported(manifest.run_id, manifest.counts, was_there=False)


def _checked(folder: Path, manifest: Manifest, limits: Limits) -> Manifest:
    """Validate ``run.json`` and return the manifest.

    Raises:
        BundleError: A row is malformed, or contains a name or number that a handshake must not contain.
    """
    place = str(folder / RUN)
    checked(manifest.run, schema.RunRow, f"{place}: run")
    for name, rows, shape in (
        ("attempts", manifest.attempts, schema.AttemptRow),
        ("writers", manifest.writers, schema.WriterRow),
    ):
        for number, row in enumerate(rows):
            checked(row, shape, f"{place}: {name}[{number}]")
    if manifest.rule_state is not None:
        checked(manifest.rule_state, schema.RuleStateRow, f"{place}: rule_state")
        _check_base64(manifest.rule_state["body"], f"{place}: rule_state.body")
    if not all(isinstance(name, str) for name in manifest.series):
        raise BundleError(f"{place}: series", "names", repr(manifest.series)[:200])
    fault = _handshake_problem(manifest, limits)
    if fault is not None:
        raise BundleError(place, *fault)
    return manifest


def _check_base64(text: str, place: str) -> None:
    """Raise :class:`BundleError` with ``place`` if a text is not base64."""
    try:
        base64.b64decode(text, validate=True)
    except ValueError as error:
        raise BundleError(place, "base64", str(error)) from error


def _handshake_problem(manifest: Manifest, limits: Limits) -> tuple[str, str] | None:
    """Return (expected, got) of the first value that a training process could not have sent, or None."""
    run = manifest.run
    if not all(isinstance(tag, str) for tag in run["tags"]):
        return "tags: a list of texts", repr(run["tags"])[:200]
    faults = [
        run_id_problem(run["id"], limits),
        names_problem({"project": run["project"], "name": run["name"]}, {"host": run["host"]}, limits),
        tags_problem(run["tags"], limits),
        range_problem({"world_size": run["world_size"], "planned_steps": run["planned_steps"] or 0}),
    ]
    for row in manifest.attempts:
        optional = {"launch": row["launch"], "rendezvous": row["rendezvous"]}
        faults.append(names_problem({"key of an attempt": row["key"]}, optional, limits))
        faults.append(range_problem({"restarts": row["restarts"], "world_size": row["world_size"]}))
    for row in manifest.writers:
        optional = {"host": row["host"], "boot": row["boot"]}
        faults.append(names_problem({"key of a writer": row["key"]}, optional, limits))
        faults.append(range_problem({"rank": row["rank"], "pid": row["pid"]}))
    return next((fault for fault in faults if fault is not None), None)


def _compared(database: Database, stored: dump.Dump, manifest: Manifest) -> Imported:
    digest = digest_of(database, stored)
    if digest.hexdigest() == manifest.digest:
        return Imported(manifest.run_id, manifest.counts, was_there=True)
    raise BundleError(
        f"run {manifest.run_id}",
        f"no run with this id, or an identical one ({_counted(manifest.counts)})",
        f"a different one ({_counted(digest.counts)}), which is not overwritten; delete it first",
    )


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def _begin(connection: Connection, manifest: Manifest) -> None:
    if deletion.is_scheduled(connection, manifest.run_id):
        raise BundleError(
            f"run {manifest.run_id}",
            "no import or deletion of it in progress",
            f"one; if it was interrupted, try again in {PULSE_NS // 60_000_000_000} minutes",
        )
    deletion.schedule_deletion(connection, manifest.run_id, time.time_ns() + PULSE_NS)
    dump.write_frame(
        connection, manifest.run_id, manifest.attempts, manifest.writers, manifest.series, FIRST_SERIES
    )


class _Import:
    """One import in progress."""

    def __init__(self, database: Database, transact: Transact, folder: Path, manifest: Manifest) -> None:
        self._database = database
        self._transact = transact
        self._folder = folder
        self._manifest = manifest
        self._run_id = manifest.run_id
        self._row_builder = RowBuilder(WriterCache(known={manifest.run_id}))
        self._digest = Digest()
        self._writers = {
            row["writer_no"]: Writer(manifest.run_id, row["writer_no"], row["attempt_no"], row["rank"])
            for row in manifest.writers
        }
        self._sources = self._writers | {SERVER: Writer(manifest.run_id, SERVER, 0, 0)}
        """Writers of events; the server itself adds some."""

    def bring_in(self, actor: str, advance: Callable[[int], object]) -> None:
        """Import everything, compare it with the digest, then make the run visible."""
        self._take_records(advance)
        self._take_events()
        path = self._folder / ALERTS
        alerts = [
            self._digest.take_alert(checked(item, schema.AlertLine, f"{path}:{number}"))
            for number, item in lines(path)
        ]
        self._compare(self._digest, str(self._folder))
        self._do(lambda connection: self._row_builder.apply(connection, (), all_latest=True))
        stored = dump.Dump(
            self._manifest.run, [], [], [], alerts, None, dict.fromkeys(self._writers, 2**63 - 1), 2**63 - 1
        )
        self._compare(digest_of(self._database, stored), "what was stored")
        acks = read_acks(self._folder, {(item["fingerprint"], item["episode"]) for item in alerts})
        self._transact(partial(self._appear, alerts=alerts, acks=acks, actor=actor))

    def _compare(self, digest: Digest, place: str) -> None:
        manifest = self._manifest
        if digest.counts != manifest.counts:
            raise BundleError(place, _counted(manifest.counts), _counted(digest.counts))
        if digest.hexdigest() != manifest.digest:
            raise BundleError(place, f"content of digest {manifest.digest}", digest.hexdigest())

    def _take_records(self, advance: Callable[[int], object]) -> None:
        last = (-1, -1)
        for page in read_pages(self._folder):
            last = self._in_order(page, last)
            self._digest.take_page(page)
            writes = [WriteBatch(self._run_id, batch=batch) for batch in batches(page, self._writers)]
            self._do(partial(self._put, writes=writes))
            advance(page.n)
        for key in self._row_builder.cache.unsealed:
            self._do(partial(_pack, key=key))

    def _in_order(self, page: RecordPage, last: tuple[int, int]) -> tuple[int, int]:
        """Check that records are in order of (writer, seq) and of known writers; return the last such pair.

        Raises:
            BundleError: They are not, or a number is out of bounds.
        """
        place = f"{self._folder}: record {self._digest.records + 1}"
        _in_bounds(page, f"{place} or later")
        for writer, seq in zip(page.writer.tolist(), page.seq.tolist(), strict=True):
            if writer not in self._writers:
                raise BundleError(f"{place} or later", f"a writer of {RUN}", writer)
            if (writer, seq) <= last:
                raise BundleError(
                    f"{place} or later", f"records after writer {last[0]}, seq {last[1]}", (writer, seq)
                )
            last = (writer, seq)
        return last

    def _take_events(self) -> None:
        path, writes = self._folder / EVENTS, []
        for number, item in lines(path):
            place = f"{path}:{number}"
            self._digest.take_event(checked(item, schema.EventLine, place))
            writes.append(WriteBatch(self._run_id, event=self._event(item, place)))
            if len(writes) == EVENTS_AT_ONCE:
                self._do(partial(self._put, writes=writes))
                writes = []
        self._do(partial(self._put, writes=writes))

    def _event(self, item: Item, place: str) -> RunEvent:
        who = self._sources.get(item["writer"])
        if who is None:
            raise BundleError(f"{place}: writer", f"a writer of {RUN}", item["writer"])
        return RunEvent(
            who, item["arrival"], item["no"], item["kind"], item["time_ns"], item["step"], item["data"]
        )

    def _do(self, work: Callable[[Connection], None]) -> None:
        def alive(connection: Connection) -> None:
            work(connection)
            deletion.schedule_deletion(connection, self._run_id, time.time_ns() + PULSE_NS)

        self._transact(alive)
        self._row_builder.committed()

    def _put(self, connection: Connection, writes: list[WriteBatch]) -> None:
        self._row_builder.apply(connection, writes)
        unsealed = self._row_builder.cache.unsealed
        for key in list(unsealed):
            while unsealed[key] >= chunks.RECORDS and (taken := seal(connection, *key)):
                unsealed[key] -= taken

    def _appear(
        self,
        connection: Connection,
        alerts: list[Item],
        acks: list[AckRow],
        actor: str,
    ) -> None:
        now_ns = time.time_ns()
        dump.write_ends(connection, self._run_id, self._manifest.writers)
        dump.write_alerts(connection, self._run_id, alerts)
        row = as_imported(self._manifest.run, now_ns)
        dump.write_run(connection, row, self._manifest.rule_state, now_ns)
        write_acks(connection, self._run_id, acks)
        deletion.cancel_deletion(connection, self._run_id)
        audit.note(connection, now_ns, actor, "run.import", self._run_id, {"from": str(self._folder)})


def _in_bounds(page: RecordPage, place: str) -> None:
    """Raise :class:`BundleError` for a number that no record of a training process may contain."""
    for name, values, most in (
        ("step", page.step, MOST_STEP),
        ("time_ns", page.time_ns, HIGHEST),
        ("seq", page.seq, HIGHEST),
        ("arrival", page.arrival, HIGHEST),
    ):
        if page.n and not 0 <= int(values.min()) <= int(values.max()) <= most:
            raise BundleError(f"{place}: {name}", f"0 to {most}", f"{values.min()} to {values.max()}")


def as_imported(row: Item, now_ns: int) -> Item:
    """Return the row of the imported run. A run that was active when it was exported becomes ``lost``."""
    state = RunState(row["state"])
    environment = row["environment"] | {"imported": {"at_ns": now_ns, "state": state.value}}
    return row | {"environment": environment, "state": (state if state.ended else RunState.LOST).value}


def _pack(connection: Connection, key: WriterKey) -> None:
    pack_whole_tail(connection, *key)
