"""Store the views of the fleet that users save. Functions of a Connection."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, delete, func, select, update

from tocsin_server.store.damage import values_of
from tocsin_server.store.tables import saved_view


@dataclass(frozen=True, slots=True)
class SavedView:
    """A filter, columns, an order and a grouping by name. ``project`` is empty for all projects."""

    id: str
    project: str
    name: str
    filter: str
    columns: str
    sort: str
    grouping: str
    is_default: bool
    author: str
    created_ns: int
    updated_ns: int


def saved_views(connection: Connection) -> list[SavedView]:
    """Return every view by project and name; those for all projects first."""
    query = select(saved_view).order_by(saved_view.c.project, saved_view.c.name)
    return [SavedView(**values_of(saved_view, row)) for row in connection.execute(query)]


def count_views(connection: Connection) -> int:
    """Return the number of views."""
    return int(connection.execute(select(func.count()).select_from(saved_view)).scalar_one())


def read_view(connection: Connection, view_id: str) -> SavedView | None:
    """Return one view, or None."""
    row = connection.execute(select(saved_view).where(saved_view.c.id == view_id)).first()
    return None if row is None else SavedView(**values_of(saved_view, row))


def put_view(connection: Connection, row: SavedView) -> None:
    """Create or update a view. If it is the default of its project, no other one is any more.

    Raises:
        IntegrityError: Another view of the project has the same name.
    """
    values = {name: getattr(row, name) for name in saved_view.c.keys()}  # noqa: SIM118 - not a dict
    if row.is_default:
        others = (saved_view.c.project == row.project) & (saved_view.c.id != row.id)
        connection.execute(update(saved_view).where(others).values(is_default=False))
    if connection.execute(update(saved_view).where(saved_view.c.id == row.id).values(values)).rowcount == 0:
        connection.execute(saved_view.insert(), values)


def delete_view(connection: Connection, view_id: str) -> None:
    """Delete a view, if there is one."""
    connection.execute(delete(saved_view).where(saved_view.c.id == view_id))
