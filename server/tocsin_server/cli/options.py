"""The options that select the database.

The modules of commands import what only the work needs in the function that does it, so that `--help`,
`--version` and wrong options do not wait for the database's libraries.
"""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import Annotated, Any

import typer

from tocsin_server.core.settings import Settings, load

DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--database-url",
        help="sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME; by default SQLite in --data-dir.",
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Directory for database and secrets. By default ~/.local/share/tocsin."),
]
Config = Annotated[
    Path | None, typer.Option("--config", help="Settings file. By default ./tocsin.toml, if there is one.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def print_json(value: Any) -> None:
    """Print data as one line of JSON."""
    from tocsin_server.core import exact_json

    typer.echo(exact_json.dumps(value))


def who() -> str:
    """Return the user of the command for the audit log."""
    try:
        return f"{getpass.getuser()} (command line)"
    except (KeyError, OSError):  # the user of a container may have no name
        return "command line"


def settings_of(database_url: str | None, data_dir: Path | None, config: Path | None) -> Settings:
    """Return the settings of a command."""
    return load({"database_url": database_url, "data_dir": data_dir}, config=config)
