"""The command ``tocsin-server postmortem``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tocsin_server.cli.options import Config, DatabaseUrl, DataDir, settings_of


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
