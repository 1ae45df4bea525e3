"""Open the database for a command, with as few imports as that takes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from tocsin_server.core.errors import StartError
from tocsin_server.core.settings import Settings
from tocsin_server.store.connection import URL, Connection
from tocsin_server.store.database import (
    Database,
    database_url,
    let_the_server_checkpoint,
    open_database,
)
from tocsin_server.store.database import migrate as migrate_database


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


@contextmanager
def writing(settings: Settings) -> Iterator[Connection]:
    """Yield a transaction on the migrated database; a server may be running on it."""
    with opened(settings) as database, database.engine.begin() as connection:
        let_the_server_checkpoint(connection)
        yield connection


def url_of(settings: Settings) -> URL:
    """Return the database URL. Raises StartError if it is invalid."""
    try:
        return database_url(settings.url)
    except ValueError as error:
        raise StartError(str(error)) from error


def as_it_is(settings: Settings, purpose: str) -> Database:
    """Return the SQLite database without migrating it. Raises TocsinError if there is none."""
    from tocsin_server.store.backup import file_of
    from tocsin_server.transfer.run_folder import BundleError

    file = file_of(url_of(settings), purpose)
    if not file.is_file():
        raise BundleError(str(file), "a database", "no such file")
    return open_database(settings.url)
