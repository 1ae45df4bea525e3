"""The command ``tocsin-server diagnose``."""

from __future__ import annotations

import enum
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tocsin.cli.progress import progress

if TYPE_CHECKING:
    from tocsin.importers import Source
    from tocsin.importers.wandb_cloud import Address
    from tocsin_server.offline.replay import LogResult
    from tocsin_server.offline.snapshot import IncidentSnapshot


STDIN = Path("-")
BEGINNING = 64
"""Number of bytes that distinguish an incident snapshot from a log."""
EXPLAINED = 3
"""Number of runs of a folder that are explained."""


class FailOn(enum.StrEnum):
    """The lowest severity for which the exit status is 1."""

    WARNING = "warning"
    CRITICAL = "critical"


def diagnose(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH",
            help="Logs of any known format, folders, or wandb://ENTITY/PROJECT; - is standard input.",
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Print every alert and list in full.")] = False,
    fail_on: Annotated[
        FailOn | None,
        typer.Option(help="Exit with status 1 if an alert of at least this severity was found."),
    ] = None,
) -> None:
    """Read training logs of any known format and report what is wrong, since when, why, and what to do.

    A folder is searched for the runs of every known tracker and log. Of a folder or a project of W&B, the
    runs with problems are listed, and the three worst are explained (all with --full).

    No server is needed. The exit status is 0 if all files were read, 1 if --fail-on found an alert, 2 if a
    file could not be read.
    """
    from tocsin_server.core import exact_json
    from tocsin_server.core.models import Severity
    from tocsin_server.offline.diagnose import (
        as_data,
        by_severity,
        exit_status,
        report,
        summary,
        unreadable_data,
    )

    found: list[LogResult] = []
    entries = []
    unreadable = 0
    places = [_place(text) for text in files]
    in_folder = not all(isinstance(place, Path) and not place.is_dir() for place in places)
    with progress("Reading", unit="logs") as bar:
        for path, result, why in _results(places):
            bar.advance(1)
            if result is None:
                unreadable += 1
                entries.append(unreadable_data(path, why))
                bar.print(partial(print, f"tocsin-server: {why}", file=sys.stderr))
                continue
            found.append(result)
            entries.append(as_data(result))
            if not as_json and (full or not in_folder):
                bar.print(partial(print, report(result, full=full), flush=True))
    if as_json:
        print(exact_json.dumps({"files": entries}))
    elif in_folder and found:
        print(summary(found))
        for result in [] if full else by_severity(found)[:EXPLAINED]:
            print(report(result), flush=True)
    raise typer.Exit(exit_status(found, unreadable, Severity(fail_on.value) if fail_on else None))


def _place(text: str) -> Path | Address:
    from tocsin.importers.wandb_cloud import address_of

    try:
        return address_of(text) or Path(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def _results(places: list[Path | Address]) -> Iterator[tuple[str, LogResult | None, str]]:
    """Yield path and result of each run, or None and the reason why it cannot be read."""
    from tocsin.importers import UnreadableLogError, UnreadableSource
    from tocsin.importers.folder import nothing_found, runs_in, skipped_text
    from tocsin.importers.wandb_cloud import runs_at
    from tocsin_server.offline.replay import evaluate_log

    for path in places:
        if isinstance(path, Path) and not path.is_dir():
            try:
                yield str(path), _evaluated(path), ""
            except UnreadableLogError as error:
                yield str(path), None, str(error)
            continue
        is_empty = True
        skipped: list[Path] = []
        for source in runs_in(path, skipped) if isinstance(path, Path) else runs_at(path):
            is_empty = False
            if isinstance(source, UnreadableSource):
                yield str(source.path), None, f"{source.path}: {source.why}"
                continue
            try:
                result = evaluate_log(source)
            except UnreadableLogError as error:
                yield str(source.path), None, str(error)
                continue
            if result.records:
                result.path = _name(source)
                yield result.path, result, ""
        if is_empty:
            nothing = nothing_found(path) if isinstance(path, Path) else f"{path}: no run in this project"
            yield str(path), None, nothing
        if skipped and isinstance(path, Path):
            print(f"tocsin-server: {skipped_text(path, skipped)}", file=sys.stderr)


def _name(source: Source) -> str:
    """Return the path of a run, and its name if a database has several."""
    return (
        f"{source.path}: {source.about.name}"
        if source.path.is_file() and source.about.name
        else str(source.path)
    )


def _evaluated(path: Path) -> LogResult:
    from tocsin.importers import UnreadableLogError, open_log
    from tocsin_server.offline.replay import evaluate_log
    from tocsin_server.offline.snapshot_replay import evaluate_incident_snapshot

    with _rewindable(path) as file:
        try:
            snapshot = _snapshot_in(file)
            result = (
                evaluate_log(open_log(file))
                if snapshot is None
                else evaluate_incident_snapshot(snapshot, str(path))
            )
        except UnreadableLogError as error:
            raise UnreadableLogError(str(error).replace(str(file), str(path), 1)) from error
    result.path = str(path)
    if not result.records:
        raise UnreadableLogError(
            f"{path}: {result.format}, but no records. Expected at least one step with a number."
        )
    return result


@contextmanager
def _rewindable(path: Path) -> Iterator[Path]:
    """Yield ``path`` itself, or for standard input and pipes a copy on disk, because they can be read only
    once.
    """
    if path != STDIN and not path.is_fifo():
        yield path
        return
    with tempfile.NamedTemporaryFile(prefix="tocsin-") as copy:
        with nullcontext(sys.stdin.buffer) if path == STDIN else path.open("rb") as pipe:
            shutil.copyfileobj(pipe, copy, 1 << 20)
        copy.flush()
        yield Path(copy.name)


def _snapshot_in(path: Path) -> IncidentSnapshot | None:
    """Return the incident snapshot in ``path``, or None for another file. Raises UnreadableLogError."""
    from tocsin.importers import BROKEN, UnreadableLogError, opened
    from tocsin_server.offline.snapshot import IncidentSnapshotError, is_incident_snapshot, read

    try:
        with opened(path) as file:
            beginning = file.read(BEGINNING)
            return read(beginning + file.read()) if is_incident_snapshot(beginning) else None
    except BROKEN:
        return None  # the log reader reports the error
    except IncidentSnapshotError as error:
        raise UnreadableLogError(f"{path}: {error}") from error
