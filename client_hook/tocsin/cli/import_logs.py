"""``tocsin import``: import past runs from log files. Importing a file again adds nothing.

A run's id is a hash of its file's content and name, and each run of a file is one writer whose records keep
their numbers, so the server recognizes records that it has. Imported runs are marked in ``hello.config`` and
by an ``imported`` event, so that no notifications are sent.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.handshake import RunInfo
from ..core.identity import Identity
from ..core.run_fields import host_of
from ..core.values import counted
from ..importers import Log, UnreadableLogError, open_log
from ..importers.formats.key_values import FORMAT as KEY_VALUES
from ..importers.items import About, Item
from ..protocol import WriterId
from .log_run import Destination, LogRun, NotDeliveredError

LOG_SUFFIXES = {".log", ".txt", ".out", ".err", ""}
"""Suffixes of ``key=value`` logs in a folder. Other files, such as settings, have such lines too."""


@dataclass(frozen=True)
class Outcome:
    """Result for one file. ``delivered`` is None if it is not a log."""

    path: Path
    delivered: bool | None
    text: str


def import_runs(
    path: Path,
    destination: Destination,
    project: str | None = None,
    advance: Callable[[int], object] = lambda _records: None,
) -> Iterator[Outcome]:
    """Import a file, or every log in a folder; yield one result for each.

    Args:
        path: A log file, or a folder.
        destination: The server, and time limits.
        project: Project of the runs; default: the folder's name.
        advance: Called with the number of records read since the last call.
    """
    project = project or (path if path.is_dir() else path.resolve().parent).resolve().name or "imported"
    if path.is_dir():
        yield from _folder(path, destination, project, advance)
        return
    try:
        log = open_log(path)
    except UnreadableLogError as error:
        yield Outcome(path, False, str(error))
        return
    yield _import(log, path.stem, project, destination, advance)


def _folder(
    root: Path, destination: Destination, project: str, advance: Callable[[int], object]
) -> Iterator[Outcome]:
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
        name = str(path.relative_to(root).with_suffix(""))
        yield _import(log, name, project, destination, advance)


def _import(
    log: Log, name: str, project: str, destination: Destination, advance: Callable[[int], object]
) -> Outcome:
    run_id = run_id_of(log.path)
    source = {"imported": True, "path": str(log.path), "format": log.format.name}
    about = log.format.about(log.path) or About()
    source = {**about.config, **source}
    tags = ["imported", *about.tags]
    run_info = _run_info(run_id, about.name or name, project, log, destination.token, source, tags)
    run = LogRun(run_info, destination, {"kind": "imported", "data": source}, wait=True)
    began = log.path.stat().st_mtime_ns
    try:
        run.take(_counted(log.items(), advance), lambda: began)
        run.close()
    except (UnreadableLogError, NotDeliveredError) as error:
        return Outcome(log.path, False, f"{log.path}: {error}")
    left = f", {counted(run.other_ranks, 'record')} of other ranks skipped" if run.other_ranks else ""
    unread = f", {counted(log.stream.unread, 'line')} could not be read" if log.stream.unread else ""
    unread += f", stopped early: {log.broken}" if log.broken else ""
    if not run.records:
        return Outcome(log.path, None, f"{log.path}: {log.format.name}, no records found")
    count = counted(run.records, "record")
    said = f"{log.path}: {log.format.name}, {count}{left}{unread}, run {run_id}"
    return Outcome(log.path, True, said)


def _counted(items: Iterator[Item], advance: Callable[[int], object]) -> Iterator[Item]:
    for item in items:
        yield item
        advance(1)


def _run_info(
    run_id: str, name: str, project: str, log: Log, token: str, source: dict[str, Any], tags: list[str]
) -> Callable[[int], RunInfo]:
    def of(attempt: int) -> RunInfo:
        return RunInfo(
            project=project,
            name=name,
            identity=identity_of(run_id, attempt),
            token=token,
            config=source,
            tags=tags,
            planned_steps=log.planned_steps,
        )

    return of


def identity_of(run_id: str, attempt: int) -> Identity:
    """Return the identity of an attempt of an imported run, which is always the same."""
    writer = WriterId(f"import:{run_id}:{attempt}", 0, "import", 0, attempt)
    return Identity(
        run=run_id, writer=writer, world_size=1, host=host_of(), launch=f"import:{run_id}",
        restarts=attempt, rendezvous="",
    )  # fmt: skip


def run_id_of(path: Path) -> str:
    """Return a hash of a file's name and content."""
    digest = hashlib.blake2b(path.name.encode("utf-8", "surrogateescape") + b"\0", digest_size=10)
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()
