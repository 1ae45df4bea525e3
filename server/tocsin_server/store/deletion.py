"""The end of a run's data: all of it, from every table, a bounded piece a transaction.

A run that is deleted leaves the table of runs at once, and a row in ``deletion`` says that its
other rows are still to go: whoever starts next goes on where a kill interrupted. Functions of
a Connection.
"""

from __future__ import annotations

from sqlalchemy import ColumnElement, Connection, Table, delete, func, literal_column, or_, select, update

from tocsin_server.store.row_builder import upsert
from tocsin_server.store.tables import RUN_TABLES, deletion, project, run

ROWS_AT_ONCE = 256
"""Rows that one transaction deletes: a few milliseconds, so that acks do not wait for it."""


def mark(connection: Connection, run_id: str, now_ns: int) -> bool:
    """The run is gone for everyone; its rows go by :func:`sweep`. False where there is no such run."""
    found = connection.execute(delete(run).where(run.c.id == run_id)).rowcount
    if found:
        schedule_deletion(connection, run_id, now_ns)
    return bool(found)


def schedule_deletion(connection: Connection, run_id: str, due_ns: int) -> None:
    """Rows of this run are to go from ``due_ns`` on, unless :func:`spare` comes first."""
    insert = upsert(connection, deletion)
    later = insert.on_conflict_do_update(index_elements=["run_id"], set_={"due_ns": due_ns})
    connection.execute(later, {"run_id": run_id, "due_ns": due_ns})


def cancel_deletion(connection: Connection, run_id: str) -> None:
    """Nothing of this run is to go any more: all of it is gone, or all of it is there."""
    connection.execute(delete(deletion).where(deletion.c.run_id == run_id))


def is_scheduled(connection: Connection, run_id: str) -> bool:
    """Whether rows of a run of this id are still to go, or are being brought in."""
    return (
        connection.execute(select(deletion.c.run_id).where(deletion.c.run_id == run_id)).first() is not None
    )


def postpone(connection: Connection, run_id: str, due_ns: int) -> bool:
    """The run goes at ``due_ns``, and stays as it is until then. False where there is no such run."""
    found = connection.execute(select(run.c.id).where(run.c.id == run_id).with_for_update()).first()
    if found is None or (is_scheduled(connection, run_id) and not may_stay(connection, run_id, 0)):
        return False
    schedule_deletion(connection, run_id, due_ns)
    return True


def may_stay(connection: Connection, run_id: str, now_ns: int) -> bool:
    """Whether the run is to go later than ``now_ns`` and nobody has begun to take it away."""
    later = select(deletion.c.run_id).where(
        deletion.c.run_id == run_id, deletion.c.due_ns > now_ns, deletion.c.begun_ns.is_(None)
    )
    return connection.execute(later).first() is not None


def bring_back(connection: Connection, run_id: str, now_ns: int) -> bool:
    """A run that was to go later stays. False where it is gone, or was not going."""
    there = connection.execute(select(run.c.id).where(run.c.id == run_id).with_for_update()).first()
    if there is None or not may_stay(connection, run_id, now_ns):
        return False
    cancel_deletion(connection, run_id)
    return True


def due(connection: Connection, now_ns: int, *, interrupted: bool = False) -> list[str]:
    """Runs whose rows are to go now, those that have waited longest first; with ``interrupted`` also
    those that an import or a deletion left half way, but never a run that may still be brought back."""
    whole = select(run.c.id).where(run.c.id == deletion.c.run_id)
    now = deletion.c.due_ns <= now_ns
    due = select(deletion.c.run_id).where(or_(now, ~whole.exists()) if interrupted else now)
    return list(connection.execute(due.order_by(deletion.c.due_ns, deletion.c.run_id)).scalars())


def begin_deletion(connection: Connection, run_id: str, now_ns: int) -> None:
    """Says that a process has begun to delete these rows. From here on there is no such run."""
    connection.execute(delete(run).where(run.c.id == run_id))
    connection.execute(update(deletion).where(deletion.c.run_id == run_id).values(begun_ns=now_ns))


def has_begun(connection: Connection, run_id: str) -> bool:
    """Whether a process has begun to delete the rows of this run, or has done so."""
    row = connection.execute(select(deletion.c.begun_ns).where(deletion.c.run_id == run_id)).first()
    return row is None or row.begun_ns is not None


def sweep(connection: Connection, run_id: str, rows: int = ROWS_AT_ONCE) -> bool:
    """Deletes at most ``rows`` rows of the run; whether there may be more."""
    for table in RUN_TABLES:
        gone = _erase(connection, table, run_id, rows)
        if gone == rows:
            return True
        rows -= gone
    cancel_deletion(connection, run_id)
    return False


def _erase(connection: Connection, table: Table, run_id: str, rows: int) -> int:
    on_sqlite = connection.dialect.name == "sqlite"
    place: ColumnElement[str] = literal_column("rowid" if on_sqlite else "ctid")
    some = select(place).select_from(table).where(table.c.run_id == run_id).limit(rows).correlate(None)
    # Postgres finds rows by ctid directly only where they come as an array.
    chosen = place.in_(some) if on_sqlite else place == func.any(func.array(some.scalar_subquery()))
    # A ctid is a place within one partition: without the run, rows of others would go with it.
    return connection.execute(delete(table).where(table.c.run_id == run_id, chosen)).rowcount


def runs_of(connection: Connection, project_name: str) -> list[str]:
    """The ids of a project's runs, oldest first."""
    query = select(run.c.id).where(run.c.project == project_name)
    return list(connection.execute(query.order_by(run.c.created_ns, run.c.id)).scalars())


def delete_project_row(connection: Connection, name: str) -> bool:
    """Deletes a project that has no runs any more; False where there was none."""
    return bool(connection.execute(delete(project).where(project.c.name == name)).rowcount)
