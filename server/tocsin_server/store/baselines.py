"""The baselines of a project: runs that others are compared with. Functions of a Connection."""

from __future__ import annotations

from sqlalchemy import Connection, select

from tocsin_server.store.project_settings import put_setting, read_settings
from tocsin_server.store.tables import run

BASELINES = "baselines"
"""Key in a project's settings: ids of runs, oldest pin first."""
MOST = 20
"""Maximum baselines of a project; the newest are kept."""


def read_baselines(connection: Connection, name: str) -> list[str] | None:
    """Return the baselines of a project that still exist, or None if there is no such project."""
    settings = read_settings(connection, name)
    if settings is None:
        return None
    pinned = settings.get(BASELINES) or []
    query = select(run.c.id).where(run.c.id.in_(pinned), run.c.project == name)
    there = set(connection.execute(query).scalars())
    return [run_id for run_id in pinned if run_id in there]


def put_baseline(connection: Connection, name: str, run_id: str, *, pinned: bool) -> list[str] | None:
    """Pin or unpin a run.

    Returns:
        The baselines by then, or None if there is no such project, or no such run in it.
    """
    query = select(run.c.id).where(run.c.id == run_id, run.c.project == name)
    if pinned and connection.execute(query).first() is None:
        return None
    read_settings(connection, name, locked=True)
    before = read_baselines(connection, name)
    if before is None:
        return None
    rest = [each for each in before if each != run_id]
    after = [*rest, run_id][-MOST:] if pinned else rest
    put_setting(connection, name, BASELINES, after)
    return after
