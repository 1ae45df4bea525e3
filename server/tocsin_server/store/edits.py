"""What people change of a run: archived, name, notes, tags. One transaction, noted in the audit log.

The word of a person outlives that of the script: what was edited here is marked in ``facts.edited``,
and a later hello (a reconnect, a restart) leaves it alone. Functions of a Connection.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, or_, select, update

from tocsin_server.store import audit
from tocsin_server.store.tables import project, run

EDITED = "edited"
"""In the facts of a run: field -> Unix ms of its last edit."""
RENAMED = "renamed"
"""In the settings of a project: the name that a script says -> ids of its runs that people call otherwise."""
MOST_RENAMED = 1000
"""Renamed runs that a project remembers, the newest: of the others a reconnecting trainer without a run id
begins a new run."""


@dataclass(frozen=True, slots=True)
class Edit:
    """New values by field, and what stood there when the person began to write (``seen``)."""

    values: Mapping[str, Any]
    seen: Mapping[str, Any] = field(default_factory=dict)


class ConflictError(Exception):
    """Somebody else changed ``field`` since it was seen; ``stands`` is what it holds now."""

    def __init__(self, field: str, stands: Any) -> None:
        super().__init__(f"{field}: expected what was seen, got {stands!r:.200}")
        self.field = field
        self.stands = stands


def edit(connection: Connection, run_id: str, change: Edit, now_ns: int, actor: str) -> Row[Any] | None:
    """Makes the change; the run's row after it, None where there is no such run.

    Raises ConflictError, and then nothing is changed: nobody overwrites what they have not seen.
    """
    before = connection.execute(select(run).where(run.c.id == run_id).with_for_update()).first()
    if before is None:
        return None
    for name, was in change.seen.items():
        stands = getattr(before, name)
        if stands != was and stands != change.values.get(name):
            raise ConflictError(name, stands)
    values = {name: value for name, value in change.values.items() if getattr(before, name) != value}
    if values:
        _write(connection, before, values, now_ns, actor)
    return connection.execute(select(run).where(run.c.id == run_id)).one()


def _write(
    connection: Connection, before: Row[Any], values: Mapping[str, Any], now_ns: int, actor: str
) -> None:
    reported = [name for name in values if name != "archived"]
    row = dict(values)
    if reported:
        edited = {**edits_of(before.environment), **dict.fromkeys(reported, now_ns // 1_000_000)}
        row["environment"] = {**(before.environment or {}), EDITED: edited}
    if "name" in values:
        _remember(connection, before)
    connection.execute(update(run).where(run.c.id == before.id).values(**row))
    for name in values:
        audit.note(connection, now_ns, actor, *_act(before, name, values[name]))


def _act(before: Row[Any], name: str, value: Any) -> tuple[str, str, dict[str, Any]]:
    """Action, subject and details of a line of the audit log; notes may be long and are not repeated."""
    if name == "archived":
        return "run.archive" if value else "run.unarchive", before.id, {}
    details = {} if name == "notes" else {"from": getattr(before, name), "to": value}
    return f"run.{name}", before.id, details


def edits_of(environment: Mapping[str, Any] | None) -> dict[str, int]:
    """Which fields people wrote, and when (Unix ms)."""
    found = (environment or {}).get(EDITED)
    return dict(found) if isinstance(found, Mapping) else {}


def _remember(connection: Connection, before: Row[Any]) -> None:
    """Its script goes on calling the run by the first name."""
    settings = _settings(connection, before.project)
    renamed = {name: list(ids) for name, ids in (settings.get(RENAMED) or {}).items()}
    if any(before.id in ids for ids in renamed.values()):
        return
    renamed.setdefault(before.name, []).append(before.id)
    while sum(map(len, renamed.values())) > MOST_RENAMED:
        oldest = next(iter(renamed))
        renamed[oldest] = renamed[oldest][1:]
        renamed = {name: ids for name, ids in renamed.items() if ids}
    statement = update(project).where(project.c.name == before.project)
    connection.execute(statement.values(settings={**settings, RENAMED: renamed}))


def _settings(connection: Connection, name: str) -> dict[str, Any]:
    return dict(connection.execute(select(project.c.settings).where(project.c.name == name)).scalar() or {})


def called(connection: Connection, project_name: str, name: str) -> ColumnElement[bool]:
    """Runs of a project whose script says this name, whatever people call them by now."""
    ids = (_settings(connection, project_name).get(RENAMED) or {}).get(name, [])
    named = run.c.name == name
    return and_(run.c.project == project_name, or_(named, run.c.id.in_(ids)) if ids else named)
