"""The command ``tocsin-server diagnose``."""

from __future__ import annotations

import enum
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tocsin_server.offline.replay import LogResult
    from tocsin_server.offline.snapshot import IncidentSnapshot


STDIN = Path("-")
BEGINNING = 64
"""Number of bytes that distinguish an incident snapshot from a log."""


class FailOn(enum.StrEnum):
    """The lowest severity for which the exit status is 1."""

    WARNING = "warning"
    CRITICAL = "critical"


def diagnose(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Logs of any known format; - is standard input.")
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, as described in docs/reference/log-formats.md.")
    ] = False,
    full: Annotated[bool, typer.Option("--full", help="Print every alert and list in full.")] = False,
    fail_on: Annotated[
        FailOn | None,
        typer.Option(help="Exit with status 1 if an alert of at least this severity was found."),
    ] = None,
) -> None:
    """Read training logs of any known format and report what is wrong, since when, why, and what to do.

    No server is needed. The exit status is 0 if all files were read, or 1 with --fail-on and such a finding;
    2 if a file could not be read.
    """
    from tocsin.importers import UnreadableLogError
    from tocsin_server.core import exact_json
    from tocsin_server.core.models import Severity
    from tocsin_server.offline.diagnose import as_data, exit_status, report, unreadable_data

    found: list[LogResult] = []
    entries = []
    unreadable = 0
    for path in files:
        try:
            result = _evaluated(path)
        except UnreadableLogError as error:
            unreadable += 1
            entries.append(unreadable_data(str(path), str(error)))
            print(f"tocsin-server: {error}", file=sys.stderr)
            continue
        found.append(result)
        entries.append(as_data(result))
        if not as_json:
            print(report(result, full=full), flush=True)
    if as_json:
        print(exact_json.dumps({"files": entries}))
    raise typer.Exit(exit_status(found, unreadable, Severity(fail_on.value) if fail_on else None))


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
