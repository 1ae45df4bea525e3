"""Edit a run's metadata: archived, name, notes, tags. One transaction, recorded in the audit log.

Edits in the web UI take precedence over the training script: edited fields are listed in
``environment.edited``, and a later handshake does not overwrite them. Functions of a Connection.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, bindparam, or_, select, update

from tocsin_server.store import audit
from tocsin_server.store.tables import project, run

EDITED = "edited"
"""Key in a run's environment: field -> Unix ms of its last edit."""
RENAMED = "renamed"
"""Key in a project's settings: name in the script -> ids of its runs that were renamed in the web UI."""
MOST_RENAMED = 1000
"""Maximum renamed runs that a project remembers; the newest are kept.

If an older one reconnects without a run id, the client starts a new run.
"""
_SETTINGS = select(project.c.settings).where(project.c.name == bindparam("of_project"))


@dataclass(frozen=True, slots=True)
class Edit:
    """New values by field, and the values that the user saw when starting to edit (``seen``)."""

    values: Mapping[str, Any]
    seen: Mapping[str, Any] = field(default_factory=dict)


class ConflictError(Exception):
    """Another user changed ``field`` since it was read; ``stands`` is its current value."""

    def __init__(self, field: str, stands: Any) -> None:
        super().__init__(f"{field}: expected what was seen, got {stands!r:.200}")
        self.field = field
        self.stands = stands


def edit(connection: Connection, run_id: str, change: Edit, now_ns: int, actor: str) -> Row[Any] | None:
    """Apply the change and return the updated row of the run, or None if there is no such run.

    Raises:
        ConflictError: Another user changed a field since it was read. Nothing is changed.
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
    """Return action, subject and details of an audit log entry. Notes may be long and are left out."""
    if name == "archived":
        return "run.archive" if value else "run.unarchive", before.id, {}
    details = {} if name == "notes" else {"from": getattr(before, name), "to": value}
    return f"run.{name}", before.id, details


def edits_of(environment: Mapping[str, Any] | None) -> dict[str, int]:
    """Return the fields edited in the web UI, and when (Unix ms)."""
    found = (environment or {}).get(EDITED)
    return dict(found) if isinstance(found, Mapping) else {}


def _remember(connection: Connection, before: Row[Any]) -> None:
    """Store the original name of a renamed run, because its script keeps using it."""
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
    return dict(connection.execute(_SETTINGS, {"of_project": name}).scalar() or {})


def called(connection: Connection, project_name: str, name: str) -> ColumnElement[bool]:
    """Return a condition for the runs of a project that use this name in their script, even if renamed."""
    ids = (_settings(connection, project_name).get(RENAMED) or {}).get(name, [])
    named = run.c.name == name
    return and_(run.c.project == project_name, or_(named, run.c.id.in_(ids)) if ids else named)
