"""Who changed what: one row an act, in the transaction of the act itself."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from tocsin_server.store.tables import audit


def note(
    connection: Connection,
    at_ns: int,
    actor: str,
    action: str,
    subject: str,
    details: Mapping[str, Any] | None = None,
) -> None:
    """``actor`` (a token's id and name, or who runs the command) did ``action`` to ``subject``."""
    row = {"id": uuid.uuid4().hex, "at_ns": at_ns, "actor": actor, "action": action, "subject": subject}
    connection.execute(audit.insert(), row | {"details": dict(details or {})})
