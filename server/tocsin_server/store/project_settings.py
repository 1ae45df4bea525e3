"""The settings of a project, JSON by key. Functions of a Connection."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, select, update

from tocsin_server.store.tables import project


def read_settings(connection: Connection, name: str, *, locked: bool = False) -> dict[str, Any] | None:
    """Return the settings of a project, or None if there is no such project.

    Args:
        connection: Open connection.
        name: The project.
        locked: No other transaction can change them until the transaction ends.
    """
    query = select(project.c.settings).where(project.c.name == name)
    row = connection.execute(query.with_for_update() if locked else query).first()
    return None if row is None else dict(row.settings or {})


def put_setting(connection: Connection, name: str, key: str, value: Any) -> bool:
    """Set one of the settings of a project. Returns False if there is no such project."""
    settings = read_settings(connection, name, locked=True)
    if settings is None:
        return False
    changed = {**settings, key: value}
    connection.execute(update(project).where(project.c.name == name).values(settings=changed))
    return True
