"""Delete all rows of a run from every table, a bounded number per transaction.

A deleted run disappears from the table of runs at once, and a row in ``deletion`` marks its other rows
for deletion, so that the next start resumes an interrupted deletion. Functions of a Connection.
"""

from __future__ import annotations

from sqlalchemy import (
    ColumnElement,
    Connection,
    Table,
    bindparam,
    delete,
    func,
    literal_column,
    or_,
    select,
    update,
)

from tocsin_server.store import outbox
from tocsin_server.store.row_builder import upsert
from tocsin_server.store.tables import RUN_TABLES, deletion, embed_link, project, run

OF_A_RUN = (*RUN_TABLES, embed_link)
"""Every table with rows of a run. Links have a key of their own, so their table is not divided by runs."""
ROWS_AT_ONCE = 256
"""Rows that one transaction deletes: a few milliseconds, because acks wait for it."""
_SCHEDULED = select(deletion.c.run_id).where(deletion.c.run_id == bindparam("of_run"))
_LATER = _SCHEDULED.where(deletion.c.due_ns > bindparam("now_ns"), deletion.c.begun_ns.is_(None))


def mark(connection: Connection, run_id: str, now_ns: int) -> bool:
    """Delete the run row and schedule its other rows for :func:`sweep`.

    Returns:
        False if there is no such run.
    """
    found = _delete_row(connection, run_id)
    if found:
        schedule_deletion(connection, run_id, now_ns)
    return found


def _delete_row(connection: Connection, run_id: str) -> bool:
    """Delete the run row and what is still to be sent about the run; return False if there was no row."""
    outbox.drop_unsent(connection, run_id)
    return bool(connection.execute(delete(run).where(run.c.id == run_id)).rowcount)


def schedule_deletion(connection: Connection, run_id: str, due_ns: int) -> None:
    """Schedule the rows of this run for deletion at ``due_ns``; :func:`cancel_deletion` undoes it."""
    insert = upsert(connection, deletion)
    later = insert.on_conflict_do_update(index_elements=["run_id"], set_={"due_ns": due_ns})
    connection.execute(later, {"run_id": run_id, "due_ns": due_ns})


def cancel_deletion(connection: Connection, run_id: str) -> None:
    """Cancel the deletion of this run: either all of its rows are gone, or all of them stay."""
    connection.execute(delete(deletion).where(deletion.c.run_id == run_id))


def is_scheduled(connection: Connection, run_id: str) -> bool:
    """Return whether rows of this run are still to be deleted, or are being imported."""
    return connection.execute(_SCHEDULED, {"of_run": run_id}).first() is not None


def postpone(connection: Connection, run_id: str, due_ns: int) -> bool:
    """Schedule the deletion of the run at ``due_ns``; it stays usable until then.

    Returns:
        False if there is no such run, or its deletion has begun.
    """
    found = connection.execute(select(run.c.id).where(run.c.id == run_id).with_for_update()).first()
    if found is None or (is_scheduled(connection, run_id) and not may_stay(connection, run_id, 0)):
        return False
    schedule_deletion(connection, run_id, due_ns)
    return True


def may_stay(connection: Connection, run_id: str, now_ns: int) -> bool:
    """Return whether the run is scheduled for after ``now_ns`` and its deletion has not begun."""
    return connection.execute(_LATER, {"of_run": run_id, "now_ns": now_ns}).first() is not None


def bring_back(connection: Connection, run_id: str, now_ns: int) -> bool:
    """Cancel a scheduled deletion.

    Returns:
        False if the run is gone, or has no deletion that can still be canceled.
    """
    there = connection.execute(select(run.c.id).where(run.c.id == run_id).with_for_update()).first()
    if there is None or not may_stay(connection, run_id, now_ns):
        return False
    cancel_deletion(connection, run_id)
    return True


def due(connection: Connection, now_ns: int, *, interrupted: bool = False) -> list[str]:
    """Return the runs whose rows are to be deleted now, longest-waiting first.

    Args:
        connection: A connection.
        now_ns: Current Unix time.
        interrupted: Also return runs that an import or a deletion left incomplete, but never one that can
            still be restored.
    """
    whole = select(run.c.id).where(run.c.id == deletion.c.run_id)
    now = deletion.c.due_ns <= now_ns
    due = select(deletion.c.run_id).where(or_(now, ~whole.exists()) if interrupted else now)
    return list(connection.execute(due.order_by(deletion.c.due_ns, deletion.c.run_id)).scalars())


def begin_deletion(connection: Connection, run_id: str, now_ns: int) -> None:
    """Delete the run row and mark the deletion as begun; it cannot be canceled any more."""
    _delete_row(connection, run_id)
    connection.execute(update(deletion).where(deletion.c.run_id == run_id).values(begun_ns=now_ns))


def has_begun(connection: Connection, run_id: str) -> bool:
    """Return whether a process has begun to delete, or has deleted, the rows of this run."""
    row = connection.execute(select(deletion.c.begun_ns).where(deletion.c.run_id == run_id)).first()
    return row is None or row.begun_ns is not None


def sweep(connection: Connection, run_id: str, rows: int = ROWS_AT_ONCE) -> bool:
    """Delete at most ``rows`` rows of the run; return whether there may be more."""
    for table in OF_A_RUN:
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
    # Postgres uses ctid directly only if the values are an array.
    chosen = place.in_(some) if on_sqlite else place == func.any(func.array(some.scalar_subquery()))
    # A ctid is unique within one partition only: without the run, it would match rows of other runs.
    return connection.execute(delete(table).where(table.c.run_id == run_id, chosen)).rowcount


def runs_of(connection: Connection, project_name: str) -> list[str]:
    """Return the ids of a project's runs, oldest first."""
    query = select(run.c.id).where(run.c.project == project_name)
    return list(connection.execute(query.order_by(run.c.created_ns, run.c.id)).scalars())


def delete_project_row(connection: Connection, name: str) -> bool:
    """Delete a project without runs; return False if there was none."""
    return bool(connection.execute(delete(project).where(project.c.name == name)).rowcount)
