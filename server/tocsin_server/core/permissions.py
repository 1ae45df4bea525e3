"""Who may do what: scopes, identities, secrets and their digests. Pure; no database, no request.

Secrets are 256 random bits, so one sha256 is a sufficient digest (argon2 and its like exist
for passwords that people choose). Only digests are ever stored.
"""

from __future__ import annotations

import enum
import hashlib
import secrets
from dataclasses import dataclass
from typing import Protocol

from starlette.requests import HTTPConnection

SECRET_PREFIX = "tcn_"  # noqa: S105 - lets secret scanners recognise a leaked token
SECRET_BYTES = 32
NAME_CHARACTERS = 200
ADMIN_ID, CLIENT_ID = "admin", "trainer"
"""The two tokens that lie in the data directory: of the login link, of the lines to paste."""


class Scope(enum.StrEnum):
    """What a token is for. Admin includes write, write includes read; ingest is apart."""

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
    """A stored token: everything but its secret. ``project`` is ``""`` for any project."""

    id: str
    name: str
    scope: Scope
    project: str
    digest: str
    """sha256 of the secret, hexadecimal."""
    created_ns: int
    revoked_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Session:
    """A browser's session: by which token, which one, and from when to when, in Unix seconds."""

    token_id: str
    id: str
    begun_s: int
    expires_s: int


@dataclass(frozen=True, slots=True)
class Identity:
    """Whoever speaks on a connection, and through which token."""

    token_id: str
    name: str
    scope: Scope
    project: str = ""
    digest: str = ""
    """That of the token when it was checked: a token that was renewed has another one."""
    session: Session | None = None
    """The browser session that it came by, None for a token."""

    def may(self, scope: Scope) -> bool:
        """Whether this identity's scope includes ``scope``."""
        return scope in _INCLUDES[self.scope]

    def may_ingest(self, project: str) -> bool:
        """Whether a trainer with this identity may report to ``project``."""
        return self.may(Scope.INGEST) and self.project in ("", project)


class Gate(Protocol):
    """What the sockets ask of authentication; auth.py is the real one. Thread-safe."""

    def check_token(self, secret: str) -> Identity | None:
        """The identity behind a token, or None where it is unknown or revoked."""

    def session_of(self, connection: HTTPConnection, *, ask: bool = True) -> Identity | None:
        """The identity of a request or websocket by its bearer token or its session cookie. Without ``ask``
        only tokens in memory count, and no database is asked."""

    def same_origin(self, connection: HTTPConnection) -> bool:
        """False where a browser's Origin header names another site than the Host it calls."""

    def still_valid(self, identity: Identity) -> bool:
        """Return False once the token is revoked or renewed; long-lived sockets ask every few seconds."""

    def end_session(self, identity: Identity) -> None:
        """End the browser session of an identity: all copies of its cookie stop working."""

    def refresh(self) -> None:
        """Reads the tokens again: after one was made or revoked here."""


def new_secret() -> str:
    """A fresh token as people paste it: 256 random bits behind a recognisable prefix."""
    return SECRET_PREFIX + secrets.token_urlsafe(SECRET_BYTES)


def digest_of(secret: str) -> str:
    """The sha256 of a secret, hexadecimal: the only form in which it is stored."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def make_token(name: str, scope: Scope, project: str, now_ns: int) -> tuple[Token, str]:
    """A token to store, and its secret, which is kept nowhere.

    Raises ValueError where the name is empty or too long, or where the scope takes no project.
    """
    if not 0 < len(name) <= NAME_CHARACTERS:
        raise ValueError(f"name: expected 1 to {NAME_CHARACTERS} characters, got {len(name)}")
    if project and scope is not Scope.INGEST:
        raise ValueError(f"project: expected none for a token of scope {scope}, got {project!r}")
    secret = new_secret()
    token_id = f"t_{secrets.token_hex(6)}"
    return Token(token_id, name, scope, project, digest_of(secret), now_ns), secret
