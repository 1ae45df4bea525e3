"""The end of a run's data: all of it, from every table. Functions of a Connection."""

from __future__ import annotations

from sqlalchemy import Connection, delete

from tocsin_server.store.tables import RUN_TABLES, run


def delete_run(connection: Connection, run_id: str) -> bool:
    """Deletes every row of the run; False where there was none."""
    for table in RUN_TABLES:
        connection.execute(delete(table).where(table.c.run_id == run_id))
    return bool(connection.execute(delete(run).where(run.c.id == run_id)).rowcount)
