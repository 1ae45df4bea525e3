"""Store tokens, as digests only. Functions of a Connection."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, select

from tocsin_server.core.permissions import Scope, Token
from tocsin_server.store.damage import warn
from tocsin_server.store.tables import token


def add_token(connection: Connection, made: Token) -> None:
    """Store a new token.

    Raises:
        IntegrityError: Its id or digest exists already.
    """
    connection.execute(
        token.insert(),
        {
            "id": made.id,
            "name": made.name,
            "sha256": made.digest,
            "scope": made.scope,
            "project": made.project,
            "created_ns": made.created_ns,
        },
    )


def tokens(connection: Connection) -> list[Token]:
    """Return every token ever created, including revoked ones, oldest first."""
    rows = connection.execute(select(token).order_by(token.c.created_ns, token.c.id))
    return [_token(row) for row in rows]


def _token(row: Row[Any]) -> Token:
    """Return the token in a row. A token with an invalid scope is treated as revoked."""
    try:
        scope, revoked_ns = Scope(row.scope), row.revoked_ns
    except ValueError:
        warn(token.name, row.id, "scope", f"expected one of {', '.join(Scope)}, got {row.scope!r:.40}")
        scope, revoked_ns = Scope.INGEST, row.revoked_ns or row.created_ns
    return Token(row.id, row.name, scope, row.project or "", row.sha256, row.created_ns, revoked_ns)


def revoke_token(connection: Connection, token_id: str, now_ns: int) -> bool:
    """Revoke a token permanently; return False if there is none. Revoking twice keeps the first time."""
    known = connection.execute(select(token.c.id).where(token.c.id == token_id)).first()
    connection.execute(
        token.update().where(token.c.id == token_id, token.c.revoked_ns.is_(None)).values(revoked_ns=now_ns)
    )
    return known is not None
