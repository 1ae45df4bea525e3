"""``tocsin-server check``: which stored values cannot be read, and their repair."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from tocsin_server.check import Damage, copy_name, damages, keep, rebuild_board, repair
from tocsin_server.cli_options import (
    Config,
    DatabaseUrl,
    DataDir,
    let_the_server_checkpoint,
    opened,
    settings_of,
)
from tocsin_server.store.database import Database

EXIT_DAMAGED = 1
"""Exit status where something cannot be read and was not repaired."""


def check(
    repair_texts: Annotated[
        bool, typer.Option("--repair", help="Repair damaged texts; what is replaced is kept in a file.")
    ] = False,
    database_url: DatabaseUrl = None,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Read every stored value and list those that are damaged, one per line.

    A line is: table, run, row, column, reason, with tabs between them. The exit status is 1 if damage is
    left, else 0. Works beside a running server.

    --repair replaces damaged texts by empty values, and the row of the list of runs by one made again from
    the records. A damaged channel is switched off, a damaged silence, custom rule, rule setting or other
    setting is deleted, and a token with a damaged scope is revoked. A damaged rule state or incident snapshot
    is deleted; the server derives it again from the records. Records are never changed: restore a backup for
    those.
    """
    settings = settings_of(database_url, data_dir, config)
    with opened(settings) as database:
        with database.reader.begin() as connection:
            found = list(damages(connection))
        for one in found:
            typer.echo(str(one))
        left = len(found)
        if found and repair_texts:
            file = copy_name(settings.data_dir, time.time())
            mendable = [one for one in found if one.where is not None]
            keep(file, mendable)
            left -= _repaired(database, mendable)
            typer.echo(
                f"{len(found) - left} repaired, {left} left. What was replaced is in {file}.", err=True
            )
        else:
            typer.echo(f"{left} damaged values." if left else "No damage found.", err=True)
    if left:
        raise typer.Exit(EXIT_DAMAGED)


def _repaired(database: Database, found: list[Damage]) -> int:
    now_ns, count = time.time_ns(), 0
    with database.engine.begin() as connection:
        let_the_server_checkpoint(connection)
        for one in found:
            count += repair(connection, one, now_ns)
    for one in found:
        if (one.table, one.column) == ("run", "board"):
            rebuild_board(database, one.run_id)
    return count
