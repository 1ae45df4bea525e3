"""``tocsin import``: past runs out of log files. Importing the same file again brings nothing twice.

A run's identifier is a hash of its file's content and name, and each run of a file is one writer
whose records keep their numbers, so that the server knows what it has. Imported runs say so in
``hello.config`` and in an ``imported`` event: nobody is to be notified of them.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .greeting import Facts, hello
from .identity import Identity
from .importers import Fact, Item, Log, LogRecord, UnreadableLogError, open_log
from .importers.key_values import FORMAT as KEY_VALUES
from .naming import host_of
from .outbox import Outbox
from .protocol import WriterId
from .sender import Sender

IN_FLIGHT_BYTES = 2 << 20
"""So many bytes of values may be on their way; the sender's memory holds twice that."""
WAIT_S = 0.01
FINISH_S = 30.0
LOG_SUFFIXES = {".log", ".txt", ".out", ".err", ""}
"""In a folder only such files count as logs of ``key=value`` lines: settings look like them."""


class NotDeliveredError(OSError):
    """The server took nothing for too long, or refuses: its own words."""


@dataclass(frozen=True)
class Way:
    """Where runs go, and how patient to be."""

    url: str
    token: str
    spool_dir: Path | None = None
    exit_timeout_s: float = FINISH_S
    patience_s: float = 30.0
    """Without an acknowledgement for so long the import gives up."""


class LogRun:
    """One log as one run on the server; each run within the file is an attempt, one writer each."""

    def __init__(
        self, facts: Callable[[int], Facts], way: Way, first_event: dict[str, Any], *, wait: bool
    ) -> None:
        self._facts = facts
        self._way = way
        self._first_event = first_event
        self._wait = wait
        self._attempt = 0
        self._rank: int | None = None
        self._outbox: Outbox | None = None
        self._sender: Sender | None = None
        self._put = 0
        self._names: dict[tuple[str, ...], tuple[str, ...]] = {}
        self.records = 0
        self.other_ranks = 0
        """Records of other ranks than the first in the file: they are left out."""

    def take(self, items: Iterable[Item], now: Callable[[], int]) -> None:
        """Sends records and facts; ``now`` gives the time, Unix ns, of a record whose line has none."""
        for item in items:
            if isinstance(item, LogRecord):
                self._record(item, now)
            elif isinstance(item, Fact):
                self._open().put_event(item.kind, now(), None, item.data)

    def close(self, state: str = "finished") -> None:
        """Delivers what waits and ends the run. Raises NotDeliveredError where not all was taken."""
        sender, self._sender, self._outbox = self._sender, None, None
        if sender is None:
            return
        sender.close(state=state)
        if self._wait and sender.stats.acked_seq < self._put - 1:
            raise NotDeliveredError(sender.stats.last_error or "the server did not acknowledge in time")

    def _record(self, record: LogRecord, now: Callable[[], int]) -> None:
        self._rank = record.rank if self._rank is None else self._rank
        if record.rank != self._rank or record.copy:
            self.other_ranks += 1
            return
        if record.attempt != self._attempt:
            self.close()
            self._attempt = record.attempt
        values = record.judged()
        if not values:
            return
        names = tuple(values)
        names = self._names.setdefault(names, names) if len(self._names) < 4096 else names
        time_ns = now() if record.time_ns is None else record.time_ns
        outbox = self._open()
        outbox.put((record.step, time_ns, names, *values.values()), True)
        self.records += 1
        self._put += 1
        if self._sender is not None:
            self._sender.start()
            if self._wait:
                self._pace(self._sender, len(values))

    def _open(self) -> Outbox:
        if self._outbox is None:
            facts = self._facts(self._attempt)
            self._outbox, self._put = Outbox(), 0
            self._sender = Sender(
                self._outbox,
                lambda: hello(facts),
                url=self._way.url,
                spool_dir=self._way.spool_dir,
                exit_timeout=self._way.exit_timeout_s,
            )
            self._outbox.put_event(self._first_event["kind"], time.time_ns(), None, self._first_event["data"])
        return self._outbox

    def _pace(self, sender: Sender, width: int) -> None:
        """Waits while too much is on its way: a file is read faster than a server commits."""
        limit = max(512, IN_FLIGHT_BYTES // (8 * (width + 2)))
        if self._put % 256 or self._put - 1 - sender.stats.acked_seq < limit:
            return
        acked, since = sender.stats.acked_seq, time.monotonic()
        while self._put - 1 - (newest := sender.stats.acked_seq) >= limit:
            if newest != acked:
                acked, since = newest, time.monotonic()
            elif time.monotonic() - since > self._way.patience_s:
                raise NotDeliveredError(sender.stats.last_error or "the server does not answer")
            time.sleep(WAIT_S)


@dataclass(frozen=True)
class Outcome:
    """What became of one file. ``delivered``: True, False where it failed, None where it was no log."""

    delivered: bool | None
    says: str


def import_runs(path: Path, way: Way, project: str | None = None) -> Iterator[Outcome]:
    """Imports the file, or every log in the folder, one outcome each."""
    project = project or (path if path.is_dir() else path.resolve().parent).resolve().name or "imported"
    if path.is_dir():
        yield from _folder(path, way, project)
        return
    try:
        log = open_log(path)
    except UnreadableLogError as error:
        yield Outcome(False, str(error))
        return
    yield _import(log, path.stem, project, way)


def _folder(root: Path, way: Way, project: str) -> Iterator[Outcome]:
    for path in sorted(root.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(root).parts)
        if hidden or not path.is_file():
            continue
        try:
            log = open_log(path)
        except UnreadableLogError:
            continue
        if log.format is KEY_VALUES and path.suffix not in LOG_SUFFIXES:
            continue
        yield _import(log, str(path.relative_to(root).with_suffix("")), project, way)


def _import(log: Log, name: str, project: str, way: Way) -> Outcome:
    run_id = run_id_of(log.path)
    told = {"imported": True, "path": str(log.path), "format": log.format.name}
    facts = _facts(run_id, name, project, log, way.token, told)
    run = LogRun(facts, way, {"kind": "imported", "data": told}, wait=True)
    began = log.path.stat().st_mtime_ns
    try:
        run.take(log.items(), lambda: began)
        run.close()
    except (UnreadableLogError, NotDeliveredError) as error:
        return Outcome(False, f"{log.path}: {error}")
    left = f", {run.other_ranks} of other ranks left out" if run.other_ranks else ""
    unread = f", {log.stream.unread} lines unread" if log.stream.unread else ""
    unread += f", broken off: {log.broken}" if log.broken else ""
    if not run.records:
        return Outcome(None, f"{log.path}: {log.format.name} without a record")
    return Outcome(True, f"{log.path}: {log.format.name}, {run.records} records{left}{unread}, run {run_id}")


def _facts(
    run_id: str, name: str, project: str, log: Log, token: str, told: dict[str, Any]
) -> Callable[[int], Facts]:
    def of(attempt: int) -> Facts:
        return Facts(
            project=project,
            name=name,
            identity=identity_of(run_id, attempt),
            token=token,
            config=told,
            tags=["imported"],
            planned_steps=log.planned_steps,
        )

    return of


def identity_of(run_id: str, attempt: int) -> Identity:
    """The writer of an attempt of an imported run: the same however often, wherever it is imported."""
    writer = WriterId(f"import:{run_id}:{attempt}", 0, "import", 0, attempt)
    return Identity(
        run=run_id, writer=writer, world_size=1, host=host_of(), launch=f"import:{run_id}",
        restarts=attempt, rendezvous="",
    )  # fmt: skip


def run_id_of(path: Path) -> str:
    """A hash of a file's name and content."""
    digest = hashlib.blake2b(path.name.encode("utf-8", "surrogateescape") + b"\0", digest_size=10)
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()
