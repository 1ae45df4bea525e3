"""The command ``tocsin-server diagnose``."""

from __future__ import annotations

import enum
import sys
from pathlib import Path
from typing import Annotated

import typer

from tocsin.importers import UnreadableLogError, open_log
from tocsin_server import exactjson
from tocsin_server.diagnose import as_data, exit_status, report, unreadable_data
from tocsin_server.domain import Severity
from tocsin_server.offline import Judged, judge


class FailOn(enum.StrEnum):
    """From which severity on the exit status is 1."""

    WARNING = "warning"
    CRITICAL = "critical"


def diagnose(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Logs of any known format.")],
    as_json: Annotated[
        bool, typer.Option("--json", help="Prints JSON, as docs/diagnose.md shows it.")
    ] = False,
    fail_on: Annotated[
        FailOn | None, typer.Option(help="Exit status 1 where something that severe was found.")
    ] = None,
) -> None:
    """Reads training logs of any known format and says what is wrong, since when, why, and what to do.

    Needs no server. Exit status 0: read, whatever was found; 2: a file could not be read.
    """
    found: list[Judged] = []
    entries = []
    unreadable = 0
    for path in files:
        try:
            judged = _judged(path)
        except UnreadableLogError as error:
            unreadable += 1
            entries.append(unreadable_data(str(path), str(error)))
            print(f"tocsin-server: {error}", file=sys.stderr)
            continue
        found.append(judged)
        entries.append(as_data(judged))
        if not as_json:
            print(report(judged), flush=True)
    if as_json:
        print(exactjson.dumps({"files": entries}))
    raise typer.Exit(exit_status(found, unreadable, Severity(fail_on.value) if fail_on else None))


def _judged(path: Path) -> Judged:
    judged = judge(open_log(path))
    if not judged.records:
        raise UnreadableLogError(
            f"{path}: {judged.format} without a record: expected at least one step with a number"
        )
    return judged
