"""Commands to manage data: export, import, snapshot, delete, prune, backup, restore."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from tocsin.cli.progress import BYTES, progress
from tocsin.core.values import counted
from tocsin_server.cli.options import AsJson, Config, DatabaseUrl, DataDir, print_json, settings_of, who
from tocsin_server.core.errors import TocsinError
from tocsin_server.core.settings import Settings
from tocsin_server.transfer.formats import Format

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
Project = Annotated[str | None, typer.Option("--project", help="All runs of this project.")]


def export(
    run: Annotated[str | None, typer.Argument(help="The run's id, or its name if it is unique.")] = None,
    project: Project = None,
    format: Annotated[
        Format, typer.Option(help="Format of the records; with --out always jsonl, which `import` reads.")
    ] = Format.JSONL,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="A folder for everything about each run, which `import` reads."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="A file for the records alone; by default standard output."),
    ] = None,
    database_url: DatabaseUrl = None,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Export all records of a run; with --out also events, alerts and environment."""
    from tocsin_server.cli.database import opened
    from tocsin_server.cli.deletion import chosen
    from tocsin_server.transfer.record_export import export_records, file_name
    from tocsin_server.transfer.run_export import export_run

    if (run is None) == (project is None) or (out is not None and output is not None):
        raise TocsinError("Pass either RUN or --project, and at most one of --out and --output.")
    if out is not None and format is not Format.JSONL:
        raise TocsinError(
            f"export: --out writes folders for `import`, which cannot read {format}."
            f" Export the records alone with --format {format} --output FILE."
        )
    if project is not None and out is None:
        raise TocsinError("Pass --out FOLDER with --project.")
    with opened(settings_of(database_url, data_dir, config)) as database:
        if out is None:
            with progress("Exporting", unit="records") as bar:
                count = export_records(database, str(run), format, output, bar.advance)
            typer.echo(counted(count, "record"), err=True)
            return
        for run_id in chosen(database, run, project):
            folder = out / file_name(run_id)
            with progress("Exporting", unit="records") as bar:
                counts = export_run(database, run_id, folder, bar.advance).counts
            typer.echo(f"{folder}: {_counted(counts)}", err=True)


def import_(
    path: Annotated[
        Path, typer.Argument(help="A folder that `export --out` wrote, with one run or several.")
    ],
    as_json: AsJson = False,
    database_url: DatabaseUrl = None,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Import exported runs unchanged. An existing run is compared, never overwritten.

    The server may be running. No notifications are sent for imported alerts.
    """
    from tocsin_server.cli.database import opened
    from tocsin_server.cli.deletion import alone, finish_all, transacting
    from tocsin_server.runs.validation.limits import limits_of
    from tocsin_server.transfer.run_folder import bundles_in
    from tocsin_server.transfer.run_import import import_run

    settings = settings_of(database_url, data_dir, config)
    folders, results = bundles_in(path), []
    with opened(settings) as database, alone(settings) as free:
        transact = transacting(database, free)
        if free:
            finish_all(database, transact)
        for folder in folders:
            with progress("Importing", unit="records") as bar:
                done = import_run(
                    database, transact, folder, actor=who(), limits=limits_of(settings), advance=bar.advance
                )
            results.append({"run": done.run_id, "was_there": done.was_there, "counts": done.counts})
            what = "already imported, nothing to do" if done.was_there else _counted(done.counts)
            typer.echo(f"{done.run_id}: {what}", err=as_json)
    if as_json:
        print_json(results)


def snapshot(
    alert: Annotated[str, typer.Argument(help="The alert's id, as the API and its page show it.")],
    file: Annotated[Path, typer.Argument(help="The file to write; `diagnose` reads it.")],
    database_url: DatabaseUrl = None,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Write the incident snapshot of an alert: all series at full rate around its onset, events, alerts."""
    from tocsin_server.cli.database import opened
    from tocsin_server.offline.snapshot_gather import download
    from tocsin_server.transfer.record_export import replacing

    with opened(settings_of(database_url, data_dir, config)) as database:
        text = download(database, alert)
        if text is None:
            raise TocsinError(f"Alert {alert!r} not found.")
        with replacing(file) as out:
            out.write(text)
        typer.echo(f"{file}: {len(text):,} bytes", err=True)


def delete(
    run: Annotated[str | None, typer.Argument(help="The run's id, or its name if it is unique.")] = None,
    project: Project = None,
    yes: Yes = False,
    database_url: DatabaseUrl = None,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Delete a run or a project permanently, and return the disk space to the file system.

    The server may be running. If a training process still sends to the run, that starts a new run.
    """
    from tocsin_server.cli.database import opened
    from tocsin_server.cli.deletion import chosen, delete_marked, mark_project
    from tocsin_server.store.deletion_jobs import mark_runs

    if (run is None) == (project is None):
        raise TocsinError("Pass either RUN or --project" + (", not both." if run else "."))
    settings = settings_of(database_url, data_dir, config)
    with opened(settings) as database:
        found = chosen(database, run, project)
        subject = run or f"project {project}: {counted(len(found), 'run')}"
        _confirm(f"Delete {subject} with all records? This cannot be undone.", yes)
        now_ns = time.time_ns()
        if project is not None:
            delete_marked(settings, database, partial(mark_project, name=project, now_ns=now_ns))
        else:
            mark = partial(mark_runs, run_ids=found, now_ns=now_ns, actor=who())
            delete_marked(settings, database, mark)


def prune(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be deleted.")] = False,
    as_json: AsJson = False,
    database_url: DatabaseUrl = None,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Delete the runs past their retention (settings retention_days and retention_projects).

    The server does this automatically every hour. Runs that are running or stalled are always kept.
    """
    from tocsin_server.cli.database import opened
    from tocsin_server.cli.deletion import delete_marked
    from tocsin_server.jobs.retention import expired, last_word_ns
    from tocsin_server.store.deletion_jobs import mark_runs
    from tocsin_server.store.reader import StoreReader

    settings = settings_of(database_url, data_dir, config)
    with opened(settings) as database:
        now_ns = time.time_ns()
        old = expired(StoreReader(database).runs(), settings, now_ns)
        if as_json:
            runs = [
                {"id": run.id, "project": run.project, "name": run.name, "state": run.state.value,
                 "last_seen_ms": last_word_ns(run) / 1e6}
                for run in old
            ]  # fmt: skip
            print_json({"dry_run": dry_run, "runs": runs})
        for run in [] if as_json else old:
            day = time.strftime("%Y-%m-%d", time.localtime(last_word_ns(run) / 1e9))
            typer.echo(f"{run.id}  {day}  {run.state.value:<9} {run.project}/{run.name}")
        if dry_run or not old:
            typer.echo(f"{counted(len(old), 'run')} to delete.", err=as_json)
        else:
            mark = partial(mark_runs, run_ids=[run.id for run in old], now_ns=now_ns, actor=who())
            delete_marked(settings, database, mark, err=as_json)


def backup(
    file: Annotated[Path, typer.Argument(help="The file to write; it must not exist.")],
    as_json: AsJson = False,
    database_url: DatabaseUrl = None,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Copy the SQLite database while the server runs. The copy is consistent and checked."""
    from tocsin_server.cli.database import as_it_is
    from tocsin_server.store.backup import backup as back_up

    settings = settings_of(database_url, data_dir, config)
    database = as_it_is(settings, "backup")
    try:
        with progress("Copying", unit=BYTES) as bar:
            made = back_up(database, file, bar.advance)
    finally:
        database.close()
    if as_json:
        facts = {"bytes": made.bytes, "revision": made.revision, "seconds": made.seconds}
        print_json({"file": str(made.file), **facts, "issues": made.issues})
    else:
        size = f"{made.bytes:,} bytes, revision {made.revision}"
        typer.echo(f"{made.file}: {size}, {made.seconds:.1f} s, checked.")
    _no_issues("The database, and therefore its backup,", made.issues)


def restore(
    file: Annotated[Path, typer.Argument(help="A backup of the database.")],
    database_url: DatabaseUrl = None,
    data_dir: DataDir = None,
    config: Config = None,
    despite_damage: Annotated[
        bool, typer.Option("--despite-damage", help="Restore even if values in the backup cannot be read.")
    ] = False,
) -> None:
    """Replace the SQLite database with a backup; keep the old file under another name.

    Fails if a server uses the database, or if the backup is damaged or from a newer version.
    """
    from tocsin_server.cli.database import url_of
    from tocsin_server.store.backup import file_of
    from tocsin_server.store.backup import restore as put_back
    from tocsin_server.store.ownership import sole_on_file

    settings = settings_of(database_url, data_dir, config)
    target = Path(os.path.realpath(file_of(url_of(settings), "restore")))
    with sole_on_file(target):
        aside = put_back(file, target, time.time_ns(), despite_damage=despite_damage)
    typer.echo(f"Restored {target} from {file}." + (f" The old one is {aside}." if aside else ""))


def rehearse_upgrade(settings: Settings) -> None:
    """Upgrade a copy and report the result (`migrate --rehearse`). Raises TocsinError if rows were lost."""
    from tocsin_server.cli.database import as_it_is
    from tocsin_server.store.migration_dry_run import rehearse

    database = as_it_is(settings, "rehearse")
    try:
        went = rehearse(database)
    finally:
        database.close()
    typer.echo(f"Revision {went.before} -> {went.after}, on a copy of {went.bytes:,} bytes.")
    typer.echo(
        f"Copied in {went.copy_s:.1f} s, upgraded in {went.upgrade_s:.1f} s, checked in {went.check_s:.1f} s."
    )
    for name, (before, after) in went.rows.items():
        if before != after:
            typer.echo(f"  {name}: {_rows(before)} -> {_rows(after)}")
    if went.lost:
        raise TocsinError(f"The upgrade would lose rows in {', '.join(went.lost)}")
    _no_issues("The upgraded copy", went.issues)
    typer.echo("Integrity: ok. The database itself was not touched.")


def _no_issues(subject: str, issues: list[str]) -> None:
    """Raise TocsinError if values cannot be read."""
    if issues:
        raise TocsinError(f"{subject} contains values that cannot be read: {'; '.join(issues)}")


def _rows(count: int | None) -> str:
    return "no table" if count is None else f"{count} rows"


COMMANDS: dict[str, Callable[..., None]] = {
    "export": export,
    "import": import_,
    "snapshot": snapshot,
    "delete": delete,
    "prune": prune,
    "backup": backup,
    "restore": restore,
}


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def _confirm(question: str, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise TocsinError("Refusing to delete without confirmation. Pass --yes to run non-interactively.")
    typer.confirm(question, abort=True)
