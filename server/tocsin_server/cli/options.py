"""Share the options that select the database, and the functions that open it."""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from tocsin_server.core.errors import StartError
from tocsin_server.core.settings import Settings, load
from tocsin_server.store.connection import Connection
from tocsin_server.store.database import Database, open_database
from tocsin_server.store.database import migrate as migrate_database

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


def who() -> str:
    """Return the user of the command for the audit log."""
    try:
        return f"{getpass.getuser()} (command line)"
    except (KeyError, OSError):  # the user of a container may have no name
        return "command line"


def settings_of(database_url: str | None, data_dir: Path | None, config: Path | None) -> Settings:
    """Return the settings of a command."""
    return load({"database_url": database_url, "data_dir": data_dir}, config=config)


def migrated(settings: Settings) -> None:
    """Migrate the database to the newest schema. Raises StartError for an unsupported URL."""
    os.umask(0o077)
    try:
        migrate_database(settings.url)
    except ValueError as error:
        raise StartError(str(error)) from error


@contextmanager
def opened(settings: Settings) -> Iterator[Database]:
    """Yield the migrated database, and close it at the end."""
    migrated(settings)
    database = open_database(settings.url)
    try:
        yield database
    finally:
        database.close()


def let_the_server_checkpoint(connection: Connection) -> None:
    """Disable SQLite checkpoints on this connection: only the server's own may run them."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("PRAGMA wal_autocheckpoint=0")


@contextmanager
def writing(settings: Settings) -> Iterator[Connection]:
    """Yield a transaction on the migrated database; a server may be running on it."""
    with opened(settings) as database, database.engine.begin() as connection:
        let_the_server_checkpoint(connection)
        yield connection
