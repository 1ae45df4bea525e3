"""``tocsin-server check``: list stored values that cannot be read, and repair them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tocsin_server.cli.options import AsJson, Config, DatabaseUrl, DataDir, print_json, settings_of
from tocsin_server.core.errors import StartError

if TYPE_CHECKING:
    from tocsin_server.store.database import Database
    from tocsin_server.store.value_check import Damage

EXIT_DAMAGED = 1
"""Exit status if a value cannot be read and was not repaired."""


def check(
    repair_texts: Annotated[
        bool, typer.Option("--repair", help="Repair damaged texts; save the replaced values to a file.")
    ] = False,
    as_json: AsJson = False,
    database_url: DatabaseUrl = None,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Read every stored value and list those that are damaged, one per line.

    Each line has table, run, row, column and reason, separated by tabs. The exit status is 0 if nothing is
    damaged, 1 if damage is left, 2 if there is no database or it cannot be opened. The server may be running.

    --repair replaces damaged texts with empty values, and rebuilds the row of the list of runs from the
    records. A damaged channel is switched off; a damaged silence, custom rule, rule setting or other setting
    is deleted; a token with a damaged scope is revoked. A damaged rule state or incident snapshot is deleted,
    and the server derives it again from the records. Records are never changed: restore a backup if they are
    damaged.
    """
    from tocsin_server.cli.database import opened
    from tocsin_server.jobs.database_check import copy_name, damages, keep

    settings = settings_of(database_url, data_dir, config)
    _check_exists(settings.url)
    with opened(settings) as database:
        with database.reader.begin() as connection:
            found = list(damages(connection))
        for one in [] if as_json else found:
            typer.echo(str(one))
        left = len(found)
        if found and repair_texts:
            file = copy_name(settings.data_dir, time.time())
            mendable = [one for one in found if one.where is not None]
            keep(file, mendable)
            left -= _repaired(database, mendable)
            typer.echo(
                f"{len(found) - left} repaired, {left} left. The replaced values are in {file}.", err=True
            )
        else:
            typer.echo(f"Damaged values: {left}." if left else "No damage found.", err=True)
    if as_json:
        print_json({"damages": list(map(_data, found)), "left": left})
    if left:
        raise typer.Exit(EXIT_DAMAGED)


def _data(one: Damage) -> dict[str, str | None]:
    names = ("table", "run_id", "key", "column", "reason")
    return {name: getattr(one, name) or None for name in names}


def _check_exists(url: str) -> None:
    """Raise StartError if there is no SQLite file, which opening it would create."""
    from tocsin_server.store.connection import make_url
    from tocsin_server.store.database import check_not_emptied

    file = make_url(url).database
    if not url.startswith("sqlite") or file is None or Path(file).exists():
        return
    check_not_emptied(Path(file))
    raise StartError(f"There is no database at {file}. Name one with --data-dir or --database-url.")


def _repaired(database: Database, found: list[Damage]) -> int:
    from tocsin_server.jobs.database_check import rebuild_summary
    from tocsin_server.store.database import let_the_server_checkpoint
    from tocsin_server.store.value_check import repair

    now_ns, count = time.time_ns(), 0
    with database.engine.begin() as connection:
        let_the_server_checkpoint(connection)
        for one in found:
            count += repair(connection, one, now_ns)
    for one in found:
        if (one.table, one.column) == ("run", "summary"):
            rebuild_summary(database, one.run_id)
    return count
