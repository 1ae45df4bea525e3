"""The commands that move runs: sync, tail, import and export."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.server_choice import chosen_token, chosen_url
from ..core.values import counted
from ..read.text import shown
from ..spool.segments import default_dir
from .output import print_json, print_result, print_styled
from .parsing import add_json, command
from .progress import BYTES, progress

INTERRUPTED = 130
"""Exit status after Ctrl-C, as of a shell."""

if TYPE_CHECKING:
    from ..importers.wandb_cloud import Address
    from .import_logs import Outcome
    from .log_run import Destination
    from .parsing import Commands


def sync(options: argparse.Namespace) -> int:
    """Upload what runs buffered on disk while the server was unavailable."""
    from .sync import sync as deliver

    root, outcomes = options.dir or default_dir(), []
    if options.dir is not None and not root.is_dir():
        hint = "Leave it out to use the directory in which this machine buffers records."
        print(f"tocsin: There is no folder {root}. {hint}", file=sys.stderr)
        return 2
    url = options.url or os.environ.get("TOCSIN_URL") or None
    token = chosen_token(options.token or None)
    with progress("Uploading", unit="records") as bar:
        for outcome in deliver(root, url=url, token=token, timeout_s=options.timeout, advance=bar.advance):
            outcomes.append({"path": str(outcome.path), "ok": outcome.delivered, "text": outcome.text})
            if not options.json:
                bar.print(partial(print_result, outcome.delivered, outcome.text))
    if not outcomes and not options.json:
        print(f"There is nothing to upload in {root}.")
    return _ended(options, outcomes)


def import_(options: argparse.Namespace) -> int:
    """Import past runs from log files, a folder of them, or W&B. Importing again sends only what is new."""
    from .import_logs import summary

    for root in options.path:
        if isinstance(root, Path) and not root.exists():
            print(f"tocsin: There is no file or folder {root}.", file=sys.stderr)
            return 2
    found: list[Outcome] = []
    notes: list[Outcome] = []
    try:
        _import_all(options, found, notes)
    except KeyboardInterrupt:
        print("tocsin: Interrupted. Run the same command again to import the rest.", file=sys.stderr)
        is_interrupted = True
    else:
        is_interrupted = False
    if not options.json:
        for line in summary(found):
            print(line, flush=True)
        for note in notes:
            print_result(None, note.text)
    status = _ended(options, [_imported(outcome) for outcome in (*found, *notes)])
    return INTERRUPTED if is_interrupted else status


def _import_all(options: argparse.Namespace, found: list[Outcome], notes: list[Outcome]) -> None:
    """Append what was imported, and what was not, as it becomes known."""
    from ..importers.folder import skipped_text
    from .import_logs import Outcome, import_runs

    with progress("Importing", unit="records") as bar, _without_warnings():
        destination = _destination(options, spool=False)
        for root in options.path:
            before, skipped = len(found), list[Path]()
            for outcome in import_runs(root, destination, options.project, bar.advance, skipped):
                found.append(outcome)
                if not options.json:
                    bar.print(partial(print_result, outcome.delivered, outcome.text))
            if len(found) == before:
                found.append(_nothing_in(root))
                if not options.json:
                    bar.print(partial(print_result, False, found[-1].text))
            if skipped:
                notes.append(Outcome(root, None, skipped_text(root, skipped)))
            if found and found[-1].is_refused and not any(one.delivered for one in found):
                break


def _nothing_in(root: Path | Address) -> Outcome:
    from ..importers.folder import nothing_found
    from .import_logs import Outcome

    text = nothing_found(root) if isinstance(root, Path) else f"{root}: no run in this project"
    return Outcome(Path(str(root)), False, text)


def _place(text: str) -> Path | Address:
    from ..importers.wandb_cloud import address_of

    try:
        return address_of(text) or Path(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Leave out the sender's warnings: the outcome of a run says why it was not sent."""
    logger = logging.getLogger("tocsin")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _imported(outcome: Outcome) -> dict[str, Any]:
    alerts = [
        {"rule": one.rule, "severity": one.severity, "summary": one.summary, "onset_step": one.onset_step}
        for one in outcome.alerts
    ]
    facts = {"path": str(outcome.path), "ok": outcome.delivered, "text": outcome.text}
    run = {"run": outcome.run or None, "url": outcome.url or None}
    return {**facts, **run, "name": outcome.name, "new": outcome.new, "alerts": alerts}


def _ended(options: argparse.Namespace, outcomes: list[dict[str, Any]]) -> int:
    if options.json:
        print_json(outcomes)
    return int(any(outcome["ok"] is False for outcome in outcomes))


def tail(options: argparse.Namespace) -> int:
    """Follow a growing log of any known format and report it as a run, until Ctrl-C.

    The exit status is 1 if the server did not get all records.
    """
    from ..importers import UnreadableLogError
    from .tail import PAUSE_S, follow, run_of

    path, idle_s, formats = options.file, options.idle_exit, list[str]()
    if path.is_dir():
        print(f"tocsin: {path} is a folder. Pass a log file, or use `tocsin import {path}`.", file=sys.stderr)
        return 2
    if not path.exists():
        print(f"{path} does not exist yet. Waiting for it.", file=sys.stderr)
    project = options.project or path.resolve().parent.name or "logs"
    name = options.name or path.stem
    run = run_of(path, project, name, _destination(options), options.run)
    with progress("Following", unit="records") as bar:
        seen = 0

        def pause() -> None:
            nonlocal seen
            bar.advance(run.records - seen)
            seen = run.records
            time.sleep(PAUSE_S)

        def recognized(text: str) -> None:
            formats.append(text)
            if not options.json:
                bar.print(lambda: print(f"{path}: {text}", flush=True))

        def stop(looks: int) -> bool:
            return idle_s is not None and looks * PAUSE_S >= idle_s

        try:
            follow(path, run, stop=stop, pause=pause, on_format=recognized)
        except KeyboardInterrupt:
            pass
        except UnreadableLogError as error:
            print(f"tocsin: {error}", file=sys.stderr)
            return 2
        run.close()
    if options.json:
        known = formats[-1] if formats else None
        facts = {"path": str(path), "project": project, "name": name, "format": known}
        print_json({**facts, "records": run.records, "undelivered": run.undelivered})
    else:
        print(f"{counted(run.records, 'record')} of {path}")
    return int(run.undelivered > 0)


def export(options: argparse.Namespace) -> int:
    """Write runs into a folder that DuckDB queries: every record as Parquet, and SQL views.

    The token needs the scope read. Runs that ended are written once.
    """
    from ..read import Api
    from ..read.folder_export import export_runs

    views, runs = options.dir / "views.sql", []
    try:
        with Api(options.url, options.token) as api, progress("Exporting", unit=BYTES) as bar:
            for found in export_runs(api, options.dir, options.filter, options.project, bar.advance):
                run = found.run
                runs.append((run.id, run.name, str(found.path), found.is_new))
                if not options.json:
                    word = ("written", "green") if found.is_new else ("kept   ", "dim")
                    bar.print(partial(print_styled, word, (f"  {found.path}  {shown(run.name)}", "")))
    except BrokenPipeError:
        raise
    except (LookupError, OSError, ValueError) as error:
        print(f"tocsin: {error}", file=sys.stderr)
        return 2
    if options.json:
        fields = ("id", "name", "path", "written")
        print_json({"views": str(views), "runs": [dict(zip(fields, run, strict=True)) for run in runs]})
    else:
        written = sum(is_new for *_, is_new in runs)
        print(f"{counted(len(runs), 'run')}, {written} written. Query them: duckdb -init {views}", flush=True)
    return 0


def _destination(options: argparse.Namespace, *, spool: bool = True) -> Destination:
    from .log_run import Destination

    url = chosen_url(options.url)
    return Destination(url, chosen_token(options.token or None), default_dir() if spool else None)


IMPORTED = (
    "an array of {path, ok, text, run, url, name, new, alerts}; new counts records that the server did not "
    "have, alerts is an array of {rule, severity, summary, onset_step}"
)
RESULTS = "an array of {path, ok, text}; ok is null for what was skipped"


def add_commands(commands: Commands) -> None:
    """Add the commands to the parser."""
    synced = command(commands, "sync", sync)
    synced.add_argument(
        "dir",
        nargs="?",
        type=Path,
        metavar="DIR",
        help="directory of buffered records; default: TOCSIN_SPOOL_DIR",
    )
    synced.add_argument(
        "--timeout", type=float, default=30.0, help="seconds without progress after which a run is skipped"
    )
    add_json(synced, RESULTS)
    followed = command(commands, "tail", tail)
    followed.add_argument("file", type=Path, metavar="FILE", help="the log; it may not exist yet")
    followed.add_argument("--project", help="project of the run; default: the folder's name")
    followed.add_argument("--name", help="the run's name; default: the file's")
    followed.add_argument("--run", metavar="ID", help="continue this run as a new attempt")
    followed.add_argument(
        "--idle-exit", type=float, metavar="SECONDS", help="exit after this time without new lines"
    )
    add_json(followed, "at the end, {path, project, name, format, records, undelivered}")
    exported = command(commands, "export", export, login=True)
    exported.add_argument(
        "dir", type=Path, metavar="DIR", help="the folder; it is created if it does not exist"
    )
    exported.add_argument("--project", help="only runs of this project")
    exported.add_argument(
        "--filter", default="", help="only runs that match, as on the fleet page: 'tag:fp16 config.lr>1e-4'"
    )
    add_json(exported, "{views, runs}; runs is an array of {id, name, path, written}")
    imported = command(commands, "import", import_)
    imported.add_argument(
        "path",
        nargs="+",
        type=_place,
        metavar="PATH",
        help="log files, folders that are searched for runs, or wandb://ENTITY/PROJECT[/RUN]",
    )
    imported.add_argument(
        "--project", help="project of the runs; default: the tracker's, or the folder's name"
    )
    add_json(imported, IMPORTED)
