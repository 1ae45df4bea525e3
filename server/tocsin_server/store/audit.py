"""Audit log: one row per action, in the same transaction as the action."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select, tuple_

from tocsin_server.store.columns import LARGEST
from tocsin_server.store.damage import checked
from tocsin_server.store.tables import audit

_CURSOR = re.compile(r"([0-9]{1,19})\.([0-9a-f]{1,64})")


def note(
    connection: Connection,
    at_ns: int,
    actor: str,
    action: str,
    subject: str,
    details: Mapping[str, Any] | None = None,
) -> None:
    """Record that ``actor`` did ``action`` to ``subject``.

    ``actor`` is the id and name of a token, or the user who runs the command.
    """
    row = {"id": uuid.uuid4().hex, "at_ns": at_ns, "actor": actor, "action": action, "subject": subject}
    connection.execute(audit.insert(), row | {"details": dict(details or {})})


@dataclass(frozen=True, slots=True)
class Act:
    """One entry of the audit log."""

    id: str
    at_ns: int
    actor: str
    action: str
    subject: str
    details: Mapping[str, Any]

    @property
    def cursor(self) -> str:
        """Cursor of the page after this entry."""
        return f"{self.at_ns}.{self.id}"


def listed(
    connection: Connection,
    *,
    action: str | None = None,
    subject: str | None = None,
    before: str | None = None,
    limit: int = 100,
) -> list[Act]:
    """Return entries, newest first.

    Args:
        connection: A connection.
        action: Only this action and those that start with it and a dot.
        subject: Only entries about this subject.
        before: Cursor of the last entry of the previous page.
        limit: Maximum number of entries.

    Raises:
        ValueError: ``before`` is not a cursor.
    """
    table = audit.c
    query = select(audit).order_by(table.at_ns.desc(), table.id.desc()).limit(limit)
    if action is not None:
        query = query.where((table.action == action) | table.action.startswith(f"{action}.", autoescape=True))
    if subject is not None:
        query = query.where(table.subject == subject)
    if before is not None:
        place = _CURSOR.fullmatch(before)
        if place is None:
            raise ValueError(f"before: expected a cursor, got {before!r}")
        query = query.where(tuple_(table.at_ns, table.id) < (min(int(place[1]), LARGEST), place[2]))
    return [
        Act(
            row.id,
            row.at_ns,
            row.actor,
            row.action,
            row.subject,
            checked(row.details, audit, row, "details") or {},
        )
        for row in connection.execute(query)
    ]
