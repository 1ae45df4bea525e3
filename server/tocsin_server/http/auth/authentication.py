"""Authenticate by token, session cookie or login link.

A token is identified by its digest. The table of digests is kept in memory. It is read again every second
(``app``) and when an unknown token arrives, so that a token created by another process works at once, and a
revoked one stops working within two seconds. Unknown tokens cause at most :data:`LOOKS_PER_S` queries per
second. Two tokens are stored in the data directory instead (mode 0600), so that they survive restarts: that
of the login link (``admin-token``) and that of the lines to paste (``trainer-token``).

Browser sessions are signed cookies: :mod:`sessions`.
"""

from __future__ import annotations

import hmac
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tocsin_server.core.origins import origin_agrees
from tocsin_server.core.permissions import (
    ADMIN_ID,
    CLIENT_ID,
    Identity,
    Scope,
    Session,
    Token,
    digest_of,
    new_secret,
)
from tocsin_server.core.settings import Settings
from tocsin_server.http.auth.sessions import COOKIE, Ended, Sessions

if TYPE_CHECKING:  # commands read FILE_TOKENS
    from starlette.requests import HTTPConnection

KEY_FILE, ENDED_FILE = "session-key", "ended-sessions"
LONGEST_SECRET = 512
"""Longer than any token; longer secrets are not even hashed."""
MOST_COOKIES = 4
LOOKS, LOOKS_PER_S = 20.0, 2.0
"""Burst and rate per second of unknown tokens that cause a query. Above that, the tokens in memory decide,
which are at most a second old."""

log = logging.getLogger("tocsin.auth")


class Auth:
    """The gate (:class:`tocsin_server.core.permissions.Gate`). Thread-safe: tables are replaced whole."""

    def __init__(
        self,
        settings: Settings,
        load: Callable[[], Iterable[Token]],
        *,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._load = load
        self._clock = clock
        self._by_digest: dict[str, Token] = {}
        self._by_id: dict[str, Token] = {}
        self._loads = True
        self._looks, self._looked_s = LOOKS, steady()
        self._steady = steady
        self._looking = threading.Lock()
        key = secret_file(settings.data_dir / KEY_FILE, lambda: secrets.token_hex(32))
        self._ended = Ended(settings.data_dir / ENDED_FILE)
        self.sessions = Sessions(key.encode(), settings.session_days * 86_400, self._ended)
        self.refresh()

    def refresh(self) -> None:
        """Read the tokens again. If the database fails, the known ones stay valid."""
        try:
            found = [token for token in self._load() if token.revoked_ns is None]
            found += file_tokens(self._settings)
        except Exception as error:  # noqa: BLE001 - a database outage must not lock users out
            self._report(error)
            return
        self._loads = True
        self._by_id = {token.id: token for token in found}
        self._by_digest = {token.digest: token for token in found}

    def _report(self, error: Exception) -> None:
        if self._loads:
            log.warning("tokens could not be read; the known ones stay valid: %s", error)
        self._loads = False

    def find(self, secret: str, *, look_again: bool = True) -> Token | None:
        """Return the stored token of a secret, or None if it is unknown or revoked.

        Args:
            secret: The token as the caller sent it.
            look_again: Whether to read the tokens again if it is unknown, which costs a query.
        """
        if not secret or len(secret) > LONGEST_SECRET:
            return None
        digest = digest_of(secret)
        if look_again and digest not in self._by_digest and self._loads and self._may_look():
            self.refresh()
        token = self._by_digest.get(digest)
        return token if token is not None and hmac.compare_digest(token.digest, digest) else None

    def _may_look(self) -> bool:
        """Take one of the queries that unknown tokens may cause; return False if none is left."""
        with self._looking:
            now_s = self._steady()
            self._looks = min(self._looks + (now_s - self._looked_s) * LOOKS_PER_S, LOOKS)
            self._looked_s = now_s
            if self._looks < 1.0:
                return False
            self._looks -= 1.0
            return True

    def check_token(self, secret: str, *, ask: bool = True) -> Identity | None:
        """Return the identity of a token, or None if it is unknown or revoked."""
        token = self.find(secret, look_again=ask)
        return None if token is None else identity_of(token)

    def session_of(self, connection: HTTPConnection, *, ask: bool = True) -> Identity | None:
        """Return who sent a request or opened a WebSocket, by its bearer token, else its session cookie.

        If the bearer token is invalid, the cookie is ignored.
        """
        header = connection.headers.get("authorization")
        if header is not None:
            return self.check_token(bearer(header), ask=ask)
        return next(iter(self.cookies_of(connection)), None)

    def cookies_of(self, connection: HTTPConnection) -> list[Identity]:
        """Return the identity of each session cookie of a request, regardless of its bearer token."""
        read = (
            self.sessions.read(each, self._by_id.get, self._clock()) for each in session_cookies(connection)
        )
        return [identity_of(*found) for found in read if found is not None]

    def same_origin(self, connection: HTTPConnection) -> bool:
        """Return False if a browser's Origin is another site than the Host. Other programs send no Origin."""
        origin = connection.headers.get("origin")
        if origin is None:
            return True
        host = connection.headers.get("host", "")
        return origin_agrees(origin, host, connection.url.scheme, self._settings.public_origin)

    def still_valid(self, identity: Identity) -> bool:
        """Return False once the token behind an identity is revoked or renewed, or its session ended."""
        token = self._by_id.get(identity.token_id)
        if token is None or token.digest != identity.digest:
            return False
        return identity.session is None or not self._ended.holds(identity.session)

    def end_session(self, identity: Identity) -> None:
        """End the browser session of an identity: all copies of its cookie stop working."""
        if identity.session is not None:
            self._ended.add(identity.session, self._clock())

    def issue_cookie(self, token: Token) -> str:
        """Return the value of a new session cookie."""
        return self.sessions.issue(token, self._clock())


def session_cookies(connection: HTTPConnection) -> list[str]:
    """Return the values of the session cookie, at most :data:`MOST_COOKIES`.

    With a server at ``/`` and one at ``/tocsin`` on the same host, the latter receives the cookies of both.
    """
    pairs = [part.partition("=") for part in connection.headers.get("cookie", "").split(";")]
    return [value.strip() for name, _, value in pairs if name.strip() == COOKIE][:MOST_COOKIES]


def identity_of(token: Token, session: Session | None = None) -> Identity:
    """Return the identity of a token, or of a session of it."""
    return Identity(token.id, token.name, token.scope, token.project, token.digest, session)


def bearer(header: str) -> str:
    """Return the token of an Authorization header, or ``""`` for another scheme."""
    scheme, _, value = header.partition(" ")
    return value.strip() if scheme.lower() == "bearer" else ""


@dataclass(frozen=True, slots=True)
class FileToken:
    """A token whose secret is kept in the data directory, because ``serve`` prints it at every start."""

    id: str
    name: str
    scope: Scope
    file: str

    def secret(self, data_dir: Path) -> str:
        """Return the secret, created at the first call. Raises OSError."""
        return secret_file(data_dir / self.file, new_secret)

    def renew(self, data_dir: Path) -> str:
        """Return a new secret. The old one and its sessions become invalid within two seconds."""
        (data_dir / self.file).unlink(missing_ok=True)
        return self.secret(data_dir)

    def stored(self, data_dir: Path) -> Token:
        """Return this token in the form of those in the database."""
        digest = digest_of(self.secret(data_dir))
        return Token(id=self.id, name=self.name, scope=self.scope, project="", digest=digest, created_ns=0)


ADMIN = FileToken(ADMIN_ID, "login link", Scope.ADMIN, "admin-token")
TRAINER = FileToken(CLIENT_ID, "lines to paste", Scope.INGEST, "trainer-token")
FILE_TOKENS = (ADMIN, TRAINER)


def file_tokens(settings: Settings) -> list[Token]:
    """Return the tokens of the data directory. Beyond loopback, they are valid only if configured."""
    if not (settings.loopback or settings.allow_admin_link):
        return []
    return [token.stored(settings.data_dir) for token in FILE_TOKENS]


def secret_file(path: Path, make: Callable[[], str]) -> str:
    """Return the secret stored at ``path``; create it with mode 0600 if there is none. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    kept = _kept(path)
    if kept:
        return kept
    # Written to another file and linked, so that a process starting now sees all of it or nothing.
    aside = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        _write_private(aside, make())
        _link(aside, path)
    finally:
        aside.unlink(missing_ok=True)
    return _kept(path)


def _kept(path: Path) -> str:
    try:
        return path.read_text("ascii").strip()
    except FileNotFoundError:
        return ""


def _write_private(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text + "\n")


def _link(aside: Path, path: Path) -> None:
    if path.exists() and not _kept(path):
        os.replace(aside, path)
        return
    try:
        os.link(aside, path)
    except FileExistsError:
        return
    except OSError:  # a file system without hard links
        os.replace(aside, path)
