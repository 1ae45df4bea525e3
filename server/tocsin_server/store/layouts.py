"""The layout of the run pages of a project: panels, order and sizes. Functions of a Connection."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, select, update

from tocsin_server.store.tables import project

LAYOUT = "layout"
"""Key in a project's settings."""


@dataclass(frozen=True, slots=True)
class Layout:
    """``layout`` is written as in the address of the page, empty for the standard one."""

    layout: str
    author: str
    updated_ns: int


NONE = Layout("", "", 0)


def read_layout(connection: Connection, name: str) -> Layout | None:
    """Return the layout of a project, or None if there is no such project."""
    settings = _settings(connection, name)
    found = None if settings is None else settings.get(LAYOUT)
    if settings is None or not isinstance(found, dict):
        return None if settings is None else NONE
    return Layout(**found)


def put_layout(connection: Connection, name: str, layout: Layout) -> bool:
    """Set the layout of a project. Returns False if there is no such project."""
    settings = _settings(connection, name, locked=True)
    if settings is None:
        return False
    changed = {**settings, LAYOUT: asdict(layout)}
    connection.execute(update(project).where(project.c.name == name).values(settings=changed))
    return True


def _settings(connection: Connection, name: str, *, locked: bool = False) -> dict[str, Any] | None:
    query = select(project.c.settings).where(project.c.name == name)
    row = connection.execute(query.with_for_update() if locked else query).first()
    return None if row is None else dict(row.settings or {})
