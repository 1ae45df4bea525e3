"""Scopes, identities, secrets and their digests. Pure code without database or request.

Secrets are 256 random bits, so one sha256 is a sufficient digest (argon2 and similar functions are
for passwords that people choose). Only digests are stored.
"""

from __future__ import annotations

import enum
import hashlib
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

SECRET_PREFIX = "tcn_"  # noqa: S105 - lets secret scanners recognize a leaked token
SECRET_BYTES = 32
NAME_CHARACTERS = 200
ADMIN_ID, CLIENT_ID = "admin", "trainer"
"""Ids of the two tokens in the data directory: for the login link and for training processes."""


class Scope(enum.StrEnum):
    """Permissions of a token.

    Admin includes write and ingest, write includes read; ingest includes only itself.
    """

    INGEST = "ingest"
    READ = "read"
    WRITE = "write"
    ADMIN = "admin"


_INCLUDES: dict[Scope, frozenset[Scope]] = {
    Scope.INGEST: frozenset({Scope.INGEST}),
    Scope.READ: frozenset({Scope.READ}),
    Scope.WRITE: frozenset({Scope.READ, Scope.WRITE}),
    Scope.ADMIN: frozenset(Scope),
}


@dataclass(frozen=True, slots=True)
class Token:
    """A stored token without its secret. ``project`` is ``""`` for any project."""

    id: str
    name: str
    scope: Scope
    project: str
    digest: str
    """Hexadecimal sha256 of the secret."""
    created_ns: int
    revoked_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Session:
    """A browser session: its token, its id, and its start and expiry in Unix seconds."""

    token_id: str
    id: str
    begun_s: int
    expires_s: int


@dataclass(frozen=True, slots=True)
class Identity:
    """The authenticated user or client of a connection, and the token used."""

    token_id: str
    name: str
    scope: Scope
    project: str = ""
    digest: str = ""
    """Digest of the token when it was checked; a renewed token has a different one."""
    session: Session | None = None
    """The browser session that authenticated the request, or None for a bearer token."""

    def may(self, scope: Scope) -> bool:
        """Return whether this identity's scope includes ``scope``."""
        return scope in _INCLUDES[self.scope]

    def may_ingest(self, project: str) -> bool:
        """Return whether a client with this identity may send records to ``project``."""
        return self.may(Scope.INGEST) and self.project in ("", project)


class Gate(Protocol):
    """Authentication as the WebSockets and routes use it. Implementations are thread-safe."""

    def check_token(self, secret: str, *, ask: bool = True) -> Identity | None:
        """Return the identity of a token, or None if it is unknown or revoked.

        Args:
            secret: The token as the caller sent it.
            ask: Whether the database may be read if the token is unknown.
        """

    def session_of(self, connection: HTTPConnection, *, ask: bool = True) -> Identity | None:
        """Return the identity of a request or WebSocket by its bearer token or session cookie.

        Args:
            connection: The request or WebSocket.
            ask: Whether the database may be queried; if False, only tokens in memory are checked.
        """

    def same_origin(self, connection: HTTPConnection) -> bool:
        """Return False if a browser's Origin header names another site than the Host it calls."""

    def still_valid(self, identity: Identity) -> bool:
        """Return False once the token is revoked or renewed; WebSockets check every few seconds."""

    def end_session(self, identity: Identity) -> None:
        """End the browser session of an identity: all copies of its cookie stop working."""

    def refresh(self) -> None:
        """Reload the tokens after one was created or revoked."""


def new_secret() -> str:
    """Return a new token: 256 random bits after a recognizable prefix."""
    return SECRET_PREFIX + secrets.token_urlsafe(SECRET_BYTES)


def digest_of(secret: str) -> str:
    """Return the hexadecimal sha256 of a secret, the only form in which it is stored."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def make_token(name: str, scope: Scope, project: str, now_ns: int) -> tuple[Token, str]:
    """Return a new token to store, and its secret, which is not stored.

    Raises:
        ValueError: The name is empty or too long, or ``project`` is set for a scope other than ingest.
    """
    if not 0 < len(name) <= NAME_CHARACTERS:
        raise ValueError(f"name: expected 1 to {NAME_CHARACTERS} characters, got {len(name)}")
    if project and scope is not Scope.INGEST:
        raise ValueError(f"project: expected no project for a token of scope {scope}, got {project!r}")
    secret = new_secret()
    token_id = f"t_{secrets.token_hex(6)}"
    return Token(token_id, name, scope, project, digest_of(secret), now_ns), secret
