"""The commands ``tocsin-server report`` and ``tocsin-server postmortem``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tocsin_server.cli.options import Config, DatabaseUrl, DataDir, settings_of


def report(
    runs: Annotated[list[str], typer.Argument(metavar="RUN", help="Ids or names; several are compared.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file. By default named after the run.")
    ] = None,
    series: Annotated[
        list[str] | None,
        typer.Option(help="Series to draw besides loss, gradient norm, scale and learning rate. Repeatable."),
    ] = None,
    database_url: DatabaseUrl = None,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Write a run, or a comparison of several, as one HTML file that needs no server or network.

    The server may be running.
    """
    from tocsin_server.cli.database import opened
    from tocsin_server.http.web_files import report_assets
    from tocsin_server.report.writing import write_report
    from tocsin_server.store.reader import StoreReader
    from tocsin_server.transfer.record_export import file_name, find_run

    with opened(settings_of(database_url, data_dir, config)) as database:
        reader = StoreReader(database)
        ids = [find_run(reader, run) for run in runs]
        made = write_report(reader, report_assets(), ids, series)
    name = f"{file_name(ids[0])}-report.html" if len(ids) == 1 else "comparison-report.html"
    path = output or Path(name)
    path.write_bytes(made.body)
    typer.echo(f"{path}: {len(made.body) / 1e6:.1f} MB")


def postmortem(
    incident: Annotated[
        str, typer.Argument(help="Id of an incident, or id or name of a run to use its most severe incident.")
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Output folder. By default, it is named after the incident."),
    ] = None,
    database_url: DatabaseUrl = None,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Write the postmortem of an incident as Markdown with its charts, ready for an issue tracker.

    The server may be running. An existing postmortem in the folder is replaced.
    """
    from tocsin_server.cli.database import opened
    from tocsin_server.report.postmortem_files import find_incident, write_postmortem
    from tocsin_server.store.reader import StoreReader

    settings = settings_of(database_url, data_dir, config)
    with opened(settings) as database:
        reader = StoreReader(database)
        base = settings.public_url or ""
        made = write_postmortem(reader, find_incident(reader, incident), base=base)
    folder = output or Path(made.name)
    for path in made.save(folder):
        typer.echo(path)
