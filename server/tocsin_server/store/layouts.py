"""The layouts of a project's pages: panels, order and sizes. Functions of a Connection."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

from sqlalchemy import Connection

from tocsin_server.store.project_settings import put_setting, read_settings

Page = Literal["run", "compare"]
LAYOUTS: dict[Page, str] = {"run": "layout", "compare": "compare_layout"}
"""Keys in a project's settings."""


@dataclass(frozen=True, slots=True)
class Layout:
    """``layout`` is written as in the address of the page, empty for the standard one."""

    layout: str
    author: str
    updated_ns: int


NONE = Layout("", "", 0)


def read_layout(connection: Connection, name: str, page: Page = "run") -> Layout | None:
    """Return the layout of a project, or None if there is no such project."""
    settings = read_settings(connection, name)
    if settings is None:
        return None
    found = settings.get(LAYOUTS[page])
    return Layout(**found) if isinstance(found, dict) else NONE


def put_layout(connection: Connection, name: str, layout: Layout, page: Page = "run") -> bool:
    """Set the layout of a project. Returns False if there is no such project."""
    return put_setting(connection, name, LAYOUTS[page], asdict(layout))
