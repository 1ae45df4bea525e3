"""Tokens are stored by digest and revoked permanently."""

from __future__ import annotations

from dataclasses import replace

from tocsin_server.core.permissions import Scope, Token
from tocsin_server.store.database import Database
from tocsin_server.store.tokens import add_token, revoke_token, tokens


def test_a_token_is_kept_until_it_is_revoked(database: Database) -> None:
    """A new token is listed, the first revocation counts, and an unknown token is reported."""
    made = Token("t1", "lab", Scope.INGEST, "deblur", "d" * 64, 5)
    with database.engine.begin() as connection:
        add_token(connection, made)
        assert tokens(connection) == [made]
        assert [revoke_token(connection, "t1", 9), revoke_token(connection, "t1", 99)] == [True, True]
        assert not revoke_token(connection, "t2", 9)
        assert tokens(connection) == [replace(made, revoked_ns=9)]
